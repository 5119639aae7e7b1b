//! Checksums of frames that are much longer than their header window.
#[path = "../../flow/tests/common/mod.rs"]
mod common;
#[allow(dead_code, reason = "another test uses the rest")]
#[path = "openvswitch/flows.rs"]
mod flows;
#[path = "openvswitch/frames.rs"]
mod frames;
mod ports;

use common::Random;
use flow::{Field, Flow, Key, extract, protocol};
use flow_tables::{Cache, Change, HeaderWindow, Limits, Outcome, Tables};
use ports::Ports;

/// CRC32c of an SCTP packet whose checksum is zero (RFC 9260 appendix A).
fn crc32c(packet: &[u8]) -> u32 {
    !packet.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 != 0 { 0x82f6_3b78 } else { 0 })
    })
}

fn frame(payload: usize) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((20 + 12 + payload as u16).to_be_bytes());
    frame.extend([0, 1, 0, 0, 64, 132, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0, 5, 0, 6, 1, 2, 3, 4, 0, 0, 0, 0]);
    frame.extend((0..payload).map(|at| at as u8));
    let sum = crc32c(&frame[34..]).to_le_bytes();
    frame[42..46].copy_from_slice(&sum);
    frame
}

/// The checksum covers the whole packet. It is changed without reading what is behind the window.
#[test]
fn ports_of_long_sctp_packets_change_with_their_checksum() {
    let mut tables = Tables::new(1, 7, Limits::default());
    let text = "sctp actions=set_field:4711->sctp_src,set_field:80->sctp_dst,output:2";
    tables.change(Change::Add(Flow::parse(text).unwrap()), 0).unwrap();
    for payload in [0, 1, 17, 200, 1400, 9000, 65_503] {
        let frame = frame(payload);
        let window = &frame[..frame.len().min(flow::WINDOW_BYTES)];
        let mut outcome = Outcome::default();
        tables.execute(window, frame.len(), &Key::ZERO, &mut Ports, &mut outcome);
        let [delivery] = outcome.deliveries.as_slice() else { panic!("{:?}", outcome.deliveries) };
        let mut sent = outcome.header(&delivery.header).to_vec();
        sent.extend(&frame[window.len()..]);
        assert_eq!(sent[34..38], [0x12, 0x67, 0, 80]);
        let sum = sent[42..46].to_vec();
        sent[42..46].fill(0);
        assert_eq!(sum, crc32c(&sent[34..]).to_le_bytes(), "{payload} bytes of payload");
    }
}

/// Where the checksum of TCP, UDP or ICMPv6 is, and the sum of the addresses, modulo 65,535.
fn checksum_and_addresses(header: &[u8], frame_bytes: usize) -> Option<(usize, u64)> {
    let (key, layers) = extract(header, frame_bytes, 2);
    let behind = match key.get(Field::NwProto) as u8 {
        protocol::TCP => 16,
        protocol::UDP => 6,
        protocol::ICMPV6 if key.get(Field::EthType) == protocol::IPV6.into() => 2,
        _ => return None,
    };
    let fields = [Field::IpSrc, Field::IpDst, Field::Ipv6Src, Field::Ipv6Dst];
    let words = fields.iter().flat_map(|field| (0..8).map(|at| key.get(*field) >> (16 * at) & 0xffff));
    let sum = words.sum::<u128>() % 65_535;
    Some((usize::from(layers.transport?) + behind, sum as u64))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]))
}

/// A partial checksum is the sum of the pseudo header (VIRTIO 1.3 §5.1.6.2): it changes with the addresses, the other way
/// round than a finished one, and with nothing else.
#[test]
fn partial_checksums_follow_the_addresses_and_nothing_else() {
    let mut random = Random(91);
    let mut metadata = Key::ZERO;
    metadata.set(Field::InPortOxm, 1);
    let (mut outcome, mut cache) = (Outcome::default(), Cache::new(64, &metadata));
    let (mut same, mut changed) = (0, 0);
    for _ in 0..100 {
        let mut tables = Tables::new(2, 7, Limits::default());
        flows::groups().into_iter().for_each(|group| tables.set_group(group).unwrap());
        for text in flows::flows(&mut random) {
            tables.change(Change::Add(Flow::parse(&text).unwrap()), 0).unwrap();
        }
        for _ in 0..100 {
            let frame = frames::frame(&mut random);
            let Some((at, before)) = checksum_and_addresses(&frame, frame.len()) else { continue };
            let mut window = HeaderWindow::new(&frame, frame.len(), 2);
            window.leave(Some(at), None);
            cache.execute(&tables, &mut window, &mut Ports, &mut outcome);
            for delivery in &outcome.deliveries {
                let header = outcome.header(&delivery.header);
                // More than two tags hide the packet.
                let read = checksum_and_addresses(header, delivery.header.frame_bytes);
                let Some((moved, after)) = read else { continue };
                let wanted = (word(&frame, at) + after + 65_535 - before) % 65_535;
                assert_eq!(word(header, moved) % 65_535, wanted, "{frame:02x?}\n{header:02x?}");
                *(if before == after { &mut same } else { &mut changed }) += 1;
            }
        }
    }
    println!("{same} frames with the same addresses, {changed} with others");
    assert!(same > 2000 && changed > 500, "{same} {changed}");
}
