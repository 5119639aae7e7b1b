//! Two runs, or two machines, side by side.

use comfy_table::Cell;
use measure::compare::{Comparison, Finding, analyse_two, expected_by_chance};
use measure::host_facts::HostFacts;
use measure::{MetricSpec, Results};

use crate::canvas::Canvas;
use crate::view::finding;
use crate::{EMULATED_MARK, EMULATED_MEANING, units};

/// The changes from one run to another.
pub struct Diff<'a> {
    pub(crate) before: &'a Results,
    pub(crate) after: &'a Results,
    /// The comparisons of each metric and environment that both runs contain; `before` is the base. Worst first.
    pub comparisons: Vec<Comparison>,
    /// Facts in which the runs differ.
    pub facts: Vec<FactChange>,
    /// Metrics and environments that only one run contains, in words.
    pub only_in_one: Vec<String>,
}

/// A fact in which two runs differ.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FactChange {
    /// The fact's name.
    pub name: String,
    /// The value in the earlier run; empty if unknown.
    pub before: String,
    /// The value in the later run; empty if unknown.
    pub after: String,
}

/// A [`Diff`] as JSON.
#[derive(Debug, serde::Serialize)]
pub struct Document<'a> {
    schema: &'static str,
    before: &'a str,
    after: &'a str,
    comparisons: Vec<Change<'a>>,
    facts: &'a [FactChange],
    only_in_one: &'a [String],
}

/// One metric in one environment.
#[derive(Debug, serde::Serialize)]
struct Change<'a> {
    metric: &'a str,
    environment: &'a str,
    /// The slowdown of after over before: above 1 is worse.
    slowdown: f64,
    interval: Option<(f64, f64)>,
    finding: &'static str,
    emulated: bool,
}

impl<'a> Change<'a> {
    fn of(comparison: &'a Comparison) -> Self {
        Change {
            metric: comparison.metric.as_str(),
            environment: &comparison.environment,
            slowdown: comparison.slowdown,
            interval: comparison.interval,
            finding: match comparison.finding {
                Finding::Slower => "slower",
                Finding::Faster => "faster",
                Finding::NoDifferenceShown => "no_difference_shown",
                Finding::TooFewBlocks => "too_few_starts",
            },
            emulated: comparison.emulated,
        }
    }
}

impl<'a> Diff<'a> {
    /// The comparison as a JSON document.
    pub fn document(&self) -> Document<'_> {
        Document {
            schema: "tautline-diff/1",
            before: &self.before.started,
            after: &self.after.started,
            comparisons: self.comparisons.iter().map(Change::of).collect(),
            facts: &self.facts,
            only_in_one: &self.only_in_one,
        }
    }

    /// Compares two runs.
    pub fn new(before: &'a Results, after: &'a Results) -> Self {
        let mut comparisons = analyse_two(before, after);
        let severity = |c: &Comparison| (c.finding == Finding::Slower, !c.emulated, c.slowdown);
        comparisons.sort_by(|a, b| {
            let ((a_slower, a_real, a), (b_slower, b_real, b)) = (severity(a), severity(b));
            b_slower.cmp(&a_slower).then(b_real.cmp(&a_real)).then(b.total_cmp(&a))
        });
        Diff {
            before,
            after,
            comparisons,
            facts: changed_facts(before, after),
            only_in_one: only_in_one(before, after),
        }
    }

    pub(crate) fn spec(&self, comparison: &Comparison) -> Option<&'a MetricSpec> {
        self.after.metric(&comparison.metric)
    }

    /// The comparison as text for a terminal of `width` columns.
    pub fn render(&self, width: usize, color: bool) -> String {
        let mut canvas = Canvas::new(width.max(40), color);
        let named = |results: &Results| units::text(&results.started);
        canvas.paragraph(&format!("before: {}; after: {}", named(self.before), named(self.after)));
        canvas.paragraph(
            "Two runs share no moment: each is resampled on its own, so that intervals are wider than within one run.",
        );
        for (results, name) in [(self.before, "before"), (self.after, "after")] {
            if results.plan.quick {
                canvas.paragraph(&format!("{name}: {}", crate::view::plan(results)));
            }
            if !results.complete {
                canvas.warning(&format!(
                    "the run {name} was INTERRUPTED: it holds what was gathered until then"
                ));
            }
        }
        self.render_facts(&mut canvas);
        self.render_comparisons(&mut canvas);
        if !self.only_in_one.is_empty() {
            canvas.heading("in one run alone");
            for words in &self.only_in_one {
                canvas.item("-", words);
            }
        }
        canvas.finish()
    }

    fn render_facts(&self, canvas: &mut Canvas) {
        canvas.heading("what differs between the runs");
        if self.facts.is_empty() {
            return canvas.paragraph("no fact that was recorded");
        }
        let shown = |text: &str| if text.is_empty() { "unknown or none".into() } else { units::text(text) };
        let row = |fact: &FactChange| {
            vec![
                Cell::new(units::text(&fact.name)),
                Cell::new(shown(&fact.before)),
                Cell::new(shown(&fact.after)),
            ]
        };
        canvas.columns(&["fact", "before", "after"].map(String::from), self.facts.iter().map(row).collect());
    }

    fn render_comparisons(&self, canvas: &mut Canvas) {
        canvas.heading("slowdown, after against before, worst first");
        if self.comparisons.is_empty() {
            return canvas.paragraph("no metric was measured in both runs in the same environment");
        }
        let emulated = self.comparisons.iter().any(|comparison| comparison.emulated);
        let differing = |c: &&Comparison| c.finding != Finding::NoDifferenceShown;
        let row = |c: &Comparison| {
            let title = self.spec(c).map_or(c.metric.as_str(), |spec| &spec.title);
            let mark = if c.emulated { EMULATED_MARK } else { "" };
            vec![
                Cell::new(units::text(title)),
                Cell::new(format!("{}{mark}", units::text(&c.environment))),
                crate::canvas::finding(c),
            ]
        };
        let rows: Vec<_> = self.comparisons.iter().filter(differing).map(row).collect();
        let same = self.comparisons.len() - rows.len();
        if !rows.is_empty() {
            canvas.columns(&["what", "where", "slowdown [≥ 95 %]"].map(String::from), rows);
        }
        canvas.paragraph(&format!(
            "{same} of {} show no difference; by chance at most {:.1} on average would show one",
            self.comparisons.len(),
            expected_by_chance(&self.comparisons)
        ));
        if emulated {
            canvas.item(EMULATED_MARK, EMULATED_MEANING);
        }
    }

    /// The result of a comparison, in words and figures.
    pub(crate) fn finding(comparison: &Comparison) -> String {
        finding(comparison)
    }
}

