//! The stages of ticks, derived from the host's trace.

use kvm::events::{Pid, Recorder, Selection, Trace};
use measure::Failure;
use ticks::receiver::Received;
use ticks::stages::{Blamed, Host, Summary, blame, merge};
use ticks::{Page, Record, TICKS_KEPT};

use crate::tracing::Made;

/// The bytes of one tick's events on all CPUs.
const BYTES_A_TICK: u64 = 2048;
/// The least size of the buffer of each CPU.
const LEAST_KIB: u64 = 2 << 10;
const MOST_KIB: u64 = 64 << 10;

/// The host's trace during recording.
pub struct HostTrace(Recorder);

impl HostTrace {
    /// Starts the trace, with room for `ticks` ticks.
    ///
    /// # Errors
    /// No tracefs is mounted, or this trace's instance cannot be made or set up, which needs root.
    pub fn start(made: &mut Made<'_>, ticks: u64) -> Result<Self, Failure> {
        let tracefs = kvm::trace::tracefs()?;
        let instance = made.instance(&tracefs).map_err(|failure| Failure {
            remedy: "run as root, or without --stages".to_owned(),
            ..failure
        })?;
        let kib = (ticks.min(TICKS_KEPT as u64) * BYTES_A_TICK / 1024).clamp(LEAST_KIB, MOST_KIB);
        Recorder::start(&instance, &Selection::interrupts(kib as u32)).map(HostTrace)
    }

    /// Stops the trace and returns its events.
    ///
    /// # Errors
    /// The trace cannot be stopped or read.
    pub fn stop(self) -> Result<Trace, Failure> {
        self.0.stop()
    }
}

/// The stages of all ticks that the shared page still holds, from the receiver's times and the host's trace.
pub fn of(
    page: &Page,
    received: &Received,
    source: Pid,
    host: Option<Host<'_>>,
) -> (Summary, Option<Blamed>) {
    let latest = page.latest();
    let first = latest.saturating_sub(TICKS_KEPT as u64 - 1).max(1);
    let records: Vec<Record> = (first..=latest).filter_map(|number| page.record(number)).collect();
    let points = merge(&records, &received.alignments, &page.handlers(), host);
    let summary = Summary::of(&points);
    let blamed = blame(&points, &summary, source, host);
    (summary, blamed)
}
