//! Measures what para-virtualized scheduling gives. One sequence of ticks is received in three cases, in turns: on a
//! shared CPU, on a shared CPU with the receiver raised by its hints, and on a CPU of its own.

use std::thread;
use std::time::Duration;

use environment::Spec;
use linux::interrupt;
use measure::quota::Throttling;
use measure::{Failure, Histogram};
use serde::{Deserialize, Serialize};
use workload::ticks::Load;

use super::job::Job;
use super::receiver::Receiver;
use crate::runner::{Attempt, Runner, Subject};
use crate::{Launcher, PlannedEnvironment};

/// From one tick of the second environment to the next: it is there for its load.
const NEIGHBOURS_INTERVAL: Duration = Duration::from_millis(50);
/// How long its load goes on before and after the ticks that are measured.
const MARGIN: Duration = Duration::from_millis(500);
/// A little more than the daemon takes to wake and to raise a thread.
const LEAD: Duration = Duration::from_micros(60);

/// How soon the daemon sees that a tick is done with.
const LOOK: Duration = Duration::from_micros(50);

/// What else uses the receiver's CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// The second environment shares the CPU, and the host's scheduler decides alone.
    Shared,
    /// The second environment shares the CPU, and the receiver is raised by its hints.
    Raised,
    /// Not shared.
    Alone,
}

impl Sharing {
    /// All cases in the order of the table.
    pub const ALL: [Self; 3] = [Self::Shared, Self::Raised, Self::Alone];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Raised => "shared, pv-sched",
            Self::Alone => "alone",
        }
    }
}

/// One round of one case.
#[derive(Serialize, Deserialize)]
pub struct Round {
    /// How the receiver's CPU was used.
    pub sharing: Sharing,
    /// The time from due to running in user space, ns.
    pub from_due: Histogram,
    /// Ticks that did not arrive.
    pub lost: u64,
    /// The share of the time in which the receiver was raised.
    pub raised_share: f64,
    /// How often the budget for raising was used up.
    pub exhausted: u64,
}

/// The settings of all environments.
pub struct Turns<'a> {
    /// The load on the receiver's CPU in its own environment.
    pub load: Option<Load>,
    /// The settings of the ticks.
    pub job: &'a Job,
    /// How often each case is measured.
    pub rounds: u32,
    /// Starts the environments.
    pub launcher: &'a Launcher,
}

/// One environment.
#[derive(Serialize, Deserialize)]
pub struct PvSched {
    /// Its name.
    pub environment: String,
    /// Whether the environment's CPU, or one below it, is emulated.
    pub is_emulated: bool,
    /// The rounds in the order in which they were measured, also the discarded ones; or why there are none.
    pub outcome: Result<Vec<Attempt<Round>>, Failure>,
}

impl PvSched {
    /// Starts the environment twice, and measures the cases in turns: forward, backward, forward.
    pub fn measure(place: &PlannedEnvironment, turns: &Turns<'_>, runner: &mut Runner) -> Self {
        let mut is_emulated = false;
        let outcome = measure(place, turns, runner, &mut is_emulated);
        PvSched { environment: place.name.clone(), is_emulated, outcome }
    }

    /// The rounds of a case that count.
    pub fn rounds(&self, sharing: Sharing) -> impl Iterator<Item = &Round> {
        let counted = self.outcome.iter().flatten().filter_map(Attempt::counted);
        counted.filter(move |round| round.sharing == sharing)
    }

    /// For each round, the 99th percentile with hints divided by the 99th percentile without hints.
    pub fn ratios(&self) -> Vec<f64> {
        let p99 = |sharing: Sharing| -> Vec<f64> {
            self.rounds(sharing).map(|round| round.from_due.quantile_ns(0.99) as f64).collect()
        };
        let (shared, raised) = (p99(Sharing::Shared), p99(Sharing::Raised));
        raised.iter().zip(&shared).map(|(raised, shared)| raised / shared.max(1.0)).collect()
    }
}

fn measure(
    place: &PlannedEnvironment,
    turns: &Turns<'_>,
    runner: &mut Runner,
    is_emulated: &mut bool,
) -> Result<Vec<Attempt<Round>>, Failure> {
    let mut pair = Pair::start(place, turns)?;
    let mut found = Vec::new();
    for round in 0..turns.rounds {
        let mut order = Sharing::ALL;
        if round % 2 == 1 {
            order.reverse();
        }
        for sharing in order {
            if interrupt::is_set() {
                return Ok(found);
            }
            let tried = runner.trial(&mut Case { pair: &mut pair, sharing });
            *is_emulated = pair.is_emulated;
            found.extend(tried.discarded);
            found.push(tried.counted?);
        }
    }
    Ok(found)
}

