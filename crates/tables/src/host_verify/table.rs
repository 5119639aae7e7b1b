//! The text of a verification.

use std::fmt::Write;

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use lab::host_verify::{Effect, Figure, Finding, RuleEffect, State, Verification};
use measure::Histogram;
use report::{EMULATED_MARK, EMULATED_MEANING, units};

/// The figures of a rule that are shown; all figures are in the file.
pub(super) const ABLATION: [Figure; 4] =
    [Figure::WakeupP99, Figure::WakeupMax, Figure::Interrupts, Figure::Switches];

/// The whole verification, in at most `width` columns.
pub fn render(verification: &Verification, width: usize) -> String {
    let mut text = String::new();
    let mark = if verification.emulated { EMULATED_MARK } else { "" };
    if verification.was_applied {
        broken(&mut text, verification, width);
    }
    if verification.samples.is_empty() {
        let _ = writeln!(text, "Nothing of the plan is in force that could be switched.");
        return text;
    }
    let _ = writeln!(
        text,
        "CPUs {} set aside, {} for the host. {} rules switched, {} blocks of {} in each state{}.\n",
        host::isolated_in_words(&verification.isolated, &verification.isolated_offline),
        verification.housekeeping,
        verification.rules.len(),
        verification.blocks,
        units::watched(verification.sample_ns),
        if verification.complete { "" } else { "; interrupted" },
    );
    text += &effects(&verification.effects, mark, width);
    maxima(&mut text, verification);
    if !verification.ablation.is_empty() {
        let _ = writeln!(
            text,
            "\nWithout one rule, against all applied: times as late, or more a second (above 1, or +: the rule helps)\n"
        );
        text += &ablation(&verification.ablation, mark, width);
        chance(&mut text, &verification.ablation);
    }
    if !verification.left_out.is_empty() {
        let _ = writeln!(text, "\nNot switched");
        for left in &verification.left_out {
            let _ = writeln!(text, "  {}: {}", units::text(&left.rule), units::text(&left.reason));
        }
    }
    let mut remarks: Vec<String> = verification
        .counted()
        .into_iter()
        .flat_map(|sample| sample.outcome.remarks.iter().chain(&sample.events.unknown))
        .cloned()
        .collect();
    remarks.sort();
    remarks.dedup();
    remarks.extend(crate::noise::remark("samples", &verification.samples));
    for remark in remarks {
        let _ = writeln!(text, "note: {}", units::text(&remark));
    }
    if verification.emulated {
        let _ = writeln!(text, "{EMULATED_MARK} {EMULATED_MEANING}");
    }
    text
}

fn broken(text: &mut String, verification: &Verification, width: usize) {
    if verification.broken.is_empty() {
        let _ = writeln!(text, "The plan was applied before, holds, and stays applied.\n");
        return;
    }
    let _ = writeln!(text, "No longer as it was applied");
    let mut table = table(width);
    table.set_header(["rule", "what", "wanted", "found"]);
    for one in &verification.broken {
        table.add_row([&one.rule, &one.what, &one.wanted, &one.found].map(|word| units::text(word)));
    }
    let _ = writeln!(text, "{table}\n");
}

fn effects(effects: &[Effect], mark: &str, width: usize) -> String {
    let mut table = table(width);
    table.set_header(["", "as found", "applied", "effect", "95 % interval", ""]);
    for effect in effects {
        let (change, interval) = shown(effect);
        table.add_row([
            effect.figure.title().to_owned(),
            level(effect.figure, effect.base) + mark,
            level(effect.figure, effect.other) + mark,
            change,
            interval,
            words(effect.finding).into(),
        ]);
    }
    align(&mut table, 1..=3);
    format!("{table}\n")
}

fn ablation(rules: &[RuleEffect], mark: &str, width: usize) -> String {
    let mut table = table(width);
    let header = ABLATION.map(|figure| format!("{}{mark}", figure.title()));
    table.set_header(["rule".to_owned()].into_iter().chain(header));
    for rule in rules {
        let cell = |figure: Figure| {
            rule.of(figure).map_or("–".to_owned(), |effect| {
                let (change, interval) = shown(effect);
                let sign = match effect.finding {
                    Finding::Worse => " *",
                    Finding::Better => " !",
                    _ => "",
                };
                format!("{change} {interval}{sign}")
            })
        };
        table.add_row([rule.rule.clone()].into_iter().chain(ABLATION.map(cell)));
    }
    format!("{table}\n* worse without it: the rule is shown to help; ! better without it\n")
}

/// The change and its interval.
pub(super) fn shown(effect: &Effect) -> (String, String) {
    let ends = |show: fn(f64) -> String| {
        effect.interval.map_or("–".to_owned(), |(low, high)| format!("[{}, {}]", show(low), show(high)))
    };
    if effect.figure.is_latency() {
        (units::factor(effect.effect), effect.interval.map_or("–".into(), units::interval))
    } else {
        (signed(effect.effect), ends(signed))
    }
}

