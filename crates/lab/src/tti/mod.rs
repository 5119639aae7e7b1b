//! `tautline tti`: sends numbered ticks at absolute times and measures when each reaches user space, in several
//! environments in turns.

mod job;
mod pv_sched;
mod receiver;
mod results;
mod row;
mod stages;
mod trial;

use linux::interrupt;
use linux::progress::Progress;
use measure::Failure;
use workload::ticks::Load;

use crate::runner::{Runner, Tried};
use crate::{Launcher, Origin, PlannedEnvironment};
pub use job::{Job, USUAL_BUDGET};
pub use pv_sched::{PvSched, Round, Sharing, Turns};
pub use receiver::Receiver;
pub use results::Results;
pub use row::{Outcome, Row, load_name};
use trial::TicksTrial;

/// The schema of this version's files.
pub const SCHEMA: &str = "tautline-tti/1";

/// The settings of a measurement.
pub struct Plan {
    /// The environments, in order.
    pub environments: Vec<PlannedEnvironment>,
    /// The loads on the receiver's CPU, in order.
    pub loads: Vec<Option<Load>>,
    /// The settings of the ticks.
    pub job: Job,
    /// The number of rounds of a measurement of para-virtualized scheduling. Such a measurement has no rows.
    pub pv_sched_rounds: Option<u32>,
}

/// Measures all environments of the plan. SIGINT ends it early.
///
/// # Errors
/// The causes of [`Origin::now`]. A failure of one environment is recorded in its row.
pub fn run(plan: &Plan, launcher: &Launcher, progress: &Progress) -> Result<Results, Failure> {
    let job = &plan.job;
    let mut results = Results {
        origin: Origin::now(SCHEMA)?,
        interval_ns: job.source.interval.as_nanos() as u64,
        budget_ns: job.receiver.budget_ns,
        cpus: [job.source.cpu.unwrap_or_default(), job.receiver_cpu],
        wait: job.receiver.wait,
        rows: Vec::new(),
        pv_sched: Vec::new(),
    };
    let cpus = job.cpus();
    let mut measuring =
        Measuring { plan, launcher, progress, runner: Runner::new(cpus.len(), false), cpus: &cpus };
    for place in &plan.environments {
        match plan.pv_sched_rounds {
            Some(rounds) => results.pv_sched.push(measuring.pv_sched(place, rounds)),
            None => results.rows.extend(measuring.rows(place)),
        }
    }
    Ok(results)
}

/// A measurement in progress.
struct Measuring<'a> {
    plan: &'a Plan,
    launcher: &'a Launcher,
    progress: &'a Progress,
    runner: Runner,
    /// The CPUs of the source and of the receiver, each once.
    cpus: &'a [usize],
}

impl Measuring<'_> {
    /// Para-virtualized scheduling in one environment.
    fn pv_sched(&mut self, place: &PlannedEnvironment, rounds: u32) -> PvSched {
        let job = &self.plan.job;
        self.progress
            .doing(format!("{}: {rounds} rounds of {} ticks, three ways", place.name, job.source.ticks));
        let load = self.plan.loads.iter().find_map(|load| *load);
        let turns = Turns { load, job, rounds, launcher: self.launcher };
        PvSched::measure(place, &turns, &mut self.runner)
    }

    /// One environment under each load.
    fn rows(&mut self, place: &PlannedEnvironment) -> Vec<Row> {
        let (job, name) = (&self.plan.job, &place.name);
        let mut rows = Vec::new();
        let mut receiver = None;
        for load in self.plan.loads.iter().copied() {
            if interrupt::is_set() {
                break;
            }
            self.progress.doing(format!("{name}, load {}: {} ticks", load_name(load), job.source.ticks));
            let started = match &mut receiver {
                Some(receiver) => Ok(receiver),
                None => Receiver::start("tti", place, job.receiver_cpu, self.launcher)
                    .map(|started| receiver.insert(started)),
            };
            let tried = match started {
                Ok(receiver) => self.runner.trial(&mut TicksTrial { receiver, load, job, cpus: self.cpus }),
                Err(failure) => Tried { discarded: Vec::new(), counted: Err(failure) },
            };
            if tried.counted.is_err() {
                // The next load gets a new receiver.
                receiver = None;
            }
            let (outcome, discarded) = (tried.counted, tried.discarded);
            rows.push(Row { environment: name.clone(), load, outcome, discarded });
        }
        rows
    }
}
