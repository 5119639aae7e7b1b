//! Checksums of frames that are much longer than their header window.
mod ports;

use flow::{Flow, Key};
use flow_tables::{Change, Limits, Outcome, Tables};
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
