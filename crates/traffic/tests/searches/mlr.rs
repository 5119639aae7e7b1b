//! MLRsearch against simulated devices whose answers are known.

use std::convert::Infallible;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::simulated::{Behaviour, Device, load, seconds};
use proptest::prelude::*;
use traffic::search::mlr::{Class, Goal, GoalResult, LoadTrial, Outcome, Plan, classify};
use traffic::search::{
    Budget, Cut, Finding, Fraction, Invalid, Load, Measured, Record, SearchRange, TrialLength, TrialResult,
    invalid_trials, run,
};

const LIMIT: u64 = 7_654_321;
const MAX: u64 = 14_880_952;

fn percent(percent: f64) -> Fraction {
    Fraction::from_percent(percent).unwrap()
}

fn no_drop() -> Goal {
    Goal::csit(Fraction::ZERO)
}

fn partial_drop() -> Goal {
    Goal::csit(percent(0.5))
}

fn plan(goals: &[Goal]) -> Plan {
    Plan { range: SearchRange::new(load(1000), load(MAX)).unwrap(), goals: goals.to_vec() }
}

/// Enough tries that a device whose trials are often invalid does not end a search.
fn patient() -> Budget {
    Budget { attempts: NonZeroU32::new(1000).unwrap(), ..Budget::default() }
}

fn searched(goals: &[Goal], device: &mut Device) -> Outcome {
    let Ok(found) = run(&plan(goals), &patient(), |l, d| device.measure::<Infallible>(l, d), |_| ());
    found
}

/// Lower bound, upper bound, conditional throughput.
fn bracket(result: &GoalResult) -> (u64, u64, f64) {
    match result.finding {
        Finding::Bracketed { lower, upper } => {
            (lower.load.frames_per_second(), upper.frames_per_second(), lower.conditional_throughput_fps)
        }
        other => panic!("not bracketed: {other:?}"),
    }
}

fn assert_within_width(result: &GoalResult) {
    let (lower, upper, _) = bracket(result);
    assert!(lower < upper && upper - lower <= result.goal.width().of(upper).max(1), "{result:?}");
}

/// The trials at a load, as the classification sees them.
fn trials_at(trials: &[Record], at: Load) -> Vec<LoadTrial> {
    let here = trials.iter().filter(|trial| trial.input.load == at);
    let valid = here.filter_map(|trial| {
        trial.measured.valid().map(|&result| LoadTrial { duration: trial.input.duration, result })
    });
    valid.collect()
}

/// What RFC 9971 demands of any result: the bounds are the relevant ones of all trials.
fn assert_bounds_are_the_relevant_ones(found: &Outcome) {
    let mut loads: Vec<Load> = found.trials.iter().map(|trial| trial.input.load).collect();
    loads.sort();
    loads.dedup();
    for result in &found.results {
        let class = |&at: &Load| classify(&result.goal, &trials_at(&found.trials, at));
        let upper = loads.iter().copied().find(|at| class(at) == Class::Upper);
        let below = loads.iter().copied().filter(|at| upper.is_none_or(|upper| *at < upper));
        let lower = below.filter(|at| class(at) == Class::Lower).max();
        let reported = match result.finding {
            Finding::Bracketed { lower, upper } => (Some(lower.load), Some(upper)),
            Finding::AtMaximum { lower } => (Some(lower.load), None),
            Finding::BelowMinimum { upper } => (None, Some(upper)),
            Finding::Undecided { lower, upper, .. } => (lower.map(|lower| lower.load), upper),
        };
        assert_eq!(reported, (lower, upper), "{result:?}");
    }
}

#[test]
fn a_sharp_limit_is_bracketed_in_few_trials() {
    let mut device = Device::new(Behaviour::Sharp { limit: LIMIT });
    let found = searched(&[no_drop()], &mut device);
    assert_within_width(&found.results[0]);
    let (lower, upper, conditional) = bracket(&found.results[0]);
    assert!(lower <= LIMIT && LIMIT < upper);
    assert_eq!(conditional, lower as f64, "nothing is lost at the lower bound");
    // The maximum, and one trial each for bounds of four times the width; three that halve it and two for its
    // lower end; eleven that halve it again, and eight more for the end: eleven decide a load.
    assert_eq!(found.trials.len(), 27);
    assert_eq!(found.cut, None);
    assert_bounds_are_the_relevant_ones(&found);
}

