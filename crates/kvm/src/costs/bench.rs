//! The machine on which the rows are measured.

use std::sync::Arc;

use measure::Failure;

use super::alignment::Alignment;
use super::settings::{MOST_SAMPLES, Settings};
use crate::micro_vm::{MicroVm, Stop, Vcpu, layout};

/// Samples that are discarded at the start, while caches warm up and halt polling grows to its longest.
pub const WARM_UP: usize = 32;
const _: () = assert!(MOST_SAMPLES + WARM_UP <= layout::MOST_SAMPLES);

/// A machine with a host thread for each of its CPUs.
pub struct Bench {
    pub vm: MicroVm,
    pub vcpus: [Vcpu; 2],
    pub settings: Settings,
    /// The alignment of the guest's clock; `None` before it was measured, or if the clocks drift.
    pub alignment: Option<Alignment>,
    /// Ends programs that run in the machine.
    pub stop: Arc<Stop>,
}

impl Bench {
    /// Makes the virtual machine. The clocks are not aligned yet. KVM polls a halted CPU for at most `halt_poll_ns`;
    /// `None` leaves the system's setting.
    ///
    /// # Errors
    /// The virtual machine cannot be made, as in [`MicroVm::new`].
    pub fn new(settings: &Settings, halt_poll_ns: Option<u64>, stop: Arc<Stop>) -> Result<Self, Failure> {
        let (vm, vcpus) = MicroVm::new(halt_poll_ns, stop.clone())?;
        Ok(Self { vm, vcpus, settings: settings.clone(), alignment: None, stop })
    }

    /// The number of samples, including the discarded ones at the start.
    pub fn samples(&self) -> usize {
        self.settings.samples + WARM_UP
    }
}