fn signed(rate: f64) -> String {
    match rate {
        0.0 => "0".into(),
        rate if rate > 0.0 => format!("+{}", units::significant(rate)),
        rate => units::significant(rate).replace('-', "−"),
    }
}

fn level(figure: Figure, value: f64) -> String {
    if figure.is_latency() { units::nanos(value as u64) } else { format!("{} /s", units::significant(value)) }
}

fn words(finding: Finding) -> &'static str {
    match finding {
        Finding::Better => "better",
        Finding::Worse => "worse",
        Finding::NoDifferenceShown => "no difference shown",
        Finding::TooFewBlocks => "too few blocks",
    }
}

/// An observed maximum says nothing without how long was watched.
fn maxima(text: &mut String, verification: &Verification) {
    let samples = verification.counted();
    for state in [State::AsFound, State::Applied] {
        let mut all = Histogram::new();
        let own = samples.iter().filter(|sample| sample.state == state);
        for histogram in own.filter_map(|sample| sample.outcome.histogram.as_ref()) {
            all.merge(histogram);
        }
        let _ = writeln!(
            text,
            "{state}: {} wake-ups, none later than {}; beyond that: {}",
            units::count(all.count()),
            units::nanos(all.max_ns()),
            units::exceedance_bound(all.count()),
        );
    }
    let fewest = samples.iter().filter_map(|sample| sample.outcome.histogram.as_ref());
    let fewest = fewest.map(Histogram::count).min().unwrap_or(0);
    if fewest < 1000 {
        let _ = writeln!(
            text,
            "A sample has {fewest} wake-ups: its high quantiles are its maximum; give a longer --time"
        );
    }
    let _ = writeln!(text, "Counts hold the measurement's own timer and switches, alike in every state.");
}

/// The expected number of differences by chance alone among all comparisons.
fn chance(text: &mut String, rules: &[RuleEffect]) {
    let all = || rules.iter().flat_map(|rule| ABLATION.into_iter().filter_map(|figure| rule.of(figure)));
    let expected: f64 =
        all().filter_map(|effect| Some(1.0 - measure::median_interval::coverage(effect.blocks)?)).sum();
    let found = all().filter(|effect| matches!(effect.finding, Finding::Better | Finding::Worse)).count();
    if expected > 0.0 {
        let _ = writeln!(
            text,
            "{found} of {} comparisons differ; {} would by chance if no rule did anything",
            all().count(),
            units::significant(expected)
        );
    }
}

fn table(width: usize) -> Table {
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width.clamp(40, u16::MAX as usize) as u16);
    table
}

fn align(table: &mut Table, columns: std::ops::RangeInclusive<usize>) {
    for column in table.column_iter_mut().skip(*columns.start()).take(columns.count()) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

#[cfg(test)]
mod tests {
    use host::Broken;
    use lab::host_verify::{LeftOut, example, samples};
    use measure::Verdict;

    use super::*;

    #[test]
    fn the_table_has_every_figure_and_what_was_left_out() {
        let mut verification = example(samples(6));
        verification.left_out.push(LeftOut::new("tick", "needs a \u{1b}[31mreboot".into()));
        let text = render(&verification, 120);
        for words in ["×0.50", "[0.50, 0.50]", "−20.0", "better", "tick: needs a", "good", "×3.00"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains('\u{1b}') && !text.contains(EMULATED_MARK), "{text}");
        let (good, idle) = (text.find(" good ").unwrap(), text.find(" idle ").unwrap());
        assert!(good < idle, "the most effective first: {text}");
        verification.emulated = true;
        assert!(render(&verification, 120).contains(EMULATED_MEANING));
        assert!(!text.contains("noisy"), "{text}");
        verification.samples[0].verdict = Verdict::KeptNoisy("the clock jumped".into());
        let text = render(&verification, 120);
        assert!(text.contains("note: 0 of 24 samples discarded as noisy and repeated, 1 kept"), "{text}");
    }

    #[test]
    fn few_blocks_have_no_interval_and_nothing_is_no_table() {
        let text = render(&example(samples(2)), 80);
        assert!(text.contains("too few blocks") && !text.contains("by chance"), "{text}");
        let mut verification = example(Vec::new());
        verification.was_applied = true;
        let (rule, what) = ("vm-statistics".into(), "/proc/sys/vm/stat_interval".into());
        verification.broken.push(Broken { rule, what, wanted: "10".into(), found: "3".into() });
        let text = render(&verification, 80);
        assert!(text.contains("No longer") && text.contains("vm-statistics"), "{text}");
    }
}
