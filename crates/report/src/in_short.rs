//! What a run showed, in a line or two for each environment, and how much of it chance explains.

use measure::compare::{Finding, expected_by_chance};
use measure::median_interval;

use crate::view::View;

/// Lines for a reader who reads nothing else.
pub(crate) fn lines(view: &View) -> Vec<String> {
    let environments = view.results.environments.iter().skip(1);
    let mut lines: Vec<String> = environments.filter_map(|record| findings(view, &record.name)).collect();
    lines.extend(intervals(view));
    lines
}

/// In how many metrics a difference was shown, and in how many it would be by chance.
fn findings(view: &View, environment: &str) -> Option<String> {
    let of_it = || view.analysis.comparisons.iter().filter(|c| c.environment == environment);
    let count = |finding: Finding| of_it().filter(|c| c.finding == finding).count();
    let [none, slower, faster] = [Finding::NoDifferenceShown, Finding::Slower, Finding::Faster].map(count);
    let metrics = none + slower + faster;
    let record = view.results.environments.iter().find(|record| record.name == environment)?;
    let text = format!(
        "{}: no difference shown in {none} of {metrics} metrics; {slower} slower, {faster} faster; \
         about {} of {metrics} would differ by chance at this level",
        crate::view::environment_name(record),
        chance(expected_by_chance(of_it())),
    );
    (metrics > 0).then_some(text)
}

/// What the intervals are, and their coverage as it is.
fn intervals(view: &View) -> Option<String> {
    let blocks = view.analysis.comparisons.iter().filter(|c| c.interval.is_some()).map(|c| c.blocks).max()?;
    let (rank, coverage) = (median_interval::rank(blocks)?, median_interval::coverage(blocks)?);
    let ends = match rank {
        1 => "minimum to maximum of the starts' ratios".to_owned(),
        rank => format!("{0} smallest to {0} largest of the starts' ratios", ordinal(rank)),
    };
    Some(format!(
        "intervals hold the true ratio in at least 95 % of cases; {blocks} starts: {ends}, {:.1} %",
        coverage * 100.0
    ))
}

fn chance(expected: f64) -> String {
    if expected < 0.05 { "none".into() } else { format!("{expected:.1}") }
}

fn ordinal(number: usize) -> String {
    let ending = match (number % 10, number % 100) {
        (1, tens) if tens != 11 => "st",
        (2, tens) if tens != 12 => "nd",
        (3, tens) if tens != 13 => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::compare::analyse;
    use measure::example;

    #[test]
    fn chance_and_coverage_are_those_of_the_starts() {
        let mut results = example::results();
        let text = |results: &measure::Results| {
            let analysis = analyse(results);
            lines(&View::new(results, &analysis)).join("\n")
        };
        // Two more starts, copies of the first.
        for block in [8, 9] {
            let copies: Vec<_> = results.trials.iter().filter(|trial| trial.block == 0).cloned().collect();
            results.trials.extend(copies.into_iter().map(|trial| measure::Trial { block, ..trial }));
        }
        let metrics = results.metrics.len();
        for (blocks, words, chance) in [
            (10, "10 starts: 2nd smallest to 2nd largest of the starts' ratios, 97.9 %", 22.0 / 1024.0),
            (8, "8 starts: minimum to maximum of the starts' ratios, 99.2 %", 2.0 / 256.0),
            (6, "6 starts: minimum to maximum of the starts' ratios, 96.9 %", 2.0 / 64.0),
        ] {
            results.trials.retain(|trial| trial.block < blocks);
            let found = text(&results);
            assert!(found.contains(words), "{found}");
            let expected =
                format!("about {:.1} of {metrics} would differ by chance", metrics as f64 * chance);
            assert!(found.contains(&expected), "{expected}: {found}");
        }
        results.trials.retain(|trial| trial.block < 5);
        assert_eq!(text(&results), "", "too few starts show nothing");
    }

    #[test]
    fn places_are_counted_as_people_do() {
        let found = [1, 2, 3, 4, 11, 12, 13, 21, 22, 111, 113].map(ordinal);
        assert_eq!(
            found,
            ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "111th", "113th"]
        );
    }
}
