//! What para-virtualized scheduling gives: the same ticks on a CPU that is shared, shared with the receiver raised by its
//! hints, and not shared, in turns.

use std::thread;
use std::time::Duration;

use environment::Spec;
use linux::interrupt;
use measure::{Failure, Histogram};
use serde::{Deserialize, Serialize};
use workload::ticks::Load;

use super::job::Job;
use super::receiver::Receiver;
use crate::Launcher;

/// From one tick of the second environment to the next: it is there for its load.
const NEIGHBOURS_INTERVAL: Duration = Duration::from_millis(50);
/// How long its load goes on before and after the ticks that are measured.
const MARGIN: Duration = Duration::from_millis(500);
/// A little more than the daemon takes to wake and to raise a thread.
const LEAD: Duration = Duration::from_micros(60);

/// How soon the daemon sees that a tick is done with.
const LOOK: Duration = Duration::from_micros(50);

/// How the receiver's CPU is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// With the second environment, both as the host's scheduler decides.
    Shared,
    /// The same, with the receiver raised by its hints.
    Raised,
    /// Not shared.
    Alone,
}

impl Sharing {
    /// In the order of the table.
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

/// One round of one kind.
#[derive(Serialize, Deserialize)]
pub struct Round {
    /// How the receiver's CPU was used.
    pub sharing: Sharing,
    /// From due to running in user space.
    pub from_due: Histogram,
    /// Ticks that did not arrive.
    pub lost: u64,
    /// For how much of the time the receiver was raised.
    pub raised_share: f64,
    /// How often the budget for raising ended.
    pub exhausted: u64,
}

/// What is the same for all environments.
pub struct Turns<'a> {
    /// What runs beside the receiver in its environment.
    pub load: Option<Load>,
    /// Which ticks are sent.
    pub job: &'a Job,
    /// How often each kind is measured.
    pub rounds: u32,
    /// What starts the environments.
    pub launcher: &'a Launcher,
}

/// One environment.
#[derive(Serialize, Deserialize)]
pub struct PvSched {
    /// Its name.
    pub environment: String,
    /// Whether its CPU, or one further out, is emulated.
    pub is_emulated: bool,
    /// In their order, or why there are none.
    pub outcome: Result<Vec<Round>, Failure>,
}

impl PvSched {
    /// Starts the environment twice, and measures in turns: forth, back, forth.
    pub fn measure(name: &str, spec: &Spec, turns: &Turns<'_>) -> Self {
        let mut is_emulated = false;
        let outcome = measure(name, spec, turns, &mut is_emulated);
        PvSched { environment: name.to_owned(), is_emulated, outcome }
    }

    /// The 99th percentiles with, over those without, round by round.
    pub fn ratios(&self) -> Vec<f64> {
        let p99 = |sharing: Sharing| -> Vec<f64> {
            let rounds = self.outcome.iter().flatten().filter(|round| round.sharing == sharing);
            rounds.map(|round| round.from_due.quantile_ns(0.99) as f64).collect()
        };
        let (shared, raised) = (p99(Sharing::Shared), p99(Sharing::Raised));
        raised.iter().zip(&shared).map(|(raised, shared)| raised / shared.max(1.0)).collect()
    }
}

fn measure(
    name: &str,
    spec: &Spec,
    turns: &Turns<'_>,
    is_emulated: &mut bool,
) -> Result<Vec<Round>, Failure> {
    let Turns { load, rounds, launcher, .. } = *turns;
    let mut job = turns.job.clone();
    // In a guest its own kernel puts it before the load; on the host it is as a virtual CPU is: an ordinary thread.
    if !matches!(spec, Spec::Vm(_)) {
        job.receiver.priority = None;
    }
    job.receiver.hints = true;
    let length = job.source.interval * u32::try_from(job.source.ticks).unwrap_or(u32::MAX);
    let mut neighbours = job.clone();
    neighbours.receiver.hints = false;
    neighbours.receiver.interval_ns = NEIGHBOURS_INTERVAL.as_nanos() as u64;
    neighbours.receiver.silence_ms += NEIGHBOURS_INTERVAL.as_millis() as u64;
    neighbours.source.interval = NEIGHBOURS_INTERVAL;
    neighbours.source.ticks = ((length + 2 * MARGIN).as_nanos() / NEIGHBOURS_INTERVAL.as_nanos()) as u64;
    (neighbours.source.spin, neighbours.source.priority) = (Duration::ZERO, None);
    let mut receiver = Receiver::start("tti", name, spec, job.receiver_cpu, launcher)?;
    let mut neighbour = Receiver::start("tti-beside", name, spec, job.receiver_cpu, launcher)?;
    let priority = job.source.priority.unwrap_or(1);
    let settings = pv_sched::Settings {
        // Before the source, which spins, and in time for both.
        priority,
        lead: LEAD,
        look: LOOK,
        cpus: job.source.cpu.into_iter().collect(),
        ..pv_sched::Settings::default()
    };
    let mut found = Vec::new();
    for round in 0..rounds {
        let mut order = Sharing::ALL;
        if round % 2 == 1 {
            order.reverse();
        }
        for sharing in order {
            if interrupt::is_set() {
                return Ok(found);
            }
            job.raise = (sharing == Sharing::Raised).then(|| settings.clone());
            let outcome = if sharing == Sharing::Alone {
                receiver.measure(load, &job)?
            } else {
                thread::scope(|scope| {
                    let beside = scope.spawn(|| neighbour.measure(Some(Load::Cpu), &neighbours));
                    thread::sleep(MARGIN);
                    let outcome = receiver.measure(load, &job);
                    let beside = beside
                        .join()
                        .unwrap_or_else(|_| Err(Failure::panicked("computing beside the receiver")));
                    beside.and(outcome)
                })?
            };
            *is_emulated = outcome.is_emulated;
            let raised = outcome.raised.unwrap_or_default();
            if let Some(failed) = raised.failed {
                let tried = format!("raising thread {} by its hints", raised.thread);
                return Err(Failure::new(tried, failed, "run as root or with CAP_SYS_NICE"));
            }
            found.push(Round {
                sharing,
                from_due: outcome.received.from_due,
                lost: outcome.received.lost,
                raised_share: raised.raised_ns as f64 / length.as_nanos() as f64,
                exhausted: raised.exhausted,
            });
        }
    }
    Ok(found)
}
