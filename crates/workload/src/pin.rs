//! Binds threads to one CPU each.

use linux::cpus;
use measure::Failure;

/// Binds the calling thread to a CPU.
pub(crate) fn pin_to(cpu: usize) -> Result<(), Failure> {
    pin_to_all(&[cpu])
}

/// Binds the calling thread to some CPUs.
pub(crate) fn pin_to_all(wanted: &[usize]) -> Result<(), Failure> {
    cpus::bind(wanted).map_err(|error| {
        Failure::new(
            format!("binding a thread to the CPUs {wanted:?}"),
            error,
            format!("choose among the CPUs that this environment may use: {}", usable_text()),
        )
    })
}

/// CPUs that the calling thread may run on.
pub(crate) fn usable_cpus() -> Vec<usize> {
    cpus::usable().unwrap_or_default()
}

fn usable_text() -> String {
    cpus::usable().map_or_else(|_| "unknown".into(), |usable| cpus::list(&usable))
}
