//! Bytes of a frame that are not in its known start.
use std::ops::Range;

use frame::Frame;
use tunnels::Sum;

/// Adds bytes of a frame to a sum. Returns false if the frame has not all of them.
pub(crate) fn add_bytes(sum: &mut Sum, frame: &Frame<'_>, range: Range<usize>) -> bool {
    let (mut at, mut chunk) = (range.start, [0; 1 << 10]);
    while at < range.end {
        let wanted = (range.end - at).min(chunk.len());
        let bytes = frame.read(at, &mut chunk[..wanted]);
        if bytes == 0 {
            return false;
        }
        sum.add(&chunk[..bytes]);
        at += bytes;
    }
    true
}