#[test]
fn two_goals_of_a_lossy_limit_are_each_found_at_their_own_loss() {
    // 1 % more load is 0.1 % more loss, so 0.5 % is lost at 1.05 times the limit.
    let behaviour = Behaviour::Lossy { limit: LIMIT, steepness: 10 };
    for goals in [[no_drop(), partial_drop()], [partial_drop(), no_drop()]] {
        let found = searched(&goals, &mut Device::new(behaviour));
        assert_bounds_are_the_relevant_ones(&found);
        for result in &found.results {
            assert_within_width(result);
            let answer = if result.goal == no_drop() { LIMIT } else { LIMIT * 105 / 100 };
            let (lower, upper, conditional) = bracket(result);
            assert!(lower <= answer && answer < upper, "{lower} {answer} {upper}");
            assert!(conditional <= lower as f64 && conditional >= lower as f64 * 0.995);
        }
        assert_eq!(found.results.iter().map(|result| result.goal).collect::<Vec<_>>(), goals);
        assert!(found.trials.len() <= 24 * 11, "{} trials", found.trials.len());
    }
}

#[test]
fn the_conditional_throughput_is_not_beyond_a_hard_limit() {
    // RFC 9971 "Hard Performance Limit": with a loss goal the load is, the conditional throughput is not.
    let found = searched(&[partial_drop()], &mut Device::new(Behaviour::Sharp { limit: LIMIT }));
    let (lower, upper, conditional) = bracket(&found.results[0]);
    let edge = LIMIT as f64 / 0.995;
    assert!(lower as f64 <= edge && edge < upper as f64);
    assert!(lower > LIMIT && conditional <= LIMIT as f64 && conditional > LIMIT as f64 * 0.999);
}

#[test]
fn goals_of_different_length_share_trials_and_hints() {
    let goals = [Goal::rfc2544(percent(0.5)), Goal::tst009(percent(0.5)), no_drop()];
    let found = searched(&goals, &mut Device::new(Behaviour::Sharp { limit: LIMIT }));
    assert_bounds_are_the_relevant_ones(&found);
    for result in &found.results {
        assert_within_width(result);
        let (lower, upper, _) = bracket(result);
        assert!(lower <= LIMIT && LIMIT < upper);
    }
    let long = found.trials.iter().filter(|trial| trial.input.duration == seconds(60)).count();
    assert!(long <= 4, "{long} long trials; one confirms the bound of the short ones for both");
    assert_eq!(found.results[0].length, TrialLength::Full);
    assert_eq!(found.results[2].length, TrialLength::Quick);
}

#[test]
fn a_longer_goal_begins_where_the_shorter_one_ended() {
    // The rate that comes through at the maximum says little about where this device loses its first frame.
    let behaviour = Behaviour::Lossy { limit: LIMIT, steepness: 1 };
    for goals in [[Goal::rfc2544(percent(0.5)), no_drop()], [no_drop(), Goal::rfc2544(percent(0.5))]] {
        let found = searched(&goals, &mut Device::new(behaviour));
        for result in &found.results {
            assert_within_width(result);
        }
        let long = found.trials.iter().filter(|trial| trial.input.duration == seconds(60)).count();
        assert_eq!(long, 1, "the short trials found the upper bound, and a long one the lower one");
    }
}

#[test]
fn short_initial_trials_tell_upper_bounds_for_less() {
    let quick = Goal::tst009(percent(0.5));
    let slow = quick.with_initial_trial(quick.final_trial()).unwrap();
    let spend = |goal| {
        let mut device = Device::new(Behaviour::Lossy { limit: LIMIT, steepness: 1 });
        let found = searched(&[goal], &mut device);
        assert_within_width(&found.results[0]);
        let (lower, upper, _) = bracket(&found.results[0]);
        assert!(lower <= LIMIT && LIMIT < upper);
        let at_upper = trials_at(&found.trials, load(upper));
        (device.traffic, at_upper.iter().map(|trial| trial.duration).sum::<Duration>())
    };
    let ((slow, slow_upper), (quick, quick_upper)) = (spend(slow), spend(quick));
    assert!(quick < slow / 3, "{quick:?} {slow:?}");
    // More than half of 120 s, in short trials or in two of 60 s.
    assert_eq!(slow_upper, seconds(120));
    assert!(seconds(60) < quick_upper && quick_upper < seconds(61), "{quick_upper:?}");
}

