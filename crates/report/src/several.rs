//! Three runs or more side by side: of one machine over time, or of several machines.

use comfy_table::Cell as TextCell;
use measure::compare::{Analysis, Comparison, analyse, analyse_two};
use measure::{Group, MetricSpec, Results};

use crate::canvas::{self, Canvas};
use crate::view::{finding_short, started};
use crate::{EMULATED_MARK, EMULATED_MEANING, units};

/// Several runs in the order in which they are given.
pub struct Several<'a> {
    pub(crate) runs: &'a [Results],
    /// The rows by group; within a group, the rows that changed most come first.
    pub(crate) rows: Vec<Row<'a>>,
}

/// One metric in one environment, over all runs.
pub(crate) struct Row<'a> {
    pub(crate) spec: &'a MetricSpec,
    pub(crate) environment: &'a str,
    pub(crate) emulated: bool,
    /// The figures, one for each run; `None` for a run that did not measure the metric there.
    pub(crate) cells: Vec<Option<Cell>>,
}

/// One figure.
pub(crate) struct Cell {
    pub(crate) median: f64,
    /// Whether the environment is the base of its run. A base is compared with the same environment of the first run.
    /// Any other environment is compared with the base of its own run.
    pub(crate) is_base: bool,
    pub(crate) comparison: Option<Comparison>,
}

/// Several runs as JSON.
#[derive(Debug, serde::Serialize)]
pub struct Document<'a> {
    schema: &'static str,
    runs: Vec<RunDocument<'a>>,
    rows: Vec<RowDocument<'a>>,
}

#[derive(Debug, serde::Serialize)]
struct RunDocument<'a> {
    started: &'a str,
    cpu_model: &'a str,
    cpus_online: usize,
    kernel: &'a str,
    quick: bool,
    complete: bool,
    tautline: &'a str,
}

#[derive(Debug, serde::Serialize)]
struct RowDocument<'a> {
    metric: &'a str,
    environment: &'a str,
    unit: String,
    emulated: bool,
    /// Whether a change over the runs was shown.
    changed: bool,
    medians: Vec<Option<f64>>,
    slowdowns: Vec<Option<f64>>,
    intervals: Vec<Option<(f64, f64)>>,
}

impl Cell {
    /// The figure for the chart: the cost relative to the environment of the comparison. It is 1 for the first run's
    /// base.
    pub(crate) fn cost(&self) -> Option<f64> {
        match &self.comparison {
            Some(comparison) => Some(comparison.slowdown),
            None => self.is_base.then_some(1.0),
        }
    }

    fn interval(&self) -> Option<(f64, f64)> {
        self.comparison.as_ref().and_then(|comparison| comparison.interval)
    }
}

impl Row<'_> {
    fn costs(&self) -> Vec<f64> {
        let costs = self.cells.iter().flatten().filter_map(Cell::cost);
        costs.filter(|cost| cost.is_finite() && *cost > 0.0).collect()
    }

    /// The ratio of the largest cost to the smallest.
    pub(crate) fn span(&self) -> f64 {
        let costs = self.costs();
        let (low, high) = costs
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(low, high), cost| (low.min(*cost), high.max(*cost)));
        if low < high { high / low } else { 1.0 }
    }

    /// Whether a change was shown: a base differs from the first run's, or the intervals of two runs do not overlap.
    pub(crate) fn is_changed(&self) -> bool {
        let cells = || self.cells.iter().flatten();
        let base =
            cells().any(|cell| cell.is_base && cell.comparison.as_ref().is_some_and(Comparison::differs));
        let intervals = || cells().filter(|cell| !cell.is_base).filter_map(Cell::interval);
        let lowest_high = intervals().map(|interval| interval.1).fold(f64::INFINITY, f64::min);
        base || intervals().any(|interval| interval.0 > lowest_high)
    }
}

impl<'a> Several<'a> {
    /// Compares the runs and sorts the rows.
    pub fn new(runs: &'a [Results]) -> Self {
        let analyses: Vec<Analysis> = runs.iter().map(analyse).collect();
        // The first run is not compared with itself.
        let since_first: Vec<Vec<Comparison>> = runs
            .iter()
            .enumerate()
            .map(|(place, run)| if place == 0 { Vec::new() } else { analyse_two(&runs[0], run) })
            .collect();
        let mut rows: Vec<Row> = Vec::new();
        for (spec, environment) in places(runs) {
            let emulated = runs.iter().any(|run| {
                run.environments.iter().any(|known| known.name == environment && known.emulated)
                    || run.network.path_of(&spec.id).is_some_and(|path| path.emulated)
            });
            let cell = |place: usize| {
                let summary = analyses[place].summary(&spec.id, environment)?;
                let is_base = runs[place].base().is_some_and(|base| base.name == environment);
                let is_it = |c: &&Comparison| c.metric == spec.id && c.environment == environment;
                let comparison = if is_base {
                    since_first[place].iter().find(is_it)
                } else {
                    analyses[place].comparison(&spec.id, environment)
                };
                Some(Cell { median: summary.median, is_base, comparison: comparison.cloned() })
            };
            let cells: Vec<Option<Cell>> = (0..runs.len()).map(cell).collect();
            if cells.iter().any(Option::is_some) {
                rows.push(Row { spec, environment, emulated, cells });
            }
        }
        let group = |row: &Row| Group::ALL.iter().position(|group| *group == row.spec.group);
        rows.sort_by(|one, other| {
            group(one)
                .cmp(&group(other))
                .then(other.is_changed().cmp(&one.is_changed()))
                .then(one.emulated.cmp(&other.emulated))
                .then(other.span().total_cmp(&one.span()))
        });
        Several { runs, rows }
    }

