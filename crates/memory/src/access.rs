//! What is to be done with an address, and why it cannot be.

/// What the device is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read what the driver wrote.
    Read,
    /// Write what the driver will read.
    Write,
}

/// An address that does not lead to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Not in any region.
    #[error("{len:#x} bytes at {address:#x} are outside every memory region")]
    Outside {
        /// First address that is not there.
        address: u64,
        /// Bytes still wanted from there on.
        len: u64,
    },
    /// In more pieces than the caller takes.
    #[error("{len:#x} bytes at {address:#x} are left and lie in more regions than a buffer may")]
    Scattered {
        /// First address of the piece that is one too many.
        address: u64,
        /// Bytes still wanted from there on.
        len: u64,
    },
    /// Not in the IOTLB: ask the front-end, then try again.
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
