//! The errors in a ring that a peer writes.

use std::fmt;

use memory::{Access, Fault};

/// A rule of the specification that the peer's ring breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Malformed {
    /// More chains are available than the queue can hold.
    AvailableTooFarAhead,
    /// A head or next index is not in the table.
    DescriptorOutOfRange,
    /// More descriptors than the queue holds, or than any driver needs: the chain is too long, or loops.
    ChainTooLong,
    /// Buffers that lie in more regions of memory than any driver needs.
    TooManyPieces,
    /// A readable descriptor after a writable one.
    ReadableAfterWritable,
    /// The lengths add up to 4 GiB or more.
    LengthOverflow,
    /// An indirect descriptor without the feature.
    IndirectNotNegotiated,
    /// An indirect descriptor inside an indirect table.
    IndirectInIndirect,
    /// An indirect descriptor that also has a next descriptor.
    IndirectWithNext,
    /// An indirect table of no descriptors, of half a descriptor, or of too many.
    IndirectTableSize,
    /// A buffer id that no driver of this queue can have chosen.
    BufferIdOutOfRange,
    /// An address outside the memory that was shared.
    OutsideMemory,
    /// A used entry for a buffer that the device does not have.
    NotOutstanding,
    /// A used index that is ahead by more than the number of available buffers.
    UsedTooFarAhead,
    /// A used length longer than the buffer's writable part.
    UsedLengthTooLong,
    /// A ring that was used further than the front-end states, by an earlier device that left no record of its
    /// position.
    UsedBeyondBase,
    /// A write that the dirty log cannot record.
    LogTooSmall,
}

impl Malformed {
    /// What the rule says, and where the specification says it (split, packed).
    fn rule(self) -> (&'static str, &'static str, &'static str) {
        use Malformed::*;
        match self {
            AvailableTooFarAhead => ("available further ahead than the queue size", "§2.7.6", "§2.8.1"),
            DescriptorOutOfRange => ("descriptor index is not below the queue size", "§2.7.5", "§2.8.6"),
            ChainTooLong => {
                ("the chain loops or is longer than the queue size or 1024", "§2.7.5.2", "§2.8.6")
            }
            TooManyPieces => ("the chain's buffers lie in too many memory regions", "§2.7.5", "§2.8.5"),
            ReadableAfterWritable => {
                ("a device-readable descriptor follows a device-writable one", "§2.7.4.2", "§2.8.5")
            }
            LengthOverflow => ("the chain's lengths exceed 4 GiB", "§2.7.5.2", "§2.8.5"),
            IndirectNotNegotiated => ("INDIRECT_DESC was not negotiated", "§2.7.5.3.1", "§2.8.7"),
            IndirectInIndirect => ("INDIRECT inside an indirect table", "§2.7.5.3.1", "§2.8.7"),
            IndirectWithNext => ("INDIRECT together with NEXT", "§2.7.5.3.1", "§2.8.7"),
            IndirectTableSize => ("indirect table length in bytes is not usable", "§2.7.5.3.1", "§2.8.7"),
            BufferIdOutOfRange => ("buffer id is not below the queue size", "§2.7.8", "§2.8.5"),
            OutsideMemory => ("address is outside the shared memory", "§2.7.5", "§2.8.5"),
            NotOutstanding => ("used entry for a buffer that was not outstanding", "§2.7.8", "§2.8.9"),
            UsedTooFarAhead => ("more used than was made available", "§2.7.8", "§2.8.9"),
            UsedLengthTooLong => ("used length exceeds the writable part", "§2.7.8.1", "§2.8.9"),
            UsedBeyondBase => (
                "used beyond the base that the front-end gave, and its descriptors do not say how far; reset the \
                 device",
                "§2.7.8",
                "§2.8.1",
            ),
            LogTooSmall => {
                ("guest page has no bit in the dirty log", "vhost-user Migration", "vhost-user Migration")
            }
        }
    }
}

/// A place in a ring where an error was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// Index field of the available ring.
    AvailableIndex,
    /// Entry of the available ring.
    Available(u16),
    /// Descriptor of a split ring's table.
    Descriptor(u16),
    /// Slot of a packed ring.
    Slot(u16),
    /// Entry of the indirect table of a head or slot.
    Indirect {
        /// Head of the chain (split) or slot (packed) that has the table.
        of: u16,
        /// Entry in the table.
        entry: u16,
    },
    /// Index field of the used ring.
    UsedIndex,
    /// Entry of the used ring, or used descriptor of a packed ring.
    Used(u16),
    /// The dirty log.
    Log,
    /// An entry of the in-flight region.
    InFlight(u16),
}

impl Place {
    fn packed(self) -> bool {
        matches!(self, Place::Slot(_))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::AvailableIndex => write!(f, "available ring, idx"),
            Place::Available(i) => write!(f, "available ring, entry {i}"),
            Place::Descriptor(i) => write!(f, "descriptor table, entry {i}"),
            Place::Slot(i) => write!(f, "packed ring, slot {i}"),
            Place::Indirect { of, entry } => write!(f, "indirect table of {of}, entry {entry}"),
            Place::UsedIndex => write!(f, "used ring, idx"),
            Place::Used(i) => write!(f, "used ring, entry {i}"),
            Place::Log => write!(f, "dirty log"),
            Place::InFlight(i) => write!(f, "in-flight region, entry {i}"),
        }
    }
}

/// An error in a ring. The ring stays stopped until it is reset; other rings are not affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingError {
    /// The broken rule.
    pub rule: Malformed,
    /// Where.
    pub place: Place,
    /// The offending value, as read.
    pub value: u64,
}

impl std::error::Error for RingError {}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, split, packed) = self.rule.rule();
        let section = if self.place.packed() { packed } else { split };
        write!(f, "{} (VIRTIO 1.3 {section}): {what}: {:#x}", self.place, self.value)
    }
}

/// Why no chain could be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PopError {
    /// The ring is malformed and stopped. Every later call returns the same error.
    #[error("malformed ring, stopped until reset: {0}")]
    Malformed(#[from] RingError),
    /// The IOTLB lacks a translation. The caller must ask the front-end for it, and pop again when it has come.
    #[error("no translation yet for {access:?} at iova {iova:#x}")]
    Miss {
        /// The address to ask for.
        iova: u64,
        /// The right to ask for.
        access: Access,
    },
}

impl PopError {
    #[cold]
    pub(crate) fn malformed(rule: Malformed, place: Place, value: u64) -> Self {
        PopError::Malformed(RingError { rule, place, value })
    }

    #[cold]
    pub(crate) fn fault(fault: Fault, place: Place) -> Self {
        match fault {
            Fault::Outside { address, .. } => Self::malformed(Malformed::OutsideMemory, place, address),
            Fault::Scattered { address, .. } => Self::malformed(Malformed::TooManyPieces, place, address),
            Fault::Miss { iova, access } => PopError::Miss { iova, access },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_section_index_and_value() {
        let error =
            RingError { rule: Malformed::DescriptorOutOfRange, place: Place::Available(7), value: 300 };
        let text = error.to_string();
        assert!(text.contains("§2.7.5") && text.contains("entry 7") && text.contains("0x12c"), "{text}");
        let error = RingError { place: Place::Slot(3), ..error };
        assert!(error.to_string().contains("§2.8.6"), "{error}");
    }
}
