//! `tautline tti`: sends numbered ticks at absolute times and measures when each reaches user space, in several
//! environments in turns.

mod job;
mod pv_sched;
mod receiver;
mod results;
mod row;
mod stages;

use environment::Spec;
use linux::interrupt;
use linux::progress::Progress;
use measure::Failure;
use workload::ticks::Load;

use crate::{Launcher, Origin};
pub use job::{Job, USUAL_BUDGET};
pub use pv_sched::{PvSched, Round, Sharing, Turns};
pub use receiver::Receiver;
pub use results::Results;
pub use row::{Outcome, Row, load_name};

/// The schema of this version's files.
pub const SCHEMA: &str = "tautline-tti/1";

/// The settings of a measurement.
pub struct Plan {
    /// Names and kinds of the environments, in order.
    pub environments: Vec<(String, Spec)>,
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
    for (name, spec) in &plan.environments {
        match plan.pv_sched_rounds {
            Some(rounds) => {
                progress.doing(format!("{name}: {rounds} rounds of {} ticks, three ways", job.source.ticks));
                let load = plan.loads.iter().find_map(|load| *load);
                results.pv_sched.push(PvSched::measure(name, spec, &Turns { load, job, rounds, launcher }));
            }
            None => results.rows.extend(rows(plan, (name, spec), launcher, progress)),
        }
    }
    Ok(results)
}

/// One environment under each load.
fn rows(plan: &Plan, (name, spec): (&String, &Spec), launcher: &Launcher, progress: &Progress) -> Vec<Row> {
    let job = &plan.job;
    let mut rows = Vec::new();
    let mut receiver = None;
    for load in plan.loads.iter().copied() {
        if interrupt::is_set() {
            break;
        }
        progress.doing(format!("{name}, load {}: {} ticks", load_name(load), job.source.ticks));
        let outcome = match &mut receiver {
            Some(receiver) => Ok(receiver),
            None => Receiver::start("tti", name, spec, job.receiver_cpu, launcher)
                .map(|started| receiver.insert(started)),
        };
        let outcome = outcome.and_then(|receiver| receiver.measure(load, job));
        if outcome.is_err() {
            // The next load gets a new one.
            receiver = None;
        }
        rows.push(Row { environment: name.clone(), load, outcome });
    }
    rows
}
