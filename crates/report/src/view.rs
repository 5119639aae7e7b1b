//! The content of every output before it is drawn: rows in their order, with their cells.

use std::collections::BTreeMap;

use measure::compare::{Analysis, Comparison, Finding, Summary};
use measure::{CurvePoint, EnvironmentRecord, Failure, Group, MetricSpec, Results};

use crate::{EMULATED_MARK, units};

/// One metric in one environment.
#[derive(Clone, Copy)]
pub(crate) enum Cell<'a> {
    /// The metric was measured. The comparison is there unless the environment is the baseline, or the baseline
    /// lacks the metric.
    Measured(&'a Summary, Option<&'a Comparison>),
    /// The metric was not measured, for this reason.
    Absent(&'a Failure),
    /// The metric was not measured, and the file does not say why.
    Unknown,
}

impl<'a> Cell<'a> {
    pub(crate) fn summary(self) -> Option<&'a Summary> {
        if let Cell::Measured(summary, _) = self { Some(summary) } else { None }
    }

    pub(crate) fn comparison(self) -> Option<&'a Comparison> {
        if let Cell::Measured(_, comparison) = self { comparison } else { None }
    }
}

/// One metric over all shown environments.
pub(crate) struct Row<'a> {
    pub(crate) spec: &'a MetricSpec,
    /// The cells in the order of [`View::environments`].
    pub(crate) cells: Vec<Cell<'a>>,
}

impl Row<'_> {
    pub(crate) fn is_distribution(&self) -> bool {
        self.cells.iter().any(|cell| cell.summary().is_some_and(|summary| summary.histogram.is_some()))
    }

    /// The key for sorting rows: the worst slowdown outside emulation, then the worst in emulation. An emulated CPU
    /// slows everything, so it only orders what the others leave equal.
    fn severity(&self) -> (f64, f64) {
        let worst = |emulated: bool| {
            let found = self.cells.iter().filter_map(|cell| cell.comparison()).filter(|c| {
                c.emulated == emulated && !matches!(c.finding, Finding::NoDifferenceShown | Finding::Faster)
            });
            found.map(|c| c.slowdown).filter(|s| s.is_finite()).fold(1.0, f64::max)
        };
        (worst(false), worst(true))
    }
}

/// A curve: its points by rising x.
pub(crate) struct Curve<'a> {
    pub(crate) name: &'a str,
    pub(crate) x_title: &'a str,
    pub(crate) points: Vec<(f64, Row<'a>)>,
}

/// A results file, prepared for the tables and pages.
pub(crate) struct View<'a> {
    pub(crate) results: &'a Results,
    pub(crate) analysis: &'a Analysis,
    /// The environments with at least one figure: the columns.
    pub(crate) environments: Vec<&'a EnvironmentRecord>,
    comparisons: BTreeMap<(&'a str, &'a str), &'a Comparison>,
    absences: BTreeMap<(&'a str, &'a str), &'a Failure>,
}

impl<'a> View<'a> {
    pub(crate) fn new(results: &'a Results, analysis: &'a Analysis) -> Self {
        let measured: std::collections::BTreeSet<&str> =
            analysis.summaries.keys().map(|(_, environment)| environment.as_str()).collect();
        View {
            results,
            analysis,
            environments: results
                .environments
                .iter()
                .filter(|environment| measured.contains(environment.name.as_str()))
                .collect(),
            comparisons: analysis
                .comparisons
                .iter()
                .map(|c| ((c.metric.as_str(), c.environment.as_str()), c))
                .collect(),
            absences: results
                .absences
                .iter()
                .map(|a| ((a.metric.as_str(), a.environment.as_str()), &a.reason))
                .collect(),
        }
    }

    fn row(&self, spec: &'a MetricSpec) -> Row<'a> {
        let cell = |environment: &&'a EnvironmentRecord| {
            let place = (spec.id.as_str(), environment.name.as_str());
            match (self.analysis.summary(&spec.id, place.1), self.absences.get(&place)) {
                (Some(summary), _) => Cell::Measured(summary, self.comparisons.get(&place).copied()),
                (None, Some(reason)) => Cell::Absent(reason),
                (None, None) => environment.failure.as_ref().map_or(Cell::Unknown, Cell::Absent),
            }
        };
        Row { spec, cells: self.environments.iter().map(cell).collect() }
    }

