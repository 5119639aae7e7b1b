//! What is written is read back, and no bytes are read that are not there.
use std::net::IpAddr;

use flow::{Field, Key};
use proptest::prelude::*;
use tunnels::{
    Ends, Header, Kind, Malformed, OptionMap, Outer, PartialSum, Received, Settings, Sum, pseudo_header,
};

const OPTION: OptionMap = OptionMap { class: 0x102, kind: 0x80, bytes: 4, index: 0 };
const INNER: usize = 60;

fn ends(is_v6: bool) -> [IpAddr; 2] {
    match is_v6 {
        false => [[192, 0, 2, 1].into(), [192, 0, 2, 2].into()],
        true => ["fd00::1".parse().unwrap(), "fd00::2".parse().unwrap()],
    }
}

/// A frame in a tunnel, with its checksum completed.
fn frame(kind: Kind, is_v6: bool, key: Option<u64>, checksum: bool, inner: &[u8]) -> Vec<u8> {
    let mut fields = Key::ZERO;
    fields.set(Field::TunnelMetadata0, 0x0001_0002);
    let [from, to] = ends(is_v6);
    let outer = Outer {
        next_hop: [2, 0, 0, 0, 0, 2],
        source: [2, 0, 0, 0, 0, 1],
        from,
        to,
        tos: 4,
        ttl: 64,
        kind,
        ports: [50_000, kind.default_port()],
        key,
        checksum,
        options: &[OPTION],
        fields: &fields,
    };
    let mut header = Header::new();
    assert!(header.write(&outer, inner.len()));
    let mut sum = Sum::default();
    sum.add(inner);
    header.complete(sum.folded());
    [header.bytes(), inner].concat()
}

fn read(frame: &[u8]) -> Option<Result<Received<'_>, Malformed>> {
    let kind = |port| [Kind::Geneve, Kind::Vxlan].into_iter().find(|kind| kind.default_port() == port);
    Received::read(frame, frame.len(), |_| true, kind)
}

/// The sum of what a checksum covers is all ones.
fn is_summed(frame: &[u8], received: &Received<'_>) -> bool {
    let PartialSum { start, .. } = received.checksum.unwrap();
    let mut sum = Sum::default();
    sum.add_sum(received.covered_before());
    sum.add(&frame[usize::from(start)..received.end]);
    sum.folded() == 0xffff
}

#[test]
fn headers_are_read_as_they_were_written() {
    let inner: Vec<u8> = (0..INNER as u8).collect();
    for kind in Kind::ALL {
        for is_v6 in [false, true] {
            for key in [None, Some(0x12_3456)] {
                for checksum in [false, true] {
                    let frame = frame(kind, is_v6, key, checksum, &inner);
                    let received = read(&frame).unwrap().unwrap();
                    let [from, to] = ends(is_v6);
                    assert_eq!((received.kind, received.from, received.to), (kind, from, to));
                    assert_eq!(received.key, if kind == Kind::Gre { key } else { Some(key.unwrap_or(0)) });
                    assert_eq!((received.tos, received.ttl, received.end), (4, 64, frame.len()));
                    assert_eq!(frame[received.inner_at..], inner);
                    let has_sum = checksum || is_v6 && kind != Kind::Gre;
                    assert_eq!(received.checksum.is_some(), has_sum, "{kind:?} {is_v6}");
                    assert!(!has_sum || is_summed(&frame, &received));
                    let fields = received.fields(&[OPTION]).unwrap();
                    let option = if kind == Kind::Geneve { 0x0001_0002 } else { 0 };
                    assert_eq!(fields.get(Field::TunnelMetadata0), option);
                    assert_eq!(fields.get(Field::TunnelId), key.unwrap_or(0).into());
                    if kind == Kind::Geneve {
                        assert_eq!(received.fields(&[]), Err(Malformed::Critical));
                    }
                }
            }
        }
    }
}

/// A checksum of UDP over IPv4, by hand: RFC 768.
#[test]
fn the_pseudo_header_has_addresses_protocol_and_length() {
    let [from, to] = ends(false);
    assert_eq!(
        pseudo_header(from, to, 17, 8),
        (0xc000u32 + 0x0201 + 0xc000 + 0x0202 + 17 + 8 - 0xffff) as u16
    );
}

#[test]
fn a_frame_belongs_to_the_most_specific_tunnel() {
    let inner = [0; INNER];
    let frame = frame(Kind::Gre, false, Some(7), false, &inner);
    let received = read(&frame).unwrap().unwrap();
    let mut tunnels = Ends::default();
    let [from, to] = ends(false);
    let any = Settings { key: None, ..Settings::new(Kind::Gre, None) };
    let all = [
        any.clone(),
        Settings { key: Some(7), ..any.clone() },
        Settings { remote: Some(from), ..any.clone() },
        Settings { local: Some(to), ..any.clone() },
        Settings { local: Some(from), ..any.clone() },
    ];
    for (number, settings) in all.iter().enumerate() {
        tunnels.add(settings, number).unwrap();
        assert!(tunnels.add(settings, 9).is_err());
        assert_eq!(tunnels.of(&received), Some(&number.min(3)));
    }
    assert_eq!((tunnels.kind_of_port(0), tunnels.kind_of_port(6081)), (None, None));
    for settings in all.iter().rev().skip(1) {
        tunnels.remove(settings);
    }
    assert_eq!(tunnels.of(&received), None);
    let port = Settings { port: 9, ..Settings::new(Kind::Vxlan, Some(to)) };
    tunnels.add(&port, 1).unwrap();
    assert_eq!((tunnels.kind_of_port(9), tunnels.kind_of_port(8)), (Some(Kind::Vxlan), None));
}

proptest! {
    #[test]
    fn no_bytes_are_read_beyond_a_frame(
        kind in 0..3usize, is_v6: bool, cut in 0..200usize,
        changes in prop::collection::vec((12..120usize, any::<u8>()), 0..6)
    ) {
        let mut frame = frame(Kind::ALL[kind], is_v6, Some(5), true, &[9; INNER]);
        for (at, byte) in changes {
            if let Some(old) = frame.get_mut(at) {
                *old = byte;
            }
        }
        frame.truncate(cut.max(14));
        let Some(Ok(received)) = read(&frame) else { return Ok(()) };
        prop_assert!(received.end <= frame.len());
        prop_assert!(received.inner_at + 14 <= received.end);
        prop_assert!(received.checksum.is_none_or(|sum| usize::from(sum.start) < received.inner_at));
        let _ = received.fields(&[OPTION]);
    }
}
