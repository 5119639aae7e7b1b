//! The machine of [`crate::KnownGuest`].

use std::time::Duration;

use measure::Failure;

use super::counter;
use super::layout::STEAL;
use super::program::Program;
use super::vm::Machine;

/// The machine.
pub struct KnownMachine(Machine);

impl KnownMachine {
    pub fn prepare() -> Result<Self, Failure> {
        Machine::new().map(Self)
    }

    pub fn write(&mut self, count: usize) -> Result<(), Failure> {
        self.0.write(count, &mut || Ok(()))
    }

    pub fn spin(&mut self, time: Duration) -> Result<(), Failure> {
        let ticks = u128::from(counter::khz()) * time.as_micros() / 1000;
        self.0.execute(Program::Spin, 0, ticks as u64)
    }

    pub fn tell_steal_time(&self) -> Result<(), Failure> {
        self.0.tell_steal_time(STEAL)
    }

    pub fn stolen_ns(&self) -> u64 {
        self.0.stolen_ns(STEAL)
    }
}
