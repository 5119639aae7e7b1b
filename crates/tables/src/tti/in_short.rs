//! The summary at the end of a run of `tti`: one line for each environment.

use std::time::Duration;

use lab::tti::{Outcome, Results, load_name};
use linux::duration;
use report::units;

use super::mark::marked;

/// The figures of one environment under one load.
struct Under {
    load: &'static str,
    p999_ns: u64,
    latest_ns: u64,
    ticks: u64,
    late: u64,
    lost: u64,
}

impl Under {
    fn of(load: &'static str, outcome: &Outcome) -> Self {
        let received = &outcome.received;
        Under {
            load,
            p999_ns: received.from_due.quantile_ns(0.999),
            latest_ns: received.from_due.max_ns(),
            ticks: received.ticks,
            late: received.late,
            lost: received.lost,
        }
    }
}

/// The lines of the summary; empty if there are no rows.
pub fn lines(results: &Results) -> Vec<String> {
    let mut environments: Vec<&str> = Vec::new();
    for row in &results.rows {
        if !environments.contains(&row.environment.as_str()) {
            environments.push(&row.environment);
        }
    }
    let line = |environment: &str| {
        let rows = || results.rows.iter().filter(|row| row.environment == environment);
        let measured = |row: &&lab::tti::Row| row.found().is_ok();
        let name = rows().find(measured).map_or_else(|| environment.to_owned(), marked);
        let under = rows().map(|row| Some(Under::of(load_name(row.load), row.found().ok()?)));
        format!("  {name}: {}", said(&under.collect::<Vec<_>>(), results.budget_ns))
    };
    let heading = (!environments.is_empty()).then(|| "\nIn short".to_owned());
    heading.into_iter().chain(environments.iter().map(|name| line(name))).collect()
}

/// The load with the highest 99.9th percentile, and whether all ticks under all loads kept the budget.
fn said(loads: &[Option<Under>], budget_ns: u64) -> String {
    let found = || loads.iter().flatten();
    let Some(worst) = found().max_by_key(|under| under.p999_ns) else {
        return "nothing was measured; the reason is above".to_owned();
    };
    let sum = |count: fn(&Under) -> u64| units::count(found().map(count).fold(0, u64::saturating_add));
    let all = sum(|under| under.ticks.saturating_add(under.lost));
    let budget = duration::show(Duration::from_nanos(budget_ns));
    let kept = if found().all(|under| under.late == 0 && under.lost == 0) {
        format!("all {all} ticks within the budget of {budget}")
    } else {
        let (late, lost) = (sum(|under| under.late), sum(|under| under.lost));
        format!("of {all} ticks {late} over the budget of {budget}, {lost} lost")
    };
    let load = if loads.len() > 1 { format!(" (load {})", worst.load) } else { String::new() };
    let gap = match loads.len() - found().count() {
        0 => String::new(),
        failed => format!("; {failed} of {} loads not measured", loads.len()),
    };
    format!(
        "99.9 % within {}{load}, latest {}; {kept}{gap}",
        units::nanos(worst.p999_ns),
        units::nanos(found().map(|under| under.latest_ns).max().unwrap_or(0)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn under(load: &'static str, p999_ns: u64, late: u64, lost: u64) -> Option<Under> {
        Some(Under { load, p999_ns, latest_ns: 2 * p999_ns, ticks: 1000, late, lost })
    }

    #[test]
    fn the_worst_load_is_named_and_what_missed_the_budget() {
        let said = |loads: &[Option<Under>]| said(loads, 100_000).replace('\u{202f}', " ");
        assert_eq!(
            said(&[under("none", 6_000, 0, 0), under("io", 9_000, 0, 0)]),
            "99.9 % within 9.00 µs (load io), latest 18.0 µs; all 2 000 ticks within the budget of 100us"
        );
        assert_eq!(
            said(&[under("none", 400_000, 3, 0), under("io", 9_000, 0, 2), None]),
            "99.9 % within 400 µs (load none), latest 800 µs; of 2 002 ticks 3 over the budget of 100us, 2 lost; 1 of 3 loads \
             not measured"
        );
        assert!(said(&[under("none", 6_000, 0, 0)]).starts_with("99.9 % within 6.00 µs, latest"));
        assert!(said(&[None]).starts_with("nothing was measured"));
    }
}
