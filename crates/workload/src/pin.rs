//! Threads on one CPU each.

use measure::Failure;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

const CALLER: Pid = Pid::from_raw(0);

/// Binds the calling thread to a CPU.
pub(crate) fn pin_to(cpu: usize) -> Result<(), Failure> {
    pin_to_all(&[cpu])
}

/// Binds the calling thread to some CPUs.
pub(crate) fn pin_to_all(cpus: &[usize]) -> Result<(), Failure> {
    let mut set = CpuSet::new();
    let bound = cpus.iter().try_for_each(|&cpu| set.set(cpu)).and_then(|()| sched_setaffinity(CALLER, &set));
    bound.map_err(|error| {
        Failure::new(
            format!("binding a thread to the CPUs {cpus:?}"),
            error,
            format!("choose among the CPUs that this environment may use: {}", usable_text()),
        )
    })
}

/// CPUs that the calling thread may run on.
pub(crate) fn usable_cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(CALLER) else { return Vec::new() };
    (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect()
}

fn usable_text() -> String {
    let cpus: Vec<String> = usable_cpus().iter().map(usize::to_string).collect();
    if cpus.is_empty() { "unknown".into() } else { cpus.join(", ") }
}
