//! Frames with their net headers, from a sender's buffers to a receiver's.

use std::sync::LazyLock;

use frame::{ETHERNET_HEADER_BYTES, LARGEST_FRAME_BYTES};
use net_queues::testing::{Bench, Delivered};
use virtio::net::{Accepts, HeaderLayout, NetHeader};

use crate::script::Script;

static BENCH: LazyLock<Bench> = LazyLock::new(|| Bench::new().expect("memory for frames"));

/// Delivers a frame of any bytes with any net header, in any pieces, to a receiver that accepts any set of offloads.
/// The delivered bytes must be those of the frame, no more, and must not need an offload that the receiver does not
/// accept.
pub fn frames(bytes: &[u8]) {
    let mut script = Script(bytes);
    let header = NetHeader::from_bytes(&script.array(), HeaderLayout::Full);
    let accepts = accepts(script.byte());
    let splits: Vec<usize> = (0..script.byte() % 8).map(|_| script.byte().into()).collect();
    let split = usize::from(script.byte());
    let length = usize::from(script.word());
    let given = script.0;
    // The remaining bytes are repeated, so that a short input makes a long frame.
    let mut frame = given.to_vec();
    if !given.is_empty() {
        frame.extend(given.iter().cycle().take(length));
    }
    let Ok(delivered) = BENCH.deliver(&header, &frame, &splits, &accepts, split) else { return };
    assert!(!delivered.is_empty());
    for Delivered { header, frame: out } in &delivered {
        assert!(
            out.len() >= ETHERNET_HEADER_BYTES && out.len() <= LARGEST_FRAME_BYTES,
            "{} bytes",
            out.len()
        );
        assert!(out.len() <= frame.len() + 8, "{} bytes of {}", out.len(), frame.len());
        assert_eq!(out[..6], frame[..6], "the receiver's address");
        assert!(accepts.checksum || header.flags & NetHeader::F_NEEDS_CSUM == 0, "{header:?}");
    }
    if let [one] = &delivered[..] {
        assert_eq!(one.frame.len(), frame.len());
    }
}

fn accepts(bits: u8) -> Accepts {
    let has = |bit: u8| bits & 1 << bit != 0;
    Accepts {
        checksum: has(0),
        // As features demand: none of the others without the first.
        tcp_v4: has(0) && has(1),
        tcp_v6: has(0) && has(2),
        ecn: has(0) && has(3),
        udp_fragments: has(0) && has(4),
        udp_segments: has(0) && has(5),
    }
}
