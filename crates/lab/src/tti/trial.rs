//! One trial: ticks that one receiver gets under one load.

use measure::Failure;
use measure::quota::Throttling;
use workload::ticks::Load;

use super::job::Job;
use super::receiver::Receiver;
use super::row::Outcome;
use crate::runner::Subject;

/// One receiver under one load.
pub struct TicksTrial<'a, 'b> {
    /// The receiver.
    pub receiver: &'a mut Receiver<'b>,
    /// The load on the receiver's CPU.
    pub load: Option<Load>,
    /// The settings of the ticks.
    pub job: &'a Job,
    /// The CPUs of the source and of the receiver, each once.
    pub cpus: &'a [usize],
}

impl Subject for TicksTrial<'_, '_> {
    type Measured = Outcome;
    type Failed = Failure;

    fn cpus(&self) -> &[usize] {
        self.cpus
    }

    fn throttling(&self) -> Throttling {
        self.receiver.throttling()
    }

    fn measure(&mut self) -> Result<Outcome, Failure> {
        self.receiver.measure(self.load, self.job)
    }

    fn elapsed_ns(&self, measured: &Outcome) -> u64 {
        let instants = measured.sent.ticks.saturating_add(measured.sent.skipped);
        (self.job.source.interval.as_nanos() as u64).saturating_mul(instants)
    }
}