#[test]
fn occasional_loss_is_tolerated_up_to_the_exceed_ratio() {
    let behaviour = Behaviour::Occasional { limit: LIMIT, one_in: 5 };
    for seed in 0..50 {
        let found = searched(&[no_drop()], &mut Device::new(behaviour).seeded(seed));
        assert_bounds_are_the_relevant_ones(&found);
        let (lower, upper, _) = bracket(&found.results[0]);
        assert!(lower <= LIMIT && upper > LIMIT * 99 / 100, "seed {seed}: {lower} {upper}");
        assert_within_width(&found.results[0]);
    }
    // Without an exceed ratio one disturbance in some eleven trials suffices.
    let strict = Goal::new(seconds(1), seconds(11), Fraction::ZERO, Fraction::ZERO, percent(0.5)).unwrap();
    let far = |seed| match searched(&[strict], &mut Device::new(behaviour).seeded(seed)).results[0].finding {
        Finding::Bracketed { upper, .. } => upper.frames_per_second() < LIMIT * 99 / 100,
        Finding::BelowMinimum { .. } => true,
        other => panic!("{other:?}"),
    };
    assert!((0..20).filter(|seed| far(*seed)).count() >= 15);
}

#[test]
fn several_goals_come_to_rest_on_a_disturbed_device() {
    let goals = [no_drop(), partial_drop(), Goal::tst009(percent(0.5)), Goal::rfc2544(percent(0.5))];
    for one_in in [2, 3, 10, 100] {
        for seed in 0..25 {
            let behaviour = Behaviour::Occasional { limit: LIMIT, one_in };
            let found = searched(&goals, &mut Device::new(behaviour).seeded(seed));
            assert_bounds_are_the_relevant_ones(&found);
            assert_eq!(found.cut, None, "1 in {one_in}, seed {seed}");
            assert!(found.trials.len() <= 600, "{} trials, 1 in {one_in}, seed {seed}", found.trials.len());
        }
    }
}

#[test]
fn a_drifting_device_ends_with_bounds_that_its_trials_bear_out() {
    for per_second in [100, 1000, 10_000, 100_000] {
        let behaviour = Behaviour::Drifting { limit: LIMIT, per_second };
        let mut device = Device::new(behaviour);
        let found = searched(&[no_drop(), partial_drop(), Goal::rfc2544(percent(0.5))], &mut device);
        assert_bounds_are_the_relevant_ones(&found);
        assert!(found.cut.is_none(), "{per_second}: {:?}", found.cut);
        for result in &found.results {
            assert_within_width(result);
            assert!(bracket(result).2 <= LIMIT as f64);
        }
    }
}

#[test]
fn a_device_without_loss_is_limited_by_the_maximum_alone() {
    let found = searched(&[no_drop(), partial_drop()], &mut Device::new(Behaviour::NoLoss));
    for result in &found.results {
        let Finding::AtMaximum { lower } = result.finding else { panic!("{result:?}") };
        assert_eq!((lower.load, lower.conditional_throughput_fps), (load(MAX), MAX as f64));
    }
    assert_eq!(found.trials.len(), 11, "the same trials count for both goals");
}

#[test]
fn a_device_that_forwards_nothing_is_below_the_minimum() {
    let found = searched(&[no_drop(), partial_drop()], &mut Device::new(Behaviour::TotalLoss));
    for result in &found.results {
        assert_eq!(result.finding, Finding::BelowMinimum { upper: load(1000) });
    }
    assert_eq!(found.trials.len(), 12, "the maximum once, and the minimum until that is decided");
}

#[test]
fn one_load_is_a_range_too() {
    let only = |limit| {
        let plan = Plan { range: SearchRange::new(load(1000), load(1000)).unwrap(), goals: vec![no_drop()] };
        let mut device = Device::new(Behaviour::Sharp { limit });
        let Ok(found) = run(&plan, &patient(), |l, d| device.measure::<Infallible>(l, d), |_| ());
        found.results[0].finding
    };
    assert!(matches!(only(1000), Finding::AtMaximum { .. }));
    assert_eq!(only(999), Finding::BelowMinimum { upper: load(1000) });
}

#[test]
fn invalid_trials_are_repeated_and_change_nothing() {
    let behaviour = Behaviour::Lossy { limit: LIMIT, steepness: 10 };
    let clean = searched(&[no_drop(), partial_drop()], &mut Device::new(behaviour));
    let found = searched(&[no_drop(), partial_drop()], &mut Device::new(behaviour).invalid_one_in(3));
    assert_eq!(found.results, clean.results);
    let invalid = invalid_trials(&found.trials);
    assert!(invalid > 10);
    assert_eq!(found.trials.len(), clean.trials.len() + invalid);
}