    /// The group's metrics that are not points of a curve, worst first.
    fn sorted(&self, group: Group, distribution: bool) -> Vec<Row<'a>> {
        let specs = self.results.metrics.iter().filter(|spec| spec.group == group && spec.curve.is_none());
        let mut rows: Vec<Row> =
            specs.map(|spec| self.row(spec)).filter(|row| row.is_distribution() == distribution).collect();
        rows.sort_by(|a, b| {
            let ((a, a_emulated), (b, b_emulated)) = (a.severity(), b.severity());
            b.total_cmp(&a).then(b_emulated.total_cmp(&a_emulated))
        });
        rows
    }

    /// The group's metrics with one value a trial, worst first.
    pub(crate) fn rows(&self, group: Group) -> Vec<Row<'a>> {
        self.sorted(group, false)
    }

    /// The group's metrics that time every event, worst first.
    pub(crate) fn distributions(&self, group: Group) -> Vec<Row<'a>> {
        self.sorted(group, true)
    }

    /// The group's curves in the order of the file.
    pub(crate) fn curves(&self, group: Group) -> Vec<Curve<'a>> {
        let mut curves: Vec<Curve> = Vec::new();
        for spec in self.results.metrics.iter().filter(|spec| spec.group == group) {
            let Some(CurvePoint { curve, x, x_title }) = &spec.curve else { continue };
            let place = curves.iter().position(|known| known.name == curve).unwrap_or_else(|| {
                curves.push(Curve { name: curve, x_title, points: Vec::new() });
                curves.len() - 1
            });
            curves[place].points.push((*x, self.row(spec)));
        }
        for curve in &mut curves {
            curve.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        curves
    }

    /// Whether any of these rows compares environments.
    pub(crate) fn compares(&self, rows: &[Row]) -> bool {
        rows.iter().any(|row| row.cells.iter().any(|cell| cell.comparison().is_some()))
    }

    /// Missing figures, grouped by environment and reason: (environment, reason, metrics).
    pub(crate) fn absences(&self) -> Vec<(&'a str, &'a Failure, Vec<&'a str>)> {
        let mut grouped: Vec<(&str, &Failure, Vec<&str>)> = Vec::new();
        for absence in &self.results.absences {
            match grouped
                .iter_mut()
                .find(|(e, reason, _)| *e == absence.environment && **reason == absence.reason)
            {
                Some((_, _, metrics)) => metrics.push(absence.metric.as_str()),
                None => grouped.push((&absence.environment, &absence.reason, vec![absence.metric.as_str()])),
            }
        }
        grouped
    }

    /// Agents' remarks, each with its environment, and how often it was made.
    pub(crate) fn remarks(&self) -> BTreeMap<(&'a str, &'a str), usize> {
        let mut remarks = BTreeMap::new();
        for ((_, environment), summary) in &self.analysis.summaries {
            for remark in &summary.remarks {
                *remarks.entry((environment.as_str(), remark.as_str())).or_insert(0) += 1;
            }
        }
        remarks
    }

    pub(crate) fn any_emulated(&self) -> bool {
        self.results.environments.iter().any(|environment| environment.emulated)
    }
}

/// The name of an environment as a column's heading, with the mark if emulated.
pub(crate) fn environment_name(environment: &EnvironmentRecord) -> String {
    let mark = if environment.emulated { EMULATED_MARK } else { "" };
    format!("{}{mark}", units::text(&environment.name))
}

/// The figure of a summary: `112 ns ± 1 %`, with the mark if emulated.
pub(crate) fn figure(summary: &Summary, spec: &MetricSpec, emulated: bool) -> String {
    let mark = if emulated { EMULATED_MARK } else { "" };
    let noisy = if summary.noisy > 0 { " !" } else { "" };
    format!(
        "{}{mark} {}{noisy}",
        units::value(summary.median, &spec.unit),
        units::spread(summary.relative_spread)
    )
}

/// The result of a comparison, in words and figures.
pub(crate) fn finding(comparison: &Comparison) -> String {
    let mark = if comparison.emulated { EMULATED_MARK } else { "" };
    let factor = format!("{}{mark}", units::factor(comparison.slowdown));
    match (comparison.finding, comparison.interval) {
        (Finding::TooFewBlocks, _) | (_, None) => {
            format!("{factor}, too few starts ({})", comparison.blocks)
        }
        (Finding::NoDifferenceShown, Some(interval)) => {
            format!("no difference shown{mark} {}", units::interval(interval))
        }
        (Finding::Slower | Finding::Faster, Some(interval)) => {
            format!("{factor} {}", units::interval(interval))
        }
    }
}

/// [`finding`] without the interval, for narrow columns.
pub(crate) fn finding_short(comparison: &Comparison) -> String {
    let mark = if comparison.emulated { EMULATED_MARK } else { "" };
    let factor = format!("{}{mark}", units::factor(comparison.slowdown));
    match comparison.finding {
        Finding::NoDifferenceShown => format!("{factor} (not shown)"),
        Finding::TooFewBlocks => format!("{factor} (too few starts)"),
        Finding::Slower | Finding::Faster => factor,
    }
}

/// The run in one line: `6 fresh starts of every environment, the blocks of all intervals; 1 round in each; …`.
pub(crate) fn plan(results: &Results) -> String {
    let plan = &results.plan;
    // Rounds of one start share its luck: only starts are independent.
    let starts = "fresh starts of every environment, the blocks of all intervals";
    let rounds = if plan.rounds == 1 { "round" } else { "rounds" };
    format!("{} {starts}; {} {rounds} in each; {}", plan.blocks, plan.rounds, lengths(results))
}

/// When the run began, without fractions of a second: `2026-01-02T03:04:05Z`.
pub(crate) fn started(results: &Results) -> String {
    match results.started.split_once('.') {
        Some((seconds, fraction)) if fraction.ends_with('Z') => format!("{seconds}Z"),
        _ => results.started.clone(),
    }
}

/// How long trials take: `QUICK: trials of 20 ms, wake-up trials of 200 ms, not full lengths`.
pub(crate) fn lengths(results: &Results) -> String {
    let plan = &results.plan;
    let trial = units::watched(plan.trial_ms.saturating_mul(1_000_000));
    let wakeup = units::watched(plan.wakeup_ms.saturating_mul(1_000_000));
    if plan.quick {
        format!("QUICK: trials of {trial}, wake-up trials of {wakeup}, not full lengths")
    } else {
        format!("trials of {trial}, wake-up trials of {wakeup}")
    }
}
