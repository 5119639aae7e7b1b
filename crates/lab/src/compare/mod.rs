//! `compare`: plan, prove the environments, measure in turns.

mod cyclictest;
mod external;
mod job;
mod kvm_costs;
mod network;
mod options;
mod rounds;
mod run_plan;
mod selection;
mod session;
mod slots;
mod ticks;

use std::time::Instant;

use linux::interrupt;
use linux::progress::Progress;
use measure::{Failure, Results, SCHEMA};

use crate::origin::VERSION;
use crate::runner::Runner;
use crate::{Launcher, now};
pub use options::{Options, PlanError};
pub use run_plan::RunPlan;
use session::Session;
use slots::EnvironmentSlots;

/// Measures everything in the plan. `keep` is called after every block with the results so far.
///
/// # Errors
/// The agent's launcher cannot be made, or the system has no valid date. A failure of one environment is no error;
/// it is recorded in the results.
pub fn run(run_plan: &RunPlan, progress: &Progress, keep: impl Fn(&Results)) -> Result<Results, Failure> {
    let files = run_plan.externals.iter().flat_map(|external| external.files.clone()).collect();
    let launcher = Launcher::new(files)?;
    let began = Instant::now();
    let results = Results {
        schema: SCHEMA.into(),
        tautline: VERSION.into(),
        started: now()?,
        elapsed_s: 0.0,
        complete: false,
        command: std::env::args().collect(),
        host: measure::host_facts::HostFacts::gather(),
        plan: run_plan.plan.clone(),
        environments: Vec::new(),
        metrics: run_plan.specs(),
        absences: Vec::new(),
        trials: Vec::new(),
        network: run_plan.network.network(),
    };
    let runner = Runner::new(run_plan.plan.cpus.len(), run_plan.plan.quick);
    let mut session = Session { plan: run_plan, launcher: &launcher, progress, runner, results };
    let mut slots = EnvironmentSlots::prove(&mut session);
    rounds::measure(&mut session, &mut slots, |results| {
        results.elapsed_s = began.elapsed().as_secs_f64();
        keep(results);
    });
    drop(slots);
    let mut results = session.results;
    drop(launcher);
    results.complete = !interrupt::is_set();
    results.elapsed_s = began.elapsed().as_secs_f64();
    Ok(results)
}
