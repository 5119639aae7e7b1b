use std::sync::Arc;

use measure::Failure;

use crate::micro_vm::{Arguments, MicroVm, Program, Vcpu};

/// A guest that makes a known number of exits: traces are checked against it.
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

    /// Lets the first CPU write `count` times to a port that this process handles, and once more to end.
    ///
    /// # Errors
    /// The guest's program does not come to its end: KVM_RUN fails, or the guest takes another exit.
    pub fn make(&mut self, count: usize) -> Result<(), Failure> {
        self.vcpus[0].run(Program::OutUser, Arguments { samples: count, ..Default::default() })
    }
}
