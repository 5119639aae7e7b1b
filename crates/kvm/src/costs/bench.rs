//! The machine that the rows are measured on.

use std::sync::Arc;

use measure::Failure;

use super::alignment::Alignment;
use super::settings::{MOST_SAMPLES, Settings};
use crate::micro_vm::{MicroVm, Stop, Vcpu, layout};

/// Samples before those that count: caches warm, halt polling grows to its longest.
pub const WARM_UP: usize = 32;
const _: () = assert!(MOST_SAMPLES + WARM_UP <= layout::MOST_SAMPLES);

/// A machine with a thread for each of its CPUs.
pub struct Bench {
    pub vm: MicroVm,
    pub vcpus: [Vcpu; 2],
    pub settings: Settings,
    /// How well the guest's clock is known, where it is.
    pub alignment: Option<Alignment>,
    /// Ends what runs in it.
    pub stop: Arc<Stop>,
}

impl Bench {
    /// Makes the virtual machine. The clocks are not aligned yet. KVM polls a halted CPU for at most `halt_poll_ns`;
    /// None leaves the system's setting.
    ///
    /// # Errors
    /// The virtual machine cannot be made, as in [`MicroVm::new`].
    pub fn new(settings: &Settings, halt_poll_ns: Option<u64>, stop: Arc<Stop>) -> Result<Self, Failure> {
        let (vm, vcpus) = MicroVm::new(halt_poll_ns, stop.clone())?;
        Ok(Self { vm, vcpus, settings: settings.clone(), alignment: None, stop })
    }

    /// Samples with those before that do not count.
    pub fn samples(&self) -> usize {
        self.settings.samples + WARM_UP
    }
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