#[test]
fn a_spent_budget_leaves_what_is_known_and_says_undecided() {
    let behaviour = Behaviour::Lossy { limit: LIMIT, steepness: 10 };
    let whole = searched(&[no_drop(), partial_drop()], &mut Device::new(behaviour));
    for trials in 0..whole.trials.len() as u32 {
        let mut device = Device::new(behaviour);
        let budget = Budget { trials, ..Budget::default() };
        let goals = plan(&[no_drop(), partial_drop()]);
        let Ok(found) = run(&goals, &budget, |l, d| device.measure::<Infallible>(l, d), |_| ());
        assert_eq!((found.trials.len(), found.cut), (trials as usize, Some(Cut::Trials)));
        assert_eq!(found.trials[..], whole.trials[..trials as usize]);
        assert_bounds_are_the_relevant_ones(&found);
        let undecided = |result: &GoalResult| matches!(result.finding, Finding::Undecided { .. });
        assert!(found.results.iter().any(undecided));
    }
    let preempted = |_, _| Ok::<_, Infallible>(Measured::Invalid(Invalid::Preempted));
    let Ok(found) = run(&plan(&[no_drop()]), &Budget::default(), preempted, |_| ());
    let undecided = Finding::Undecided { lower: None, upper: None, cut: Cut::Invalid };
    assert_eq!((found.results[0].finding, found.trials.len()), (undecided, 5));
}

#[test]
fn an_error_passes_through() {
    let mut device = Device::new(Behaviour::NoLoss);
    let mut calls = 0;
    let measure = |l, d| {
        calls += 1;
        if calls == 4 { Err("gone") } else { device.measure(l, d) }
    };
    assert_eq!(run(&plan(&[no_drop()]), &Budget::default(), measure, |_| ()), Err("gone"));
}

#[test]
fn the_observer_sees_bounds_for_every_goal_in_the_callers_order() {
    let mut device = Device::new(Behaviour::Lossy { limit: LIMIT, steepness: 10 });
    let mut last = Vec::new();
    let mut numbers = Vec::new();
    let Ok(found) = run(
        &plan(&[partial_drop(), no_drop()]),
        &Budget::default(),
        |l, d| device.measure::<Infallible>(l, d),
        |progress| {
            last = progress.bounds.to_vec();
            numbers.push(progress.trial.number);
        },
    );
    assert_eq!(numbers, (1..=found.trials.len() as u32).collect::<Vec<_>>());
    for (bounds, result) in last.iter().zip(&found.results) {
        let (lower, upper, _) = bracket(result);
        assert_eq!((bounds.lower, bounds.upper), (Some(load(lower)), Some(load(upper))));
    }
    assert_eq!(last.len(), 2);
}

#[test]
fn a_result_reads_back_from_json_as_it_was() {
    let mut device = Device::new(Behaviour::Lossy { limit: LIMIT, steepness: 10 });
    let found = searched(&[no_drop(), partial_drop()], &mut device);
    let text = serde_json::to_string(&found).unwrap();
    assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), found);
}