/// A machine's facts by name, in the order they are shown.
pub(crate) fn facts(host: &HostFacts) -> Vec<(String, String)> {
    let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut facts = vec![
        named("CPU", &host.cpu_model),
        named("CPUs online", &host.cpus_online.to_string()),
        named("architecture", &host.architecture),
        named("memory", &units::size(host.memory_bytes as f64)),
        named("kernel", &host.kernel),
        named("kernel command line", &host.command_line),
        named("distribution", &host.distribution),
        named("hypervisor", &host.hypervisor),
        named("clock source", &host.clocksource),
        named("transparent huge pages", &host.transparent_huge_pages),
        named("frequency governor", &host.governor),
        named("isolated CPUs", &host.isolated_cpus),
    ];
    facts.extend(host.mitigations.iter().map(|(name, state)| (format!("mitigation {name}"), state.clone())));
    facts
}

/// All that is known of a run besides its figures.
fn all_facts(results: &Results) -> Vec<(String, String)> {
    let mut all = facts(&results.host);
    all.push(("Tautline".into(), results.tautline.clone()));
    all.push(("plan".into(), crate::view::plan(results)));
    all.push(("pinned to CPUs".into(), format!("{:?}", results.plan.cpus)));
    for environment in &results.environments {
        all.push((format!("{}: accelerator", environment.name), environment.accelerator.clone()));
        let own = environment.facts.iter();
        all.extend(own.map(|(key, value)| (format!("{}: {key}", environment.name), value.clone())));
    }
    all
}

fn changed_facts(before: &Results, after: &Results) -> Vec<FactChange> {
    let (before, after) = (all_facts(before), all_facts(after));
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in before.iter().chain(&after) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let value = |facts: &[(String, String)], name: &str| {
        facts.iter().find(|fact| fact.0 == name).map(|fact| fact.1.clone()).unwrap_or_default()
    };
    let change = |name: &String| FactChange {
        name: name.clone(),
        before: value(&before, name),
        after: value(&after, name),
    };
    names.into_iter().map(change).filter(|fact| fact.before != fact.after).collect()
}

fn only_in_one(before: &Results, after: &Results) -> Vec<String> {
    let mut words = Vec::new();
    for (one, other, name) in [(before, after, "before"), (after, before, "after")] {
        for environment in &one.environments {
            if !other.environments.iter().any(|e| e.name == environment.name) {
                words.push(format!("environment {} only {name}", units::text(&environment.name)));
            }
        }
        let metrics: Vec<String> = one
            .metrics
            .iter()
            .filter(|spec| other.metric(&spec.id).is_none())
            .map(|spec| units::text(spec.id.as_str()))
            .collect();
        if !metrics.is_empty() {
            words.push(format!("{} metrics only {name}: {}", metrics.len(), metrics.join(", ")));
        }
    }
    words
}
