//! What a person sees.

use std::fmt::Write;
use std::time::Duration;

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use scenario::chain::Stage;

use super::results::{Environment, Results, Run, Trial};
use crate::duration;

pub fn text(results: &Results, width: usize) -> String {
    let description = &results.description;
    let show = |us: u32| duration::show(Duration::from_micros(us.into())).to_string();
    let load = &description.load;
    let mut text = format!(
        "{}: a tick every {}, done within {} of it; {} cell{} with {} B a user{}\n\n",
        description.title,
        show(description.interval_us),
        show(description.deadline_us),
        load.cells,
        if load.cells == 1 { "" } else { "s" },
        load.bytes,
        if load.workers == 1 { String::new() } else { format!(", {} workers", load.workers) },
    );
    let mut remarks = Vec::new();
    let mut users =
        table(width, &["environment", "users that fit", "least to most", "searches", "lost frames"]);
    let mut stages =
        table(width, &["environment", "users", "stage", "p50", "p99", "p99.9", "max, µs", "budget"]);
    for environment in &results.environments {
        match &environment.outcome {
            Err(failure) => remarks.push(format!("{}: {failure}", environment.name)),
            Ok(runs) if runs.is_empty() => {}
            Ok(runs) => {
                users.add_row(fitting(environment, runs));
                for row in stage_rows(environment, runs, &mut remarks) {
                    stages.add_row(row);
                }
            }
        }
    }
    if results.is_search {
        right_from(&mut users, 1);
        let _ = writeln!(text, "{users}\n");
        let _ = writeln!(
            text,
            "users of each cell with at most {} of 1000 ticks missed in {} ticks; stages: the largest trial that fitted\n",
            results.missed_per_thousand, results.ticks
        );
    }
    right_from(&mut stages, 3);
    let _ = writeln!(text, "{stages}\n");
    remarks.dedup();
    remarks.iter().for_each(|remark| _ = writeln!(text, "{remark}"));
    text
}

fn table(width: usize, header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_content_arrangement(ContentArrangement::Disabled).set_width(width as u16).set_header(header);
    table
}

fn right_from(table: &mut Table, column: usize) {
    for column in table.column_iter_mut().skip(column) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// The middle of what fitted, and the ends.
fn fitting(environment: &Environment, runs: &[Run]) -> Vec<String> {
    let mut fits: Vec<u32> = runs.iter().map(|run| run.fits).collect();
    fits.sort_unstable();
    let lost: u64 = runs.iter().filter_map(Run::best).map(Trial::lost).sum();
    vec![
        environment.name.clone(),
        fits[fits.len() / 2].to_string(),
        format!("{} to {}", fits[0], fits[fits.len() - 1]),
        runs.len().to_string(),
        lost.to_string(),
    ]
}

/// The stages of the run in the middle, and what is to be said of it.
fn stage_rows(environment: &Environment, runs: &[Run], remarks: &mut Vec<String>) -> Vec<Vec<String>> {
    let mut order: Vec<&Run> = runs.iter().collect();
    order.sort_by_key(|run| run.fits);
    let Some(trial) = order[order.len() / 2].best() else { return Vec::new() };
    let Some(ended) = trial.ended() else { return Vec::new() };
    let mut say = |remark: String| remarks.push(format!("{}: {remark}", environment.name));
    if trial.missed() > 0 {
        say(format!(
            "{} users: {} of {} ticks missed: {} late, {} with work missing, {} lost, {} skipped by the first member",
            trial.users,
            trial.missed(),
            trial.instants(),
            ended.late,
            ended.incomplete,
            trial.vanished(),
            trial.instants() - trial.members[0].ticks,
        ));
    }
    if trial.lost() > 0 {
        say(format!("{} users: {} frames lost between members", trial.users, trial.lost()));
    }
    trial.members.iter().flat_map(|member| &member.remarks).for_each(|remark| say(remark.clone()));
    let row = |name: &str, stage: &Stage| {
        let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
        let mut cells = vec![environment.name.clone(), trial.users.to_string(), name.to_owned()];
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
