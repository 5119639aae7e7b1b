//! The content of a run's text and page.

use std::time::Duration;

use lab::chains::{Environment, Results, Run};
use linux::duration;
use report::html::figures::Table;
use scenario::chain::Stage;

use super::mark::marked;
use super::users;

/// The tables in the order in which they are shown.
pub struct View {
    pub load: String,
    /// The table of users. Its notes explain the cells.
    pub users: Table,
    /// The table of stages. Its notes are remarks on the runs.
    pub stages: Table,
}

impl View {
    pub fn of(results: &Results) -> Self {
        let (mut rows, mut notes) = (Vec::new(), Vec::new());
        for environment in &results.environments {
            match &environment.outcome {
                Err(failure) => notes.push(format!("{}: {failure}", environment.name)),
                Ok(runs) => rows.extend(stage_rows(environment, runs, &mut notes)),
            }
        }
        let ran = results.ran();
        if ran.iter().any(|(environment, _)| environment.is_emulated) {
            notes.push(format!("{} {}", report::EMULATED_MARK, report::EMULATED_MEANING));
        }
        notes.dedup();
        let trials = results.environments.iter().flat_map(|one| one.outcome.iter().flatten());
        notes.extend(crate::noise::remark("trials", trials.flat_map(|run| &run.trials)));
        if results.is_search {
            notes.insert(0, "stages: of the search in the middle, its largest trial that fitted".into());
        }
        let headings = ["environment", "users", "stage", "p50", "p99", "p99.9", "max, µs", "budget"];
        let headings = headings.map(str::to_owned).to_vec();
        let stages = Table { title: "Stage by stage".into(), headings, rows, notes };
        View { load: load(results), users: users::table(results, &ran), stages }
    }
}

fn load(results: &Results) -> String {
    let description = &results.description;
    let show = |us: u32| duration::show(Duration::from_micros(us.into())).to_string();
    let load = &description.load;
    format!(
        "a tick every {}, done within {} of it; {} cell{} with {} B a user{}",
        show(description.interval_us),
        show(description.deadline_us),
        load.cells,
        if load.cells == 1 { "" } else { "s" },
        load.bytes,
        if load.workers == 1 { String::new() } else { format!(", {} workers", load.workers) },
    )
}

/// The stages of the run in the middle, and remarks on it.
fn stage_rows(environment: &Environment, runs: &[Run], remarks: &mut Vec<String>) -> Vec<Vec<String>> {
    let mut order: Vec<&Run> = runs.iter().collect();
    order.sort_by_key(|run| run.fits);
    // An interrupt can come before the first run.
    let Some(trial) = order.get(order.len() / 2).and_then(|run| run.best()) else { return Vec::new() };
    let Some(ended) = trial.ended() else { return Vec::new() };
    let mut say = |remark: String| remarks.push(format!("{}: {remark}", marked(environment)));
    if trial.missed() > 0 {
        say(format!(
            "{} users: {} of {} ticks missed: {} late, {} with work missing, {} lost, {} skipped by the first member",
            trial.users,
            trial.missed(),
            trial.instants(),
            ended.late,
            ended.incomplete,
            trial.vanished(),
            trial.members.first().map_or(0, |first| first.skipped),
        ));
    }
    if trial.lost() > 0 {
        say(format!("{} users: {} frames lost between members", trial.users, trial.lost()));
    }
    let clock_error_ns = trial.members.iter().map(|member| member.clock_error_ns).max().unwrap_or_default();
    if clock_error_ns > 0 {
        say(format!(
            "guests' clocks are known within {:.1} µs; the times to and from them of {} of {} ticks were not in order",
            clock_error_ns as f64 / 1e3,
            ended.disordered,
            ended.latency.count(),
        ));
    }
    trial.members.iter().flat_map(|member| &member.remarks).for_each(|remark| say(remark.clone()));
    let row = |name: &str, stage: &Stage| {
        let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
        let mut cells = vec![marked(environment), trial.users.to_string(), name.to_owned()];
        cells.extend([0.5, 0.99, 0.999].map(|quantile| us(stage.time.quantile_ns(quantile))));
        cells.push(us(stage.time.max_ns()));
        cells.push(stage.budget_ns.map_or_else(String::new, us));
        cells
    };
    let mut rows: Vec<_> = ended.stages.iter().map(|stage| row(&stage.name, stage)).collect();
    let whole = Stage { name: "all".into(), budget_ns: None, time: ended.latency.clone() };
    rows.push(row("all", &whole));
    rows
}
