//! The page that a guest shares with its host.

use std::os::fd::AsFd;
use std::sync::Arc;

use clocks::{EXCHANGE_BYTES, Exchange};
use measure::Failure;

use crate::hints::{self, Hints};

/// Its size.
pub const BYTES: u64 = 4096;
/// Behind the hints: questions of the host's time, by which tasks are due.
const EXCHANGE_AT: u64 = hints::BYTES;
const _: () = assert!(EXCHANGE_AT + EXCHANGE_BYTES <= BYTES);

/// The page, for both ends.
#[derive(Debug)]
pub struct Page {
    /// The hints of the guest's vCPUs.
    pub hints: Arc<Hints>,
    /// The words through which the guest asks for the host's time.
    pub exchange: Exchange,
}

impl Page {
    /// Maps it.
    ///
    /// # Errors
    /// The memory is smaller than [`BYTES`], or cannot be mapped.
    pub fn map(memory: impl AsFd) -> Result<Self, Failure> {
        let memory = memory.as_fd();
        Ok(Page { hints: Arc::new(Hints::map(memory, 0)?), exchange: Exchange::map(memory, EXCHANGE_AT)? })
    }
}
