//! Completes the checksum of a frame that is not segmented.
use std::ops::Range;

use super::{PartialChecksum, checksum};

/// The positions of a frame's checksum and of the bytes that it covers, with the sum over a local copy of the frame's
/// first bytes.
///
/// ```
/// # use virtio::net::{FinishChecksum, PartialChecksum, checksum};
/// # let frame = [7_u8; 100];
/// let partial = PartialChecksum { start: 34, offset: 6 };
/// let mut head = frame[..64].to_vec();
/// let finish = FinishChecksum::new(partial, &head, frame.len() as u32)?;
/// let rest = checksum::sum(&frame[64..]); // what the copy of `finish.rest()` delivers
/// finish.finish(&mut head, rest);
/// # Ok::<(), virtio::net::ChecksumBeyondHead>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinishChecksum {
    start: usize,
    field: usize,
    head_bytes: usize,
    frame_bytes: u32,
}

/// The checksum field is not inside the bytes that were copied first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("checksum field ends at {needed} bytes, beyond the first {head_bytes} bytes of the frame")]
pub struct ChecksumBeyondHead {
    /// Bytes of the frame up to the field's end.
    pub needed: usize,
    /// Bytes that were copied.
    pub head_bytes: usize,
}

impl FinishChecksum {
    /// Bytes from the frame's start that must be copied first.
    pub const fn head_needed(partial: PartialChecksum) -> usize {
        partial.start as usize + partial.offset as usize + 2
    }

    /// Prepares the checksum of a frame of `frame_bytes` bytes whose first bytes are `head`.
    ///
    /// # Errors
    /// The checksum field ends beyond `head` or beyond the frame. [`FinishChecksum::head_needed`] bytes must be
    /// copied first.
    pub fn new(partial: PartialChecksum, head: &[u8], frame_bytes: u32) -> Result<Self, ChecksumBeyondHead> {
        let head_bytes = head.len().min(frame_bytes as usize);
        let needed = Self::head_needed(partial);
        if needed > head_bytes {
            return Err(ChecksumBeyondHead { needed, head_bytes });
        }
        Ok(FinishChecksum { start: partial.start.into(), field: needed - 2, head_bytes, frame_bytes })
    }

    /// The part of the frame whose sum [`FinishChecksum::finish`] needs: all bytes that are not in the head.
    pub fn rest(&self) -> Range<u32> {
        self.head_bytes as u32..self.frame_bytes
    }

    /// Stores the checksum, given the sum of [`FinishChecksum::rest`]. Until then the field holds the pseudo header's
    /// sum (VIRTIO 1.3 §5.1.6.2), so it is summed with the rest.
    ///
    /// A head that is shorter than the one given to `new` is left unchanged.
    pub fn finish(&self, head: &mut [u8], rest_sum: u16) {
        let Some(head) = head.get_mut(..self.head_bytes) else { return };
        let covered = &head[self.start..];
        let sum = checksum::concat(checksum::sum(covered), covered.len(), rest_sum);
        // The field may be UDP's, where 0 would mean "none"; no other protocol minds 0xffff.
        head[self.field..self.field + 2].copy_from_slice(&checksum::nonzero_field(sum).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{PacketBuilder, TransportSlice};
    use proptest::prelude::*;

    #[test]
    fn a_field_beyond_the_head_is_an_error() {
        let partial = PartialChecksum { start: 34, offset: 16 };
        assert_eq!(FinishChecksum::head_needed(partial), 52);
        assert!(FinishChecksum::new(partial, &[0; 52], 100).is_ok());
        let error = |head_bytes| Err(ChecksumBeyondHead { needed: 52, head_bytes });
        assert_eq!(FinishChecksum::new(partial, &[0; 51], 100), error(51));
        assert_eq!(FinishChecksum::new(partial, &[0; 64], 51), error(51));
        let far = PartialChecksum { start: u16::MAX, offset: u16::MAX };
        assert!(FinishChecksum::new(far, &[0; 64], u32::MAX).is_err());
    }

    #[test]
    fn a_sum_of_zero_is_stored_as_all_ones() {
        let mut head = [0xff, 0xff, 0, 0];
        let finish = FinishChecksum::new(PartialChecksum { start: 0, offset: 2 }, &head, 4).unwrap();
        finish.finish(&mut head, 0);
        assert_eq!(head, [0xff; 4]);
    }

    proptest! {
        #[test]
        fn the_finished_field_is_what_the_packet_should_have(
            payload in prop::collection::vec(any::<u8>(), 0..300),
            tcp: bool,
            head_bytes in 64_usize..140,
        ) {
            let ip = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
            let mut frame = Vec::new();
            match tcp {
                true => ip.tcp(1, 2, 3, 4).write(&mut frame, &payload).unwrap(),
                false => ip.udp(1, 2).write(&mut frame, &payload).unwrap(),
            }
            let offset = if tcp { 16 } else { 6 };
            let protocol = if tcp { 6 } else { 17 };
            let mut right = frame.clone();
            if right[34 + offset..][..2] == [0, 0] {
                right[34 + offset..][..2].fill(0xff); // The same to every verifier.
            }
            let pseudo =
                checksum::pseudo_v4([10, 0, 0, 1], [10, 0, 0, 2], protocol, (frame.len() - 34) as u16);
            frame[34 + offset..][..2].copy_from_slice(&pseudo.to_be_bytes());
            let mut head = frame[..head_bytes.min(frame.len())].to_vec();
            let partial = PartialChecksum { start: 34, offset: offset as u16 };
            match FinishChecksum::new(partial, &head, frame.len() as u32) {
                Ok(finish) => {
                    let rest = finish.rest();
                    let rest = checksum::sum(&frame[rest.start as usize..rest.end as usize]);
                    finish.finish(&mut head, rest);
                    prop_assert_eq!(&head[..], &right[..head.len()]);
                }
                Err(_) => prop_assert!(false, "the field is inside every head of this test"),
            }
            let parsed = etherparse::SlicedPacket::from_ethernet(&right).unwrap();
            prop_assert_eq!(tcp, matches!(parsed.transport, Some(TransportSlice::Tcp(_))));
        }
    }
}
