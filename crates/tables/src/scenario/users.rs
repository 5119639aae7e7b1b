//! The number of users that fit in each environment, and the missed ticks for each number of users.

use std::collections::BTreeSet;

use lab::chains::{Environment, Results, Run, Trial};
use measure::median_interval;
use measure::statistics::median;
use report::html::figures::Table;
use report::units;

use super::mark::marked;

/// A row for each number of users that was tried anywhere, a column for each environment.
pub fn table(results: &Results, ran: &[(&Environment, &[Run])]) -> Table {
    let names = ran.iter().map(|(environment, _)| marked(environment));
    let mut table = Table {
        title: "Users by environment".into(),
        headings: std::iter::once("users of a cell".into()).chain(names).collect(),
        rows: Vec::new(),
        notes: legend(results),
    };
    let mut row = |name: String, cell: &dyn Fn(&[Run]) -> String| {
        table.rows.push(std::iter::once(name).chain(ran.iter().map(|(_, runs)| cell(runs))).collect());
    };
    if results.is_search {
        row("that fit".into(), &fitting);
    }
    let tried: BTreeSet<u32> =
        ran.iter().flat_map(|(_, runs)| trials(runs)).map(|trial| trial.users).collect();
    for users in tried {
        row(users.to_string(), &|runs| missed(runs, users));
    }
    row("frames lost".into(), &|runs| trials(runs).map(Trial::lost).sum::<u64>().to_string());
    table
}

/// The meaning of the cells, in lines.
fn legend(results: &Results) -> Vec<String> {
    let missed = format!(
        "beside a number of users: ticks missed of 1000, least to most of its trials, of {} ticks each",
        results.ticks
    );
    if !results.is_search {
        return vec![missed];
    }
    let runs = results.environments.iter().flat_map(|environment| environment.outcome.iter()).map(Vec::len);
    let interval = match runs.max().and_then(median_interval::coverage) {
        Some(coverage) => {
            format!(
                "its interval, which holds the middle of such searches in {:.1} % of cases",
                100.0 * coverage
            )
        }
        None => format!("least to most; {} searches or more give an interval", median_interval::MIN_VALUES),
    };
    let fit = format!(
        "that fit, with at most {} of 1000 ticks missed: the middle of the searches [{interval}]",
        results.missed_per_thousand
    );
    vec![fit, missed]
}

/// The summary at the end of a run: one line for each environment, compared with the first one that ran.
pub fn in_short(results: &Results) -> Vec<String> {
    let base = results.ran().first().and_then(|(_, runs)| middle(runs));
    let line = |environment| format!("  {}", said(environment, results.is_search, base));
    std::iter::once("In short".to_owned()).chain(results.environments.iter().map(line)).collect()
}

fn said(environment: &Environment, is_search: bool, base: Option<f64>) -> String {
    let name = marked(environment);
    let runs = match &environment.outcome {
        Ok(runs) if trials(runs).next().is_some() => runs,
        _ => return format!("{name}: nothing was measured; the reason is above"),
    };
    if !is_search {
        let tried: BTreeSet<u32> = trials(runs).map(|trial| trial.users).collect();
        let with = |users: &u32| format!("with {users} users {} of 1000 ticks missed", missed(runs, *users));
        return format!("{name}: {}", tried.iter().map(with).collect::<Vec<_>>().join("; "));
    }
    let beside = match (base, middle(runs)) {
        (Some(base), Some(fits)) if base > 0.0 && fits != base => {
            format!(", ×{} of the first", units::significant(fits / base))
        }
        _ => String::new(),
    };
    format!("{name}: {} users fit{beside}", fitting(runs))
}

fn middle(runs: &[Run]) -> Option<f64> {
    median(&runs.iter().map(|run| f64::from(run.fits)).collect::<Vec<_>>())
}

/// The number of missed ticks of 1000 with each number of users, over all trials of one environment.
pub fn curve(runs: &[Run]) -> Vec<(f64, f64)> {
    let tried: BTreeSet<u32> = trials(runs).map(|trial| trial.users).collect();
    let share = |users| {
        let with = || trials(runs).filter(move |trial| trial.users == users);
        let of = |count: fn(&Trial) -> u64| with().map(count).sum::<u64>() as f64;
        of(Trial::missed) * 1000.0 / of(Trial::instants).max(1.0)
    };
    tried.into_iter().map(|users| (f64::from(users), share(users))).collect()
}

