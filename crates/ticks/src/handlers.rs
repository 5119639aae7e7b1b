//! The times at which the receiver's kernel handles the doorbell's interrupts, from a trace by that kernel.

use std::path::Path;

use kvm::events::{Kind, Recorder, Selection};
use measure::Failure;

/// A guest of ours mounts it there.
const TRACEFS: &str = "/sys/kernel/tracing";
/// The bytes of the events of a tick, a generous estimate.
const BYTES_A_TICK: u64 = 96;
const LEAST_KIB: u64 = 512;

/// The trace during recording.
pub struct Handlers(Recorder);

impl Handlers {
    /// Starts the trace, with room for `ticks` ticks. It uses the main tracefs instance of this machine.
    ///
    /// # Errors
    /// The kernel has no tracefs, or this process may not use it.
    pub fn start(ticks: u64) -> Result<Self, Failure> {
        let kept = ticks.min(crate::TICKS_KEPT as u64);
        let kib = (kept * BYTES_A_TICK / 1024).max(LEAST_KIB);
        Recorder::start(Path::new(TRACEFS), &Selection::handlers(kib as u32)).map(Handlers)
    }

    /// Stops the trace. Returns the times of the handlers of `vfio-pci`, on CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// The trace cannot be read.
    pub fn stop(self) -> Result<Vec<u64>, Failure> {
        let events = self.0.stop()?.events;
        let handlers = events
            .iter()
            .filter(|event| matches!(&event.kind, Kind::IrqEntry { name } if name.starts_with("vfio")));
        Ok(handlers.map(|event| event.time).collect())
    }
}