fn any_goal() -> impl Strategy<Value = Goal> {
    let loss = prop_oneof![Just(0_u32), 0_u32..100_000_000];
    let exceed = prop_oneof![Just(0_u32), Just(500_000_000), 0_u32..900_000_000];
    (1_u64..20, 1_u64..5, 1_u64..8, loss, exceed, 1_000_000_u32..100_000_000).prop_map(
        |(initial, longer, sums, loss, exceed, width)| {
            let share = |parts| Fraction::from_parts_per_billion(parts).unwrap();
            let (initial, final_trial) = (seconds(initial), seconds(initial * longer));
            let sum = final_trial * u32::try_from(sums).unwrap();
            let goal = Goal::new(final_trial, sum, share(loss), share(exceed), share(width)).unwrap();
            goal.with_initial_trial(initial).unwrap()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_goals_of_a_sharp_limit_are_found(
        goals in proptest::collection::vec(any_goal(), 1..4),
        limit in 1_u64..20_000_000,
        invalid_one_in in prop_oneof![Just(0_u64), 3_u64..10],
        seed: u64,
    ) {
        let mut device =
            Device::new(Behaviour::Sharp { limit }).seeded(seed).invalid_one_in(invalid_one_in);
        let budget = Budget { trials: 20_000, traffic: Duration::MAX, ..patient() };
        let Ok(found) = run(&plan(&goals), &budget, |l, d| device.measure::<Infallible>(l, d), |_| ());
        assert_bounds_are_the_relevant_ones(&found);
        prop_assert_eq!(found.cut, None);
        // Only whole frames are offered: over a trial of a second or more that is a frame a second at most.
        let highest_rate = limit as f64 + 1.0;
        for result in &found.results {
            // Up to this load the loss is within the goal: received over offered is limit over load.
            let tolerated = |load: u64| {
                let lost = load.saturating_sub(limit);
                !result.goal.loss().is_exceeded_by(lost, load)
            };
            match result.finding {
                Finding::Bracketed { lower, upper } => {
                    assert_within_width(result);
                    prop_assert!(tolerated(lower.load.frames_per_second()));
                    prop_assert!(!tolerated(upper.frames_per_second()));
                    prop_assert!(lower.conditional_throughput_fps <= highest_rate);
                }
                Finding::AtMaximum { lower } => {
                    prop_assert!(lower.load == load(MAX) && tolerated(MAX));
                    prop_assert!(lower.conditional_throughput_fps <= highest_rate);
                }
                Finding::BelowMinimum { upper } => prop_assert!(upper == load(1000) && !tolerated(1000)),
                Finding::Undecided { .. } => prop_assert!(false, "undecided with budget left"),
            }
        }
    }

    /// Whatever the device answers, the budget holds, and bounds are the relevant ones and in order.
    #[test]
    fn any_answers_yield_relevant_bounds_within_the_budget(
        goals in proptest::collection::vec(any_goal(), 1..4),
        losses in proptest::collection::vec(0_u64..4, 1..40),
        trials in 0_u32..300,
        traffic_s in 0_u64..4000,
    ) {
        let budget = Budget { trials, traffic: seconds(traffic_s), ..Budget::default() };
        let mut answers = losses.iter().cycle();
        let measure = |_, d| {
            let lost = *answers.next().expect("endless");
            Ok::<_, Infallible>(Measured::Valid(TrialResult::new(100, 100 - lost, d).unwrap()))
        };
        let plan = plan(&goals);
        let Ok(found) = run(&plan, &budget, measure, |_| ());
        prop_assert!(found.trials.len() <= trials as usize);
        prop_assert!(found.trials.iter().map(|trial| trial.input.duration).sum::<Duration>() <= budget.traffic);
        assert_bounds_are_the_relevant_ones(&found);
        for trial in &found.trials {
            prop_assert!(plan.range.min() <= trial.input.load && trial.input.load <= plan.range.max());
        }
        for result in &found.results {
            if let Finding::Bracketed { lower, upper } = result.finding {
                prop_assert!(lower.load < upper);
                assert_within_width(result);
            }
        }
    }

    /// The formula in floating point, as RFC 9971 prints it, agrees wherever it is not within a rounding
    /// error of its own edge.
    #[test]
    fn classification_agrees_with_the_printed_formula(
        goal in any_goal(),
        trials in proptest::collection::vec((1_u64..100, 0_u64..3), 0..20),
    ) {
        let trials: Vec<LoadTrial> = trials
            .iter()
            .map(|&(length, lost)| {
                let duration = seconds(length);
                LoadTrial { duration, result: TrialResult::new(10, 10 - lost, duration).unwrap() }
            })
            .collect();
        let sum = |full: bool, high: bool| -> f64 {
            let kind = trials.iter().filter(|trial| {
                (trial.duration >= goal.final_trial()) == full
                    && (trial.result.loss_ratio() > f64::from(goal.loss().parts_per_billion()) / 1e9) == high
            });
            kind.map(|trial| trial.duration.as_secs_f64()).sum()
        };
        let e = f64::from(goal.exceed().parts_per_billion()) / 1e9;
        let excess = (sum(false, true) - sum(false, false) * (e / (1.0 - e))).max(0.0);
        let high = sum(true, true) + excess;
        let whole = (sum(true, false) + high).max(goal.duration_sum().as_secs_f64());
        let quantile = whole * e;
        let (pessimistic, optimistic) = (whole - sum(true, false), high);
        prop_assume!((pessimistic - quantile).abs() > 1e-6 && (optimistic - quantile).abs() > 1e-6);
        let expected = match (pessimistic <= quantile, optimistic <= quantile) {
            (true, true) => Class::Lower,
            (false, false) => Class::Upper,
            _ => Class::Undecided,
        };
        prop_assert_eq!(classify(&goal, &trials), expected);
    }
}
