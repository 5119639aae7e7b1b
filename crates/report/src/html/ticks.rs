//! A page of ticks: the time from the instant to the receiver, by environment and by stage.

use maud::{Markup, html};
use measure::Histogram;

use super::budget::{self, Bar};
use crate::plot::Series;
use crate::plot::histogram::{self, Strip};

/// The content of the page. Every text is escaped.
#[derive(Clone, Debug, Default)]
pub struct Ticks {
    /// The page's title.
    pub title: String,
    /// Lines above.
    pub facts: Vec<String>,
    /// A plot for each load.
    pub loads: Vec<Load>,
    /// Each latency beside the budget.
    pub bars: Vec<Bar>,
    /// The times of the stages, for each row.
    pub stages: Vec<Stages>,
    /// Lines below.
    pub notes: Vec<String>,
}

/// All environments under one load.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// The load.
    pub name: String,
    /// Name, position among all environments, whether the CPU is emulated, and latencies.
    pub environments: Vec<(String, usize, bool, Histogram)>,
}

/// The stages of one environment under one load.
#[derive(Clone, Debug, Default)]
pub struct Stages {
    /// The environment and load, and the number of ticks.
    pub heading: String,
    /// Name; p50, p99.9 and maximum; and a published value, µs.
    pub rows: Vec<(String, [f64; 3], Option<f64>)>,
    /// Why the worst tick was late.
    pub worst: Vec<String>,
}

/// The page.
pub fn render(ticks: &Ticks) -> String {
    super::page::page(
        &ticks.title,
        html! {
            header { p class="brand" { "Tautline" } h1 { (ticks.title) } }
            main {
                @for fact in &ticks.facts { p { (fact) } }
                (latencies(&ticks.loads))
                @if !ticks.bars.is_empty() { h2 { "Beside the budget" } (budget::drawn(&ticks.bars)) }
                @if !ticks.stages.is_empty() {
                    h2 { "Stage by stage" }
                    p class="note" {
                        "Each stage begins where the one before ends. An upright line is a published budget (QorIQ T4240, \
                         2015), beside the 99.9 % of this machine."
                    }
                }
                @for stages in &ticks.stages { (stage_by_stage(stages)) }
                @for note in &ticks.notes { p class="note" { (note) } }
            }
        },
    )
}

fn latencies(loads: &[Load]) -> Markup {
    let plots = loads.iter().filter_map(|load| {
        let strips: Vec<Strip<'_>> = load
            .environments
            .iter()
            .map(|(name, place, emulated, histogram)| {
                let series = Series { name: crate::units::text(name), place: *place, emulated: *emulated };
                Strip { series, histogram }
            })
            .collect();
        let label = format!("From due to running in user space, load {}", load.name);
        histogram::draw(&label, &strips).map(|plot| (format!("Load: {}", load.name), plot))
    });
    let plots: Vec<(String, Markup)> = plots.collect();
    html! {
        @if plots.is_empty() { p class="warning" { "No tick was received." } } @else {
            h2 { "From due to running in user space" }
            div class="plots" { @for (caption, plot) in plots {
                figure { figcaption { (caption) } (plot) }
            } }
        }
    }
}

fn stage_by_stage(stages: &Stages) -> Markup {
    let bar = |(name, [_, most, _], published): &(String, [f64; 3], Option<f64>)| Bar {
        name: name.clone(),
        found_us: Some(*most),
        limit_us: *published,
    };
    let bars: Vec<Bar> = stages.rows.iter().map(bar).collect();
    html! {
        h3 { (stages.heading) }
        (budget::drawn(&bars))
        (super::page::scrolling(html! { table {
            thead { tr { th { "stage, µs" } th { "p50" } th { "p99.9" } th { "max" } th { "published" } } }
            tbody { @for (name, found, published) in &stages.rows { tr {
                th { (name) }
                @for us in found { td class="figure" { (format!("{us:.1}")) } }
                td class="figure" { @if let Some(us) = published { (us) } }
            } } }
        } }))
        @for line in &stages.worst { p { (line) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environments_stand_one_below_the_other_with_their_tails() {
        let mut histogram = Histogram::new();
        [8_000, 9_000, 10_000, 900_000].iter().for_each(|ns| histogram.record_ns(*ns));
        let environments =
            vec![("host".into(), 0, false, histogram.clone()), ("<vm>".into(), 1, true, histogram)];
        let stages = Stages {
            heading: "vm".into(),
            rows: vec![("irqfd".into(), [1.0, 31.0, 90.0], Some(30.0))],
            worst: vec!["tick 3 <late>".into()],
        };
        let page = render(&Ticks {
            loads: vec![Load { name: "cpu".into(), environments }],
            bars: vec![Bar { name: "host, max".into(), found_us: Some(900.0), limit_us: Some(50.0) }],
            stages: vec![stages],
            ..Ticks::default()
        });
        assert_eq!(page.matches("class=\"maximum\"").count(), 2);
        assert!(
            page.contains("&lt;vm&gt;") && page.contains("tick 3 &lt;late&gt;") && !page.contains("<vm>")
        );
        assert!(
            page.contains("900.0 µs, missed: at most 50 µs")
                && page.contains("31.0 µs, missed: at most 30 µs")
        );
        assert!(page.contains(crate::EMULATED_MARK));
        assert!(render(&Ticks::default()).contains("No tick was received"));
    }
}
