//! Compares the runs of `make bench-flows` with this project's goals for flow tables.
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::cell::{DriverKind, System, Topology};
use crate::figures::{Row, rows};
use crate::results::Results;

/// A file of goals; `crates/bench-peers/flow-goals.toml` explains them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Goals {
    goal: Vec<Goal>,
}

/// The least ratio of this project's rate in one run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Goal {
    what: String,
    /// The name of the run's file of flows, without folder and extension.
    flows: String,
    active_flows: Option<u32>,
    /// The rate is divided by this project's own rate with so many active flows, instead of Open vSwitch's rate.
    of_active_flows: Option<u32>,
    min: Option<f64>,
}

/// A table of all goals, each with what the newest of these runs says about it.
///
/// # Errors
/// The file of goals cannot be read, is not TOML of this form, or has no goal.
pub fn table(file: &Path, runs: &[Results]) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let Goals { goal: goals } =
        toml::from_str(&text).with_context(|| format!("the goals in {}", file.display()))?;
    ensure!(!goals.is_empty(), "{}: write at least one [[goal]] table", file.display());
    let lines: Vec<Vec<String>> = goals.iter().flat_map(|goal| goal.lines(runs)).collect();
    let headings =
        ["run", "bytes", "Tautline, Mfps", "ns a frame", "limited by", "ratio of rates", "goal", "result"];
    Ok(report::markdown::table(
        "Goals for flow tables, beside OVS-DPDK with the same flows",
        &headings,
        &lines,
    ))
}

impl Goal {
    fn lines(&self, runs: &[Results]) -> Vec<Vec<String>> {
        let own = |active| own_rows(self.newest(runs, active));
        let found = own(self.active_flows);
        if found.is_empty() {
            let mut line = vec![String::new(); 7];
            line[0].clone_from(&self.what);
            line.push("not measured".to_owned());
            return vec![line];
        }
        let without = self.of_active_flows.map(|flows| own(Some(flows)));
        found.iter().map(|row| self.line(row, without.as_deref())).collect()
    }

    fn newest<'a>(&self, runs: &'a [Results], active_flows: Option<u32>) -> Option<&'a Results> {
        let is_of = |run: &&Results| {
            let name = run.plan.flows.as_deref().and_then(Path::file_stem);
            name.is_some_and(|name| name == self.flows.as_str()) && run.plan.active_flows == active_flows
        };
        runs.iter().filter(is_of).max_by(|one, other| one.started.cmp(&other.started))
    }

    fn line(&self, row: &Row, without: Option<&[Row]>) -> Vec<String> {
        let (ratio, interval) = match without {
            None => {
                let against = row.against(System::is_ovs).map(|against| &against.rate);
                (against.map(|rate| rate.ratio), against.and_then(|rate| rate.interval))
            }
            Some(rows) => {
                let same = rows.iter().find(|other| other.cell == row.cell);
                let base = same.map(|other| other.frames_per_second).filter(|fps| *fps > 0.0);
                (base.map(|base| row.frames_per_second / base), None)
            }
        };
        let shown = interval.map_or_else(String::new, |(low, high)| format!(" [{low:.2}, {high:.2}]"));
        vec![
            self.what.clone(),
            row.cell.frame_bytes.to_string(),
            format!("{:.3}", row.frames_per_second / 1e6),
            row.busy_ns_per_frame.map_or_else(String::new, |busy| format!("{busy:.0}")),
            row.limited_by().to_owned(),
            ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}{shown}")),
            self.min.map_or_else(|| "none".to_owned(), |min| format!("at least {min}")),
            judgement(ratio, self.min),
        ]
    }
}

fn own_rows(run: Option<&Results>) -> Vec<Row> {
    let Some(run) = run else { return Vec::new() };
    let mut rows = rows(run, DriverKind::Dpdk, Topology::Vm2vm);
    rows.retain(|row| row.system == System::TautlineFlows);
    rows
}

fn judgement(ratio: Option<f64>, min: Option<f64>) -> String {
    match (ratio, min) {
        (None, _) => "not compared".to_owned(),
        (Some(_), None) => String::new(),
        (Some(ratio), Some(min)) if ratio >= min => format!("met, {:+.0} %", (ratio / min - 1.0) * 100.0),
        (Some(ratio), Some(min)) => format!("missed by {:.0} %", (1.0 - ratio / min) * 100.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_met_or_missed_by_a_part_of_it() {
        let of = |ratio| judgement(Some(ratio), Some(2.0));
        assert_eq!([of(3.0), of(2.0), of(1.0)], ["met, +50 %", "met, +0 %", "missed by 50 %"]);
        assert_eq!(judgement(None, Some(2.0)), "not compared");
        assert_eq!(judgement(Some(1.0), None), "");
    }

    #[test]
    fn goals_of_this_project_are_read_and_none_is_measured_without_runs() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("flow-goals.toml");
        let table = table(&file, &[]).unwrap();
        assert_eq!(table.matches("not measured").count(), 13, "{table}");
    }
}
