use std::time::Duration;

use measure::Failure;

/// A guest that causes a known number of exits, or burns a known time, for checking traces and the kernel's accounting.
/// It has one running CPU.
pub struct KnownGuest(Machine);

impl KnownGuest {
    /// Makes the virtual machine.
    ///
    /// # Errors
    /// The virtual machine cannot be made: no `/dev/kvm`, or one that cannot run unmodified guests.
    pub fn prepare() -> Result<Self, Failure> {
        Machine::prepare().map(Self)
    }

    /// Makes the CPU write `count` times to a place that this process handles (a port on x86-64, an address without
    /// memory on arm64), and once more at the end. `count` is at most [`crate::costs::MOST_SAMPLES`].
    ///
    /// # Errors
    /// The guest's program does not end: KVM_RUN fails, or the guest causes another exit.
    pub fn write(&mut self, count: usize) -> Result<(), Failure> {
        self.0.write(count)
    }

    /// Makes the CPU spin for `time` by its own counter, without an exit of its own but the last. Returns its steal time:
    /// how long it was ready and did not run, as the kernel tells the guest.
    ///
    /// # Errors
    /// The guest's program does not end, or the kernel does not tell guests their steal time.
    pub fn burn(mut self, time: Duration) -> Result<Duration, Failure> {
        self.0.tell_steal_time()?;
        // KVM writes the steal time when a thread enters the CPU.
        let mut stolen = |time| self.0.spin(time).map(|()| self.0.stolen_ns());
        let before = stolen(Duration::ZERO)?;
        stolen(time)?;
        Ok(Duration::from_nanos(stolen(Duration::ZERO)?.saturating_sub(before)))
    }
}

#[cfg(target_arch = "x86_64")]
use x86::Machine;

#[cfg(target_arch = "aarch64")]
use crate::costs::KnownMachine as Machine;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::sync::Arc;
    use std::time::Duration;

    use measure::Failure;

    use crate::micro_vm::{Arguments, MicroVm, Program, Vcpu, layout};

    pub struct Machine {
        vm: MicroVm,
        vcpus: [Vcpu; 2],
    }

    impl Machine {
        pub fn prepare() -> Result<Self, Failure> {
            let (vm, vcpus) = MicroVm::new(None, Arc::default())?;
            Ok(Self { vm, vcpus })
        }

        pub fn write(&mut self, count: usize) -> Result<(), Failure> {
            self.vcpus[0].run(Program::OutUser, Arguments { samples: count, ..Default::default() })
        }

        pub fn spin(&mut self, time: Duration) -> Result<(), Failure> {
            let ticks = u128::from(self.vcpus[0].tsc_khz()?) * time.as_micros() / 1000;
            self.vcpus[0].run(Program::Spin, Arguments { first: ticks as u64, ..Default::default() })
        }

        pub fn tell_steal_time(&self) -> Result<(), Failure> {
            self.vcpus[0].tell_steal_time(layout::STEAL)
        }

        pub fn stolen_ns(&self) -> u64 {
            self.vm.memory.load(layout::STEAL)
        }
    }
}
