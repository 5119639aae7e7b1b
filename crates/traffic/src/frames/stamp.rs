//! The stamp at the start of every frame's UDP payload: flow, number in the flow, and when the frame was due.

/// Length of a stamp in bytes. With Ethernet, IPv4 and UDP in front (42 bytes) it ends at byte 60, so it
/// fits into the smallest frame. With a VLAN tag it ends at byte 64.
pub const STAMP_BYTES: usize = 18;

/// First two bytes of a stamp: tells our frames from the neighbours'.
const MAGIC: u16 = 0x7a1e;

/// One frame's identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The number of the flow.
    pub flow: u16,
    /// The number of the frame in its flow, from 0; 48 bits.
    pub sequence: u64,
    /// When the frame was due, in ns on the sender's clock.
    pub due_ns: u64,
}

impl Stamp {
    /// The bytes of the stamp.
    #[inline(always)]
    pub fn to_bytes(self) -> [u8; STAMP_BYTES] {
        let mut bytes = [0; STAMP_BYTES];
        bytes[..2].copy_from_slice(&MAGIC.to_be_bytes());
        bytes[2..10].copy_from_slice(&self.name().to_be_bytes());
        bytes[10..].copy_from_slice(&self.due_ns.to_be_bytes());
        bytes
    }

    /// The sum that the stamp adds to a one's complement sum, in words of up to 32 bits that are not yet folded. It
    /// is computed from the fields. Loading the bytes would be slow, because they were just stored in smaller pieces.
    #[inline(always)]
    pub(super) fn sum(self) -> u64 {
        let halves = |word: u64| (word >> 32) + (word & u64::from(u32::MAX));
        u64::from(MAGIC) + halves(self.name()) + halves(self.due_ns)
    }

    #[inline(always)]
    fn name(self) -> u64 {
        u64::from(self.flow) << 48 | self.sequence & SEQUENCE_MASK
    }

    /// Reads a stamp; `None` if the bytes are no stamp.
    #[inline(always)]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; STAMP_BYTES] = bytes.get(..STAMP_BYTES)?.try_into().ok()?;
        let word = |at: usize| u64::from_be_bytes(std::array::from_fn(|i| bytes[at + i]));
        let name = word(2);
        (bytes[..2] == MAGIC.to_be_bytes()).then_some(Stamp {
            flow: (name >> 48) as u16,
            sequence: name & SEQUENCE_MASK,
            due_ns: word(10),
        })
    }
}

const SEQUENCE_MASK: u64 = (1 << 48) - 1;

#[cfg(test)]
mod tests {
    use virtio::net::checksum;

    use super::*;

    #[test]
    fn the_sum_of_the_fields_is_that_of_the_bytes() {
        for (flow, sequence, due_ns) in [(0, 0, 0), (65535, SEQUENCE_MASK, u64::MAX), (3, 1 << 40, 77 << 30)]
        {
            let stamp = Stamp { flow, sequence, due_ns };
            assert_eq!(checksum::fold(stamp.sum()), checksum::sum(&stamp.to_bytes()), "{stamp:?}");
        }
    }

    #[test]
    fn a_stamp_survives_the_wire() {
        let stamp = Stamp { flow: 65535, sequence: (1 << 48) - 2, due_ns: u64::MAX - 5 };
        assert_eq!(Stamp::from_bytes(&stamp.to_bytes()), Some(stamp));
        assert_eq!(Stamp::from_bytes(&[0; STAMP_BYTES]), None);
        assert_eq!(Stamp::from_bytes(&stamp.to_bytes()[1..]), None);
    }
}
