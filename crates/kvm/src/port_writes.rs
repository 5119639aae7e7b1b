use std::sync::Arc;

use measure::Failure;

use crate::micro_vm::{Arguments, MicroVm, Program, Vcpu};

/// A guest that causes a known number of exits, for checking traces.
pub struct PortWrites {
    _vm: MicroVm,
    vcpus: [Vcpu; 2],
}

impl PortWrites {
    /// Makes the virtual machine.
    ///
    /// # Errors
    /// The virtual machine cannot be made: no `/dev/kvm`, or one that cannot run unmodified guests.
    pub fn prepare() -> Result<Self, Failure> {
        let (vm, vcpus) = MicroVm::new(None, Arc::default())?;
        Ok(Self { _vm: vm, vcpus })
    }

    /// Makes the first CPU write `count` times to a port that this process handles, and once more at the end.
    ///
    /// # Errors
    /// The guest's program does not end: KVM_RUN fails, or the guest causes another exit.
    pub fn make(&mut self, count: usize) -> Result<(), Failure> {
        self.vcpus[0].run(Program::OutUser, Arguments { samples: count, ..Default::default() })
    }
}
