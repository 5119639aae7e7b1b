//! Flows over UDP, and the hash by which RSS gives each a queue.
use crate::bench::FRAME_BYTES;

/// The first bytes of the key that most drivers use, as published with RSS.
const KEY: u128 = 0x6d5a_56da_255b_0ec2_4167_253d_43a3_8fb0;
/// The first source port.
const FIRST_PORT: u16 = 49152;

/// The fields that RSS hashes, in its order.
#[derive(Clone, Copy)]
pub struct Flow {
    source: [u8; 4],
    destination: [u8; 4],
    source_port: u16,
    destination_port: u16,
}

/// That many flows from one station to another.
pub fn flows(from: u8, to: u8, count: usize) -> impl Iterator<Item = Flow> {
    let flow = move |source_port| Flow {
        source: [10, 0, 0, from],
        destination: [10, 0, 0, to],
        source_port,
        destination_port: 9,
    };
    (FIRST_PORT..).take(count).map(flow)
}

impl Flow {
    fn bytes(&self) -> [u8; 12] {
        let [ports, destination_port] = [self.source_port, self.destination_port].map(u16::to_be_bytes);
        let addresses = [self.source, self.destination].concat();
        [&addresses[..], &ports, &destination_port].concat().try_into().unwrap()
    }

    /// The Toeplitz hash.
    pub fn hash(&self) -> u32 {
        let bits =
            self.bytes().into_iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1));
        let windows = bits.zip(0..).filter(|(set, _)| *set).map(|(_, at)| ((KEY << at) >> 96) as u32);
        windows.fold(0, |hash, window| hash ^ window)
    }

    /// A frame of the flow.
    pub fn frame(&self, to: [u8; 6], from: [u8; 6]) -> Vec<u8> {
        let packet = (FRAME_BYTES - 14) as u16;
        let [packet_bytes, datagram_bytes] = [packet, packet - 20].map(u16::to_be_bytes);
        let fields = self.bytes();
        let ethernet = [&to[..], &from, &[8, 0]].concat();
        let ip = [&[0x45, 0], &packet_bytes[..], &[0, 0, 0, 0, 64, 17, 0, 0], &fields[..8]].concat();
        let udp = [&fields[8..], &datagram_bytes, &[0, 0]].concat();
        let mut frame = [ethernet, ip, udp].concat();
        frame.resize(FRAME_BYTES, 0xa5);
        frame
    }
}

#[test]
fn the_hash_is_that_of_rss() {
    // The first two of the examples that were published with RSS.
    let hash = |source, source_port, destination, destination_port| {
        Flow { source, destination, source_port, destination_port }.hash()
    };
    assert_eq!(hash([66, 9, 149, 187], 2794, [161, 142, 100, 80], 1766), 0x51cc_c178);
    assert_eq!(hash([199, 92, 111, 2], 14230, [65, 69, 140, 83], 4739), 0xc626_b0ea);
}