    /// The runs as a document for programs.
    pub fn document(&self) -> Document<'_> {
        let runs = self.runs.iter().map(|run| RunDocument {
            started: &run.started,
            cpu_model: &run.host.cpu_model,
            cpus_online: run.host.cpus_online,
            kernel: &run.host.kernel,
            quick: run.plan.quick,
            complete: run.complete,
            tautline: &run.tautline,
        });
        let rows = self.rows.iter().map(|row| RowDocument {
            metric: row.spec.id.as_str(),
            environment: row.environment,
            unit: units::name(&row.spec.unit),
            emulated: row.emulated,
            changed: row.is_changed(),
            medians: row.cells.iter().map(|cell| Some(cell.as_ref()?.median)).collect(),
            slowdowns: row.cells.iter().map(|cell| cell.as_ref()?.cost()).collect(),
            intervals: row.cells.iter().map(|cell| cell.as_ref()?.interval()).collect(),
        });
        Document { schema: "tautline-runs/1", runs: runs.collect(), rows: rows.collect() }
    }

    /// A sentence with the number of rows that changed, and what is compared with what.
    pub(crate) fn in_short(&self) -> String {
        let changed = self.rows.iter().filter(|row| row.is_changed()).count();
        format!(
            "{changed} of {} figures changed: of the base beside the first run, of the others beside the base of their own \
             run, so that a faster machine alone changes none",
            self.rows.len()
        )
    }

    /// The runs as text for a terminal of `width` columns.
    pub fn render(&self, width: usize, color: bool) -> String {
        let mut canvas = Canvas::new(width.max(40), color);
        canvas.heading("runs");
        let run = |(place, run): (usize, &Results)| {
            let cells = facts(run).map(|(_, value)| TextCell::new(value));
            std::iter::once(TextCell::new(place + 1)).chain(cells).collect()
        };
        let head = std::iter::once("run").chain(facts(&self.runs[0]).map(|fact| fact.0)).map(String::from);
        canvas.columns(&head.collect::<Vec<_>>(), self.runs.iter().enumerate().map(run).collect());
        canvas.paragraph(&self.in_short());
        for group in Group::ALL {
            let rows: Vec<&Row> = self.rows.iter().filter(|row| row.spec.group == group).collect();
            if !rows.is_empty() {
                canvas.heading(group.name());
                let runs = (1..=self.runs.len()).map(|number| format!("run {number}"));
                let head: Vec<String> = ["what".into(), "where".into()].into_iter().chain(runs).collect();
                canvas.columns(&head, rows.into_iter().map(text_row).collect());
            }
        }
        if self.rows.iter().any(|row| row.emulated) {
            canvas.item(EMULATED_MARK, EMULATED_MEANING);
        }
        canvas.finish()
    }
}

