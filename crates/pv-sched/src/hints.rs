//! The memory in which a guest's vCPUs announce their tasks.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use measure::Failure;
use memory::{AtomicSlice, Mapping};

/// The most vCPUs of a guest that can give hints.
pub const SLOTS: usize = 32;

/// Words of 64 bits of a vCPU: a cache line, so that one vCPU's hints do not slow down another's.
const SLOT_WORDS: usize = 8;

/// Bytes of all hints.
pub const BYTES: u64 = (SLOTS * SLOT_WORDS * size_of::<u64>()) as u64;

/// The hint of a vCPU, with each word read once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    /// Whether an important task runs, or is ready to run.
    pub runs: bool,
    /// When the next task is due, ns of the host's CLOCK_MONOTONIC; 0 for never.
    pub due_ns: u64,
}

/// The hints of one guest, for both ends. Only the guest writes them. Each vCPU has a slot.
#[derive(Debug)]
pub struct Hints {
    words: AtomicSlice<AtomicU64>,
}

impl Hints {
    /// Maps the [`BYTES`] bytes of hints at `offset` in shared memory, on which host and guest have agreed.
    ///
    /// # Errors
    /// The memory is too small, or cannot be mapped.
    pub fn map(memory: impl AsFd, offset: u64) -> Result<Self, Failure> {
        let failed = |error: String| {
            Failure::new("mapping the hints of a guest's scheduler", error, "share a whole page of memory")
        };
        let mapping =
            Mapping::shared(memory, 0, offset + BYTES).map_err(|error| failed(error.to_string()))?;
        let words = AtomicSlice::new(&Arc::new(mapping), offset, SLOTS * SLOT_WORDS, offset);
        Ok(Hints { words: words.map_err(|error| failed(error.to_string()))? })
    }

    /// Called by the guest: sets whether an important task runs on this vCPU.
    pub fn set_runs(&self, slot: usize, runs: bool) {
        self.words[slot % SLOTS * SLOT_WORDS].store(runs.into(), Ordering::Release);
    }

    /// Called by the guest: sets when the next important task of this vCPU is due, ns of the host's CLOCK_MONOTONIC;
    /// 0 for never.
    pub fn set_due_ns(&self, slot: usize, due_ns: u64) {
        self.words[slot % SLOTS * SLOT_WORDS + 1].store(due_ns, Ordering::Release);
    }

    /// The present hint of this vCPU.
    pub fn read(&self, slot: usize) -> Hint {
        let at = slot % SLOTS * SLOT_WORDS;
        Hint {
            runs: self.words[at].load(Ordering::Acquire) != 0,
            due_ns: self.words[at + 1].load(Ordering::Acquire),
        }
    }
}
