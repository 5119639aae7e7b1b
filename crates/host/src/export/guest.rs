//! The guest that all export forms describe.

use measure::Failure;

use crate::cpu_list::CpuList;

/// The guest that all export forms describe.
#[derive(Clone, Debug)]
pub struct Guest {
    pub(super) name: String,
    /// The CPUs of the guest, one for each vCPU.
    pub(super) cpus: CpuList,
    /// The CPUs for QEMU's own threads and the host.
    pub(super) housekeeping: CpuList,
    pub(super) memory_mib: u64,
}

impl Guest {
    /// A guest with one vCPU for each CPU.
    ///
    /// # Errors
    /// The name is not an RFC 1123 label (1 to 63 of a-z, 0-9 and `-`, neither first nor last a `-`); `cpus` is
    /// empty; or `housekeeping` is empty or shares a CPU with `cpus`.
    pub fn new(name: &str, cpus: CpuList, housekeeping: CpuList, memory_mib: u64) -> Result<Self, Failure> {
        let failed = |answer: &str, remedy: &str| Err(Failure::new("describing a guest", answer, remedy));
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        // RFC 1123, which Kubernetes wants; the others take more.
        if name.is_empty()
            || name.len() > 63
            || !name.chars().all(plain)
            || name.starts_with('-')
            || name.ends_with('-')
        {
            return failed(&format!("{name:?} is no name for all of these tools"), "use a-z, 0-9 and -");
        }
        if cpus.is_empty() {
            return failed("it has no CPUs", "name them with --isolate");
        }
        if housekeeping.is_empty() || !housekeeping.and(&cpus).is_empty() {
            return failed(
                &format!("no CPU is left for QEMU's own threads beside {cpus} ({housekeeping})"),
                "name others with --housekeeping",
            );
        }
        Ok(Guest { name: name.into(), cpus, housekeeping, memory_mib })
    }
}