/// The facts that distinguish a run from others, each with its name.
pub(crate) fn facts(run: &Results) -> [(&'static str, String); 5] {
    let kernel = run.host.kernel.split(' ').next().unwrap_or_default();
    let mut plan = format!("{} starts", run.plan.blocks);
    if run.plan.quick {
        plan.push_str(", QUICK");
    }
    if !run.complete {
        plan.push_str(", INTERRUPTED");
    }
    [
        ("started", units::text(&started(run))),
        ("machine", format!("{}, {} CPUs", units::text(&run.host.cpu_model), run.host.cpus_online)),
        ("kernel", units::text(kernel)),
        ("plan", plan),
        ("Tautline", units::text(&run.tautline)),
    ]
}

fn text_row(row: &Row) -> Vec<TextCell> {
    let mark = if row.emulated { EMULATED_MARK } else { "" };
    let figure = |cell: &Option<Cell>| match cell {
        None => TextCell::new("–"),
        Some(Cell { median, is_base: true, comparison }) => {
            let value = format!("{}{mark}", units::value(*median, &row.spec.unit));
            match comparison.as_ref().filter(|comparison| comparison.differs()) {
                Some(comparison) => TextCell::new(format!("{value}, {}", units::factor(comparison.slowdown))),
                None => TextCell::new(value),
            }
        }
        Some(Cell { comparison: Some(comparison), .. }) => {
            canvas::colored(TextCell::new(finding_short(comparison)), comparison)
        }
        Some(Cell { median, .. }) => {
            TextCell::new(format!("{}{mark}", units::value(*median, &row.spec.unit)))
        }
    };
    let names = [units::text(&row.spec.title), format!("{}{mark}", units::text(row.environment))];
    names.map(TextCell::new).into_iter().chain(row.cells.iter().map(figure)).collect()
}

/// All metrics and environments of all runs, each once, in the order of the first run that has them.
fn places(runs: &[Results]) -> Vec<(&MetricSpec, &str)> {
    let mut specs: Vec<&MetricSpec> = Vec::new();
    let mut environments: Vec<&str> = Vec::new();
    for run in runs {
        for spec in &run.metrics {
            if !specs.iter().any(|known| known.id == spec.id) {
                specs.push(spec);
            }
        }
        for environment in &run.environments {
            if !environments.contains(&environment.name.as_str()) {
                environments.push(&environment.name);
            }
        }
    }
    specs.iter().flat_map(|spec| environments.iter().map(move |environment| (*spec, *environment))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::{MetricId, example};

    /// Runs of three days, on which the container's system call takes these times as long as it does in the example.
    fn days(factors: [f64; 3]) -> Vec<Results> {
        let day = |(number, factor): (usize, f64)| {
            let mut run = example::results();
            run.started = format!("2026-01-0{}T00:00:00.123456789Z", number + 1);
            let trials = run.trials.iter_mut();
            let syscall = MetricId::new("os.syscall");
            trials
                .filter(|trial| trial.metric == syscall && trial.environment == "container")
                .for_each(|trial| trial.outcome.value *= factor);
            run
        };
        factors.into_iter().enumerate().map(day).collect()
    }

    #[test]
    fn what_changed_comes_first_and_nothing_else_has_changed() {
        let runs = days([1.0, 1.0, 3.0]);
        let several = Several::new(&runs);
        let changed: Vec<_> = several.rows.iter().filter(|row| row.is_changed()).collect();
        let [row] = changed[..] else {
            panic!("{:?}", changed.iter().map(|row| &row.spec.id).collect::<Vec<_>>())
        };
        assert_eq!((row.spec.id.as_str(), row.environment), ("os.syscall", "container"));
        let costs: Vec<f64> = row.cells.iter().map(|cell| cell.as_ref().unwrap().cost().unwrap()).collect();
        assert!((costs[2] / costs[0] - 3.0).abs() < 0.01 && costs[1] == costs[0], "{costs:?}");
        let first_of_group = several.rows.iter().find(|row| row.spec.group == Group::Os).unwrap();
        assert_eq!(first_of_group.spec.id, row.spec.id);
    }

    #[test]
    fn a_faster_machine_changes_its_base_and_no_ratio() {
        let mut runs = days([1.0; 3]);
        for trial in runs[2].trials.iter_mut().filter(|trial| trial.metric.as_str() == "os.syscall") {
            trial.outcome.value /= 2.0;
        }
        let several = Several::new(&runs);
        let changed: Vec<_> = several
            .rows
            .iter()
            .filter(|row| row.is_changed())
            .map(|row| (row.spec.id.as_str(), row.environment))
            .collect();
        assert_eq!(changed, [("os.syscall", "host")]);
        let text = several.render(160, false);
        assert!(text.contains("2026-01-03T00:00:00Z") && text.contains("1 of "), "{text}");
        assert!(text.lines().any(|line| line.contains("system call") && line.contains("×0.5")), "{text}");
    }

    #[test]
    fn a_run_that_lacks_a_metric_or_an_environment_leaves_a_gap() {
        let mut runs = days([1.0; 3]);
        runs[1].environments.retain(|environment| environment.name != "container");
        runs[1].trials.retain(|trial| trial.environment != "container");
        let gone = runs[0].metrics.remove(0);
        runs[0].trials.retain(|trial| trial.metric != gone.id);
        let several = Several::new(&runs);
        let gaps = |id: &MetricId, environment: &str| -> Vec<bool> {
            let row =
                several.rows.iter().find(|row| row.spec.id == *id && row.environment == environment).unwrap();
            row.cells.iter().map(Option::is_none).collect()
        };
        assert_eq!(gaps(&gone.id, "host"), [true, false, false]);
        assert_eq!(gaps(&gone.id, "container"), [true, true, false]);
        let document = serde_json::to_value(several.document()).unwrap();
        let rows = document["rows"].as_array().unwrap();
        let row = rows
            .iter()
            .find(|row| row["metric"] == gone.id.as_str() && row["environment"] == "container")
            .unwrap();
        assert!(row["medians"][0].is_null() && row["medians"][2].is_f64(), "{row}");
        assert_eq!(document["runs"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn figures_of_an_emulated_cpu_are_marked() {
        let runs = days([1.0; 3]);
        let text = Several::new(&runs).render(160, false);
        for line in text.lines().filter(|line| line.contains(" vm")) {
            assert!(line.contains("vm†") && line.matches('†').count() > 1, "{line}");
        }
        assert!(text.contains(EMULATED_MEANING));
    }
}
