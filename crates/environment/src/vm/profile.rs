//! Applies a profile to a guest that uses given CPUs.

use ::vm::{CpuWishes, HostCpus, Plan, Profile};
use measure::Failure;

/// The plan for a guest with one vCPU for each of these CPUs and `memory_mib` MiB of memory.
///
/// # Errors
/// The host's CPUs cannot be read ([`HostCpus::here`]).
pub fn plan(profile: Profile, memory_mib: u64, cpus: &[usize]) -> Result<Plan, Failure> {
    // A thread that is bound to CPUs of the run must not hide the others.
    let host = HostCpus::here(cpus)?;
    let wishes = CpuWishes {
        profile,
        count: cpus.len(),
        vcpu_cpus: profile.places_threads().then(|| cpus.iter().copied().collect()),
        housekeeping: None,
        priority: None,
    };
    Ok(Plan::make(wishes, &host, Some(memory_mib), false))
}