/// An environment that was started twice on one CPU.
struct Pair<'a> {
    /// The environment that is measured.
    receiver: Receiver<'a>,
    /// The environment that computes beside it.
    neighbour: Receiver<'a>,
    /// The load in the measured environment.
    load: Option<Load>,
    /// The ticks of the measured environment.
    job: Job,
    /// The ticks of the environment beside it.
    beside: Job,
    /// The settings of the thread that raises the receiver.
    raise: pv_sched::Settings,
    /// How long a round takes.
    length: Duration,
    /// The CPUs of the source and of both receivers, each once.
    cpus: Vec<usize>,
    /// Whether the latest round was on an emulated CPU.
    is_emulated: bool,
}

impl<'a> Pair<'a> {
    fn start(place: &PlannedEnvironment, turns: &Turns<'a>) -> Result<Self, Failure> {
        let mut job = turns.job.clone();
        // In a guest its own kernel puts it before the load; on the host it is as a virtual CPU is: an ordinary thread.
        if !matches!(place.spec, Spec::Vm(_)) {
            job.receiver.priority = None;
        }
        job.receiver.hints = true;
        let length = job.source.interval * u32::try_from(job.source.ticks).unwrap_or(u32::MAX);
        let mut beside = job.clone();
        beside.receiver.hints = false;
        beside.receiver.interval_ns = NEIGHBOURS_INTERVAL.as_nanos() as u64;
        beside.receiver.silence_ms += NEIGHBOURS_INTERVAL.as_millis() as u64;
        beside.source.interval = NEIGHBOURS_INTERVAL;
        beside.source.ticks = ((length + 2 * MARGIN).as_nanos() / NEIGHBOURS_INTERVAL.as_nanos()) as u64;
        (beside.source.spin, beside.source.priority) = (Duration::ZERO, None);
        let start = |folder| Receiver::start(folder, place, job.receiver_cpu, turns.launcher);
        let (receiver, neighbour) = (start("tti")?, start("tti-beside")?);
        let raise = pv_sched::Settings {
            // The daemon runs one priority above this one, and so before the source, which spins.
            priority: job.source.priority.unwrap_or(1),
            lead: LEAD,
            look: LOOK,
            cpus: job.source.cpu.into_iter().collect(),
            ..pv_sched::Settings::default()
        };
        let (load, cpus) = (turns.load, job.cpus());
        Ok(Pair { receiver, neighbour, load, job, beside, raise, length, cpus, is_emulated: false })
    }
}

/// One case of a pair.
struct Case<'a, 'b> {
    pair: &'a mut Pair<'b>,
    sharing: Sharing,
}

impl Subject for Case<'_, '_> {
    type Measured = Round;
    type Failed = Failure;

    fn cpus(&self) -> &[usize] {
        &self.pair.cpus
    }

    fn throttling(&self) -> Throttling {
        self.pair.receiver.throttling()
    }

    fn measure(&mut self) -> Result<Round, Failure> {
        let (pair, sharing) = (&mut *self.pair, self.sharing);
        pair.job.raise = (sharing == Sharing::Raised).then(|| pair.raise.clone());
        let Pair { receiver, neighbour, load, job, beside, .. } = pair;
        let outcome = if sharing == Sharing::Alone {
            receiver.measure(*load, job)?
        } else {
            thread::scope(|scope| {
                let computing = scope.spawn(|| neighbour.measure(Some(Load::Cpu), beside));
                thread::sleep(MARGIN);
                let outcome = receiver.measure(*load, job);
                let computed = computing
                    .join()
                    .unwrap_or_else(|_| Err(Failure::panicked("computing beside the receiver")));
                computed.and(outcome)
            })?
        };
        pair.is_emulated = outcome.is_emulated;
        let raised = outcome.raised.unwrap_or_default();
        if let Some(failed) = raised.failed {
            let tried = format!("raising thread {} by its hints", raised.thread);
            return Err(Failure::new(tried, failed, "run as root or with CAP_SYS_NICE"));
        }
        Ok(Round {
            sharing,
            from_due: outcome.received.from_due,
            lost: outcome.received.lost,
            raised_share: raised.raised_ns as f64 / pair.length.as_nanos() as f64,
            exhausted: raised.exhausted,
        })
    }

    fn elapsed_ns(&self, _: &Round) -> u64 {
        self.pair.length.as_nanos() as u64
    }
}
