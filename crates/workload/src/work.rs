//! Maps an entry of the catalogue to its code.

use measure::{Failure, NoiseProbe, Outcome, Preemption};

use crate::batch::{Measured, Pace};
use crate::cpu::{self, Computation, Operation};
use crate::memory::{self, AccessPattern, Arenas, PageKind, Traffic};
use crate::os::{self, Birth, Call, Channel, Exchange, Poll, Ring, Sockets};
use crate::trial::Trial;
use crate::wakeup::{self, IdleStates, Stress};

/// The measured work.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Compute { computation: Computation, cores: Cores },
    Operation(Operation),
    Bandwidth(Traffic),
    LoadLatency { order: AccessPattern, pages: PageKind, bytes: usize },
    Call(Call),
    Poll { poll: Poll, sockets: usize },
    ContextSwitch(Ring),
    Exchange { channel: Channel, exchange: Exchange },
    Process(Birth),
    Wakeup(Stress, IdleStates),
}

/// The number of the trial's CPUs that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cores {
    One,
    All,
}

/// Objects that the agent keeps between trials because they are expensive to make.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    arenas: Arenas,
    sockets: Sockets,
}

impl Work {
    /// Runs one trial. The calling thread is bound to the trial's first CPU.
    pub(crate) fn run(&self, trial: &Trial, pace: &mut Pace, kept: &mut Kept) -> Result<Outcome, Failure> {
        if let Work::Wakeup(stress, idle_states) = self {
            return wakeup::measure(*stress, *idle_states, trial);
        }
        let probe = NoiseProbe::start(self.preemption());
        let measured = self.batches(trial, pace, kept)?;
        Ok(measured.into_outcome(probe.finish()))
    }

    fn batches(&self, trial: &Trial, pace: &mut Pace, kept: &mut Kept) -> Result<Measured, Failure> {
        match self {
            Work::Wakeup(..) => unreachable!("a wake-up trial has no batches"),
            Work::Compute { computation, cores: Cores::One } => computation.on_one(trial, pace),
            Work::Compute { computation, cores: Cores::All } => computation.on_all(trial, pace),
            Work::Operation(operation) => cpu::operation_latency(*operation, trial, pace),
            Work::Bandwidth(traffic) => memory::bandwidth(*traffic, trial, pace, &mut kept.arenas),
            Work::LoadLatency { order, pages, bytes } => {
                memory::latency((*order, *pages, *bytes), trial, pace, &mut kept.arenas)
            }
            Work::Call(call) => call.measure(trial, pace),
            Work::Poll { poll, sockets } => os::poll((*poll, *sockets), trial, pace, &mut kept.sockets),
            Work::ContextSwitch(ring) => os::context_switch(*ring, trial, pace),
            Work::Exchange { channel, exchange } => os::exchange((*channel, *exchange), trial, pace),
            Work::Process(birth) => {
                kept.sockets = Sockets::default();
                birth.measure(trial, pace)
            }
        }
    }

    /// Whose preemptions disturb it.
    fn preemption(&self) -> Preemption {
        match self {
            Work::Compute { .. }
            | Work::Operation(_)
            | Work::Bandwidth(_)
            | Work::LoadLatency { .. }
            | Work::Call(_)
            | Work::Poll { .. } => Preemption::OfProcess,
            Work::ContextSwitch(_) | Work::Exchange { .. } | Work::Process(_) | Work::Wakeup(..) => {
                Preemption::NotCounted
            }
        }
    }
}