fn trials(runs: &[Run]) -> impl Iterator<Item = &Trial> {
    runs.iter().flat_map(Run::counted)
}

/// The middle of what fitted, and its interval; of few searches the ends.
fn fitting(runs: &[Run]) -> String {
    let fits: Vec<f64> = runs.iter().map(|run| f64::from(run.fits)).collect();
    let Some(middle) = median(&fits) else { return String::new() };
    let least = fits.iter().copied().fold(f64::INFINITY, f64::min);
    let most = fits.iter().copied().fold(0.0, f64::max);
    let (low, high) = median_interval::interval(&fits).unwrap_or((least, most));
    format!("{middle} [{low}, {high}]")
}

/// The missed ticks of all trials with this number of users.
fn missed(runs: &[Run], users: u32) -> String {
    let of_1000 = trials(runs)
        .filter(|trial| trial.users == users)
        .map(|trial| trial.missed() as f64 * 1000.0 / trial.instants().max(1) as f64);
    let mut shares: Vec<f64> = of_1000.collect();
    shares.sort_by(f64::total_cmp);
    // One of many thousand is not none.
    let show = |share: f64| match share {
        share if share > 0.0 && share < 0.1 => "<0.1".to_owned(),
        share if share == share.round() => format!("{share}"),
        share => format!("{share:.1}"),
    };
    match shares[..] {
        [] => String::new(),
        [least, .., most] if least < most => format!("{} to {}", show(least), show(most)),
        [only, ..] => show(only),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::runner::Attempt;
    use measure::Verdict;
    use scenario::chain::Outcome;

    fn run(fits: u32, trials: &[(u32, u64)]) -> Run {
        let trial = |&(users, skipped): &(u32, u64)| {
            let ticks = 1000 - skipped;
            let mut first = Outcome::default();
            (first.ticks, first.skipped, first.sent) = (ticks, skipped, 5);
            let mut last = Outcome { received: 3, ..Outcome::default() };
            last.ended = Some(scenario::chain::Ended { in_time: ticks, ..Default::default() });
            Attempt::from(Trial { users, is_in_time: skipped == 0, members: vec![first, last] })
        };
        Run { fits, trials: trials.iter().map(trial).collect() }
    }

    #[test]
    fn what_fits_has_its_interval_and_what_was_missed_its_range() {
        let three = [run(8, &[(8, 0), (16, 30)]), run(16, &[(8, 0), (16, 0), (32, 900)]), run(8, &[(16, 2)])];
        assert_eq!(fitting(&three), "8 [8, 16]");
        assert_eq!(missed(&three, 8), "0");
        assert_eq!(missed(&three, 16), "0 to 30");
        assert_eq!((missed(&three, 32).as_str(), missed(&three, 64).as_str()), ("900", ""));
        assert_eq!(trials(&three).map(Trial::lost).sum::<u64>(), 12, "two of each trial");
        assert_eq!(curve(&three), [(8.0, 0.0), (16.0, 32.0 / 3.0), (32.0, 900.0)]);
        let nine: Vec<Run> = (1..=9).map(|fits| run(fits, &[])).collect();
        assert_eq!(fitting(&nine), "5 [2, 8]");
        assert_eq!(fitting(&[]), "");
        let mut noisy = run(8, &[(8, 900), (8, 1)]);
        noisy.trials[0].verdict = Verdict::Discarded("40 % of the CPUs' time was stolen".into());
        assert_eq!(missed(&[noisy], 8), "1", "a discarded trial is in no figure");
    }

    #[test]
    fn each_environment_ends_with_what_fits_beside_the_first() {
        let environment =
            |name: &str, outcome| Environment { name: name.into(), is_emulated: name == "vm", outcome };
        let fast = environment("host", Ok(vec![run(16, &[(16, 0), (32, 900)])]));
        let slow = environment("vm", Ok(vec![run(4, &[(4, 0)])]));
        let none = environment("container", Err(measure::Failure::new("a", "b", "c")));
        let found = [&fast, &slow, &none].map(|one| said(one, true, Some(16.0)));
        assert_eq!(found[0], "host: 16 [16, 16] users fit");
        assert_eq!(found[1], "vm†: 4 [4, 4] users fit, ×0.250 of the first");
        assert_eq!(found[2], "container: nothing was measured; the reason is above");
        let fixed = said(&fast, false, None);
        assert_eq!(
            fixed,
            "host: with 16 users 0 of 1000 ticks missed; with 32 users 900 of 1000 ticks missed"
        );
    }
}
