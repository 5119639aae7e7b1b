//! Frames from an underlay.

use tunnels::{Fragment, Header, Joined, Kind, Marked, OptionMap, Outer, Received, heard};

const OPTIONS: [OptionMap; 2] = [
    OptionMap { class: 0x102, kind: 0x80, bytes: 4, index: 0 },
    OptionMap { class: 0x102, kind: 0x81, bytes: 8, index: 7 },
];

fn read(frame: &[u8]) -> Option<Received<'_>> {
    let kind = |port| [Kind::Geneve, Kind::Vxlan].into_iter().find(|kind| kind.default_port() == port);
    Received::read(frame, frame.len(), |_| true, kind)?.ok()
}

/// Reads the headers of a fragment of any bytes. The headers of the whole are those of no fragment.
fn fragment(bytes: &[u8]) {
    let Some(fragment) = Fragment::read(bytes, bytes.len()) else { return };
    assert!(fragment.payload_at <= fragment.end && fragment.end <= bytes.len(), "{fragment:?}");
    let mut joined = Joined::new(bytes, &fragment).expect("the headers of a fragment that was read");
    joined.add(&fragment);
    if let Some(headers) = joined.headers() {
        let packet = [headers, &bytes[fragment.payload_at..fragment.end]].concat();
        assert_eq!(Fragment::read(&packet, packet.len()), None);
    }
}

/// Reads the outer headers of a frame of any bytes. The headers that were read lie in the frame, and headers that are
/// written from them are read as the same ones.
pub fn tunnel_headers(bytes: &[u8]) {
    let _ = heard(bytes);
    fragment(bytes);
    for outer in 0..4 {
        if let Ok(marked) = Marked::new(bytes, outer) {
            assert!(marked.bytes().len() <= bytes.len());
        }
    }
    let Some(received) = read(bytes) else { return };
    assert!(received.inner_at + 14 <= received.end && received.end <= bytes.len(), "{received:?}");
    assert!(received.checksum.is_none_or(|sum| usize::from(sum.start) < received.inner_at));
    let Ok(fields) = received.fields(&OPTIONS) else { return };
    let outer = Outer {
        next_hop: [2; 6],
        source: [4; 6],
        from: received.from,
        to: received.to,
        tos: received.tos,
        ttl: received.ttl,
        kind: received.kind,
        ports: [1, received.port],
        key: received.key,
        checksum: received.checksum.is_some(),
        options: &OPTIONS,
        fields: &fields,
    };
    let inner = &bytes[received.inner_at..received.end];
    let mut header = Header::new();
    if !header.write(&outer, inner.len()) {
        return;
    }
    let written = [header.bytes(), inner].concat();
    let again = read(&written).expect("what was written is read");
    assert_eq!((again.from, again.to, again.kind), (received.from, received.to, received.kind));
    assert_eq!((again.key, again.inner_at, again.end), (received.key, header.bytes().len(), written.len()));
    // No written header says whether the frame is for the switch itself.
    if !received.is_control {
        assert_eq!(again.fields(&OPTIONS), Ok(fields));
    }
}
