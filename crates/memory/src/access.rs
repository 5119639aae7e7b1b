//! Kinds of access to an address, and why an access fails.

/// What the device is about to do with the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read what the driver has written.
    Read,
    /// Write what the driver will read.
    Write,
}

/// An address that does not lead to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The address is not in any region.
    #[error("{len:#x} bytes at {address:#x} are outside every memory region")]
    Outside {
        /// The first address that is not in a region.
        address: u64,
        /// Bytes still needed from that address on.
        len: u64,
    },
    /// The range consists of more pieces than the caller accepts.
    #[error("{len:#x} bytes at {address:#x} are left and lie in more regions than a buffer may")]
    Scattered {
        /// The first address of the piece that exceeds the limit.
        address: u64,
        /// Bytes still needed from that address on.
        len: u64,
    },
    /// The IOTLB has no entry. The caller must ask the front-end for it, and then try again.
    #[error("no IOTLB entry permits {access:?} at {iova:#x}")]
    Miss {
        /// The address to ask for.
        iova: u64,
        /// The right to ask for.
        access: Access,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    Outside,
    Miss,
}
