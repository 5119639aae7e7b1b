//! The settings of a run, and what is reported before its rows.

use measure::Failure;

use super::alignment::Alignment;

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Samples for each row, at most [`MOST_SAMPLES`].
    pub samples: usize,
    /// Two CPUs of the host: one for the first virtual CPU, one for the second or for the thread that signals.
    pub cpus: [usize; 2],
}

/// Binds the calling thread to a CPU.
///
/// # Errors
/// `sched_setaffinity` refuses the CPU: it is offline, or this process's cpuset lacks it.
pub fn pin(cpu: usize) -> Result<(), Failure> {
    linux::cpus::bind(&[cpu]).map_err(|error| {
        Failure::new(format!("moving to CPU {cpu}"), error, "name CPUs that this process may use")
    })
}

/// The most samples of a row.
pub const MOST_SAMPLES: usize = 50_000;

/// The settings that a run reports before its rows.
pub struct Prepared {
    /// Whether the CPU is emulated.
    pub emulated: bool,
    /// Frequency of the guest's time-stamp counter, in kHz.
    pub tsc_khz: u32,
    /// The alignment of the clocks.
    pub alignment: Option<Alignment>,
}
