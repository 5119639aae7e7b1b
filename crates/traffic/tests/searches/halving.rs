//! RFC 2544 throughput and ETSI NFV-TST 009 against simulated devices whose answers are known.

use std::convert::Infallible;
use std::num::NonZeroU32;

use crate::simulated::{Behaviour, Device, load, seconds};
use proptest::prelude::*;
use traffic::search::rfc2544::{Throughput, ThroughputPlan};
use traffic::search::{
    Budget, Cut, Finding, Fraction, Invalid, Measured, SearchRange, TrialLength, Verification,
    invalid_trials, run, tst009,
};

const LIMIT: u64 = 7_654_321;
const MAX: u64 = 14_880_952;

fn plan() -> ThroughputPlan {
    ThroughputPlan {
        range: SearchRange::new(load(1000), load(MAX)).unwrap(),
        width: Fraction::from_percent(0.5).unwrap(),
        final_trial: seconds(60),
        search_trial: Some(seconds(1)),
    }
}

/// Enough tries that a device whose trials are often invalid does not end a search.
fn patient() -> Budget {
    Budget { attempts: NonZeroU32::new(1000).unwrap(), ..Budget::default() }
}

fn searched(plan: ThroughputPlan, device: &mut Device) -> Throughput {
    let Ok(found) = run(plan, &patient(), |l, d| device.measure::<Infallible>(l, d), |_| ());
    found
}

fn verified(max_trials: u32, max_frames_lost: Option<u64>) -> tst009::Plan {
    let plan = plan();
    let max_trials = NonZeroU32::new(max_trials).unwrap();
    let verification = Verification { max_trials, max_frames_lost };
    tst009::Plan { range: plan.range, width: plan.width, trial: plan.final_trial, verification }
}

fn run_verified(plan: tst009::Plan, device: &mut Device) -> tst009::Outcome {
    let Ok(found) = run(plan, &Budget::default(), |l, d| device.measure::<Infallible>(l, d), |_| ());
    found
}

/// Halvings of a range until it is as wide as the width, and the ends.
fn halvings(plan: &ThroughputPlan) -> usize {
    let (min, max) = (plan.range.min().frames_per_second(), plan.range.max().frames_per_second());
    let mut gap = max - min;
    let mut count = 3;
    // The width is relative to the upper bound, which is not below the minimum.
    while gap > plan.width.of(min).max(1) {
        gap = gap.div_ceil(2);
        count += 1;
    }
    count
}

fn bracket(finding: &Finding<traffic::search::Load>) -> (u64, u64) {
    match finding {
        Finding::Bracketed { lower, upper } => (lower.frames_per_second(), upper.frames_per_second()),
        other => panic!("not bracketed: {other:?}"),
    }
}

#[test]
fn a_sharp_limit_is_bracketed_within_the_width_and_confirmed_at_full_length() {
    for search_trial in [None, Some(seconds(1)), Some(seconds(60))] {
        let mut device = Device::new(Behaviour::Sharp { limit: LIMIT });
        let found = searched(ThroughputPlan { search_trial, ..plan() }, &mut device);
        let (lower, upper) = bracket(&found.finding);
        assert!(lower <= LIMIT && LIMIT < upper, "{lower} {upper}");
        assert!((upper - lower) * 200 <= upper, "{lower} {upper}");
        assert!(found.trials.len() <= 12, "{} trials", found.trials.len());
        assert_eq!(found.length, TrialLength::Full);
        let confirmed = |trial: &&traffic::search::Record| {
            trial.input.load.frames_per_second() == lower && trial.input.duration == seconds(60)
        };
        let confirmed = found.trials.iter().find(confirmed).unwrap();
        assert_eq!(confirmed.measured.valid().unwrap().frames_lost(), 0);
    }
}

#[test]
fn short_trials_save_traffic() {
    let traffic = |search_trial| {
        let mut device = Device::new(Behaviour::Sharp { limit: LIMIT });
        searched(ThroughputPlan { search_trial, ..plan() }, &mut device);
        device.traffic
    };
    assert!(traffic(Some(seconds(1))) < traffic(None) / 5);
}

#[test]
fn one_frame_per_second_is_the_closest_the_bounds_can_come() {
    let mut device = Device::new(Behaviour::Sharp { limit: LIMIT });
    let found = searched(ThroughputPlan { width: Fraction::ZERO, ..plan() }, &mut device);
    assert_eq!(bracket(&found.finding), (LIMIT, LIMIT + 1));
}

#[test]
fn a_lossy_limit_is_where_the_first_frame_is_lost() {
    let mut device = Device::new(Behaviour::Lossy { limit: LIMIT, steepness: 1 });
    let (lower, upper) = bracket(&searched(plan(), &mut device).finding);
    assert!(lower <= LIMIT && LIMIT < upper && (upper - lower) * 200 <= upper, "{lower} {upper}");
}

/// A device that is lossless for a second and not for a minute: what short trials found is not a result.
#[test]
fn a_load_that_only_short_trials_carried_is_never_the_result() {
    let limit_of = |duration| if duration < seconds(60) { LIMIT } else { LIMIT / 3 };
    let measure = |l, d| Device::new(Behaviour::Sharp { limit: limit_of(d) }).measure::<Infallible>(l, d);
    let mut confirmed_bounds = Vec::new();
    let Ok(found) = run(plan(), &Budget::default(), measure, |progress| {
        confirmed_bounds.push(progress.bounds[0]);
    });
    let (lower, upper) = bracket(&found.finding);
    assert!(lower <= LIMIT / 3 && LIMIT / 3 < upper && (upper - lower) * 200 <= upper, "{lower} {upper}");
    assert!(found.trials.len() <= 2 * halvings(&plan()), "{} trials", found.trials.len());
    for bounds in confirmed_bounds {
        assert!(bounds.lower.is_none_or(|lower| lower.frames_per_second() <= LIMIT / 3), "{bounds:?}");
    }
}

#[test]
fn a_device_without_loss_is_limited_by_the_maximum_alone() {
    let found = searched(plan(), &mut Device::new(Behaviour::NoLoss));
    assert_eq!(found.finding, Finding::AtMaximum { lower: load(MAX) });
    assert_eq!(found.trials.len(), 2, "one short, one to confirm");
    let found = run_verified(verified(2, None), &mut Device::new(Behaviour::NoLoss));
    assert_eq!(found.finding, Finding::AtMaximum { lower: load(MAX) });
    assert_eq!(found.trials.len(), 1);
}

#[test]
fn a_device_that_forwards_nothing_is_below_the_minimum() {
    let found = searched(plan(), &mut Device::new(Behaviour::TotalLoss));
    assert_eq!(found.finding, Finding::BelowMinimum { upper: load(1000) });
    assert_eq!(found.finding.decided_lower(), None);
    assert!(found.trials.len() <= halvings(&plan()));
    let found = run_verified(verified(2, None), &mut Device::new(Behaviour::TotalLoss));
    assert_eq!(found.finding, Finding::BelowMinimum { upper: load(1000) });
}

#[test]
fn the_minimum_itself_is_tried_before_it_is_given_up() {
    // 1,000 is within the width of everything up to 1,005.
    for limit in [1000, 1001, 1004] {
        let found = searched(plan(), &mut Device::new(Behaviour::Sharp { limit }));
        let (lower, upper) = bracket(&found.finding);
        assert!(lower <= limit && limit < upper, "{lower} {upper}");
    }
    let found = searched(plan(), &mut Device::new(Behaviour::Sharp { limit: 999 }));
    let last = found.trials.last().unwrap();
    assert_eq!((found.finding, last.input.load), (Finding::BelowMinimum { upper: load(1000) }, load(1000)));
}

#[test]
fn a_drifting_device_yields_bounds_that_were_true_when_they_were_measured() {
    let behaviour = Behaviour::Drifting { limit: LIMIT, per_second: 1000 };
    for search_trial in [None, Some(seconds(1))] {
        let mut device = Device::new(behaviour);
        let (lower, upper) =
            bracket(&searched(ThroughputPlan { search_trial, ..plan() }, &mut device).finding);
        // The limit went from LIMIT to this over the search.
        let last = LIMIT - 1000 * device.traffic.as_secs();
        assert!(lower <= LIMIT && upper > last && (upper - lower) * 200 <= upper, "{lower} {upper} {last}");
    }
}

#[test]
fn loss_verification_sees_through_occasional_loss_and_plain_search_does_not() {
    let behaviour = Behaviour::Occasional { limit: LIMIT, one_in: 4 };
    let close = |lower: u64| lower * 1000 >= LIMIT * 995;
    let (mut plain, mut repeated) = (0, 0);
    for seed in 0..100 {
        let once = run_verified(verified(1, None), &mut Device::new(behaviour).seeded(seed));
        let often = run_verified(verified(6, None), &mut Device::new(behaviour).seeded(seed));
        plain += usize::from(once.finding.decided_lower().is_some_and(|l| close(l.frames_per_second())));
        repeated += usize::from(often.finding.decided_lower().is_some_and(|l| close(l.frames_per_second())));
        assert!(often.finding.decided_lower().is_some_and(|l| l.frames_per_second() <= LIMIT));
    }
    // A quarter of the trials is disturbed, and four loads below the limit must pass: (3/4)^4 of the plain
    // searches come through unharmed, 32 of 100, and nearly all of the others.
    assert!(plain < 50 && repeated > 95, "{plain} {repeated}");
}

#[test]
fn a_lossy_load_is_tried_max_r_times_unless_more_than_z_frames_are_lost() {
    let tries = |max_trials, z, limit| {
        let mut device = Device::new(Behaviour::Sharp { limit });
        run_verified(verified(max_trials, z), &mut device);
        device.asked.iter().filter(|(asked, _)| *asked == load(MAX)).count()
    };
    assert_eq!(tries(1, None, LIMIT), 1);
    assert_eq!(tries(3, None, LIMIT), 3);
    // 60 frames are lost in 60 s at one frame per second above the limit.
    assert_eq!(tries(3, Some(60), MAX - 1), 3);
    assert_eq!(tries(3, Some(59), MAX - 1), 1);
}

#[test]
fn one_clean_repeat_passes_the_load_and_the_count_starts_anew_at_the_next() {
    // Two lossy trials at every load, the third clean.
    let mut asked = Vec::new();
    let mut measure = |l, d| {
        asked.push(l);
        let clean = asked.iter().filter(|&&other| other == l).count() == 3;
        let behaviour = if clean { Behaviour::NoLoss } else { Behaviour::TotalLoss };
        Device::new(behaviour).measure::<Infallible>(l, d)
    };
    let Ok(found) = run(verified(3, None), &Budget::default(), &mut measure, |_| ());
    assert_eq!(found.finding, Finding::AtMaximum { lower: load(MAX) });
    assert_eq!(found.trials.len(), 3);
    asked.clear();
    // The first trial at every load loses frames: with two tries each load has its own.
    let mut measure = |l, d| {
        asked.push(l);
        let first = asked.iter().filter(|&&other| other == l).count() == 1;
        let behaviour = if first { Behaviour::TotalLoss } else { Behaviour::Sharp { limit: LIMIT } };
        Device::new(behaviour).measure::<Infallible>(l, d)
    };
    let Ok(found) = run(verified(2, None), &Budget::default(), &mut measure, |_| ());
    let (lower, upper) = bracket(&found.finding);
    assert!(lower <= LIMIT && LIMIT < upper, "{lower} {upper}");
    asked.clear();
    // With two tries no load passes: each is tried exactly twice.
    let mut measure = |l, d| {
        asked.push(l);
        Device::new(Behaviour::TotalLoss).measure::<Infallible>(l, d)
    };
    let Ok(_) = run(verified(2, None), &Budget::default(), &mut measure, |_| ());
    assert!(asked.chunks(2).all(|pair| pair.len() == 2 && pair[0] == pair[1]), "{asked:?}");
}

#[test]
fn invalid_trials_are_repeated_counted_and_never_a_result() {
    let mut device = Device::new(Behaviour::Sharp { limit: LIMIT }).invalid_one_in(3);
    let found = searched(plan(), &mut device);
    let clean = searched(plan(), &mut Device::new(Behaviour::Sharp { limit: LIMIT }));
    assert_eq!(found.finding, clean.finding);
    let invalid = invalid_trials(&found.trials);
    assert!(invalid > 0);
    assert_eq!(found.trials.len(), clean.trials.len() + invalid);
    for pair in found.trials.windows(2) {
        assert_eq!(pair[1].number, pair[0].number + 1);
        if pair[0].measured.valid().is_none() {
            assert_eq!((pair[1].input, pair[1].attempt), (pair[0].input, pair[0].attempt + 1));
        } else {
            assert_eq!(pair[1].attempt, 1);
        }
    }
}

#[test]
fn a_trial_that_stays_invalid_ends_the_search_undecided() {
    // The generator keeps no load above this.
    let mut device = Device::new(Behaviour::NoLoss);
    let measure = |l, d| {
        if l > load(5_000_000) {
            return Ok::<_, Infallible>(Measured::Invalid(Invalid::Preempted));
        }
        device.measure(l, d)
    };
    let budget = Budget { attempts: NonZeroU32::new(3).unwrap(), ..Budget::default() };
    let Ok(found) = run(plan(), &budget, measure, |_| ());
    assert_eq!(found.finding, Finding::Undecided { lower: None, upper: None, cut: Cut::Invalid });
    assert_eq!(found.trials.len(), 3);
    assert_eq!(found.finding.decided_lower(), None);
}

#[test]
fn an_error_passes_through_and_ends_the_search() {
    let (mut calls, mut seen) = (0, 0);
    let mut device = Device::new(Behaviour::Sharp { limit: LIMIT });
    let measure = |l, d| {
        calls += 1;
        if calls == 3 { Err("the link went down") } else { device.measure(l, d) }
    };
    assert_eq!(run(plan(), &Budget::default(), measure, |_| seen += 1), Err("the link went down"));
    assert_eq!((calls, seen), (3, 2));
}

#[test]
fn a_budget_ends_the_search_before_it_is_exceeded_and_leaves_true_bounds() {
    for trials in 0..12 {
        let mut device = Device::new(Behaviour::Sharp { limit: LIMIT });
        let budget = Budget { trials, ..Budget::default() };
        let plan = ThroughputPlan { search_trial: None, ..plan() };
        let Ok(found) = run(plan, &budget, |l, d| device.measure::<Infallible>(l, d), |_| ());
        assert!(found.trials.len() <= trials as usize);
        if let Finding::Undecided { lower, upper, cut } = found.finding {
            assert_eq!((found.trials.len(), cut), (trials as usize, Cut::Trials));
            assert!(lower.is_none_or(|lower| lower.frames_per_second() <= LIMIT));
            assert!(upper.is_none_or(|upper| upper.frames_per_second() > LIMIT));
        } else {
            assert!(trials >= 9, "{:?} with {trials} trials", found.finding);
        }
    }
    let mut device = Device::new(Behaviour::Sharp { limit: LIMIT });
    let budget = Budget { traffic: seconds(70), ..Budget::default() };
    let Ok(_) = run(plan(), &budget, |l, d| device.measure::<Infallible>(l, d), |_| ());
    assert!(device.traffic <= seconds(70));
    let budget = Budget { traffic: seconds(59), ..Budget::default() };
    let mut device = Device::new(Behaviour::Sharp { limit: LIMIT });
    let Ok(found) = run(plan(), &budget, |l, d| device.measure::<Infallible>(l, d), |_| ());
    assert!(matches!(found.finding, Finding::Undecided { lower: None, cut: Cut::Traffic, .. }), "{found:?}");
}

#[test]
fn the_observer_sees_every_trial_with_bounds_that_close_in() {
    let mut device = Device::new(Behaviour::Sharp { limit: LIMIT }).invalid_one_in(4);
    let mut seen = Vec::new();
    let Ok(found) = run(
        plan(),
        &Budget::default(),
        |l, d| device.measure::<Infallible>(l, d),
        |progress| seen.push((progress.trial.clone(), progress.bounds[0])),
    );
    let records: Vec<_> = seen.iter().map(|(record, _)| record.clone()).collect();
    assert_eq!(records, found.trials);
    let asked: Vec<_> = found.trials.iter().map(|trial| (trial.input.load, trial.input.duration)).collect();
    assert_eq!(asked, device.asked);
    for pair in seen.windows(2) {
        assert!(pair[0].1.lower <= pair[1].1.lower);
        assert!(pair[1].1.upper.is_some());
    }
    let (lower, upper) = bracket(&found.finding);
    let last = seen.last().unwrap().1;
    assert_eq!((last.lower, last.upper), (Some(load(lower)), Some(load(upper))));
}

#[test]
fn short_final_trials_are_labelled_quick() {
    let quick = ThroughputPlan { final_trial: seconds(2), ..plan() };
    assert_eq!(searched(quick, &mut Device::new(Behaviour::NoLoss)).length, TrialLength::Quick);
    let quick = tst009::Plan { trial: seconds(59), ..verified(2, None) };
    assert_eq!(run_verified(quick, &mut Device::new(Behaviour::NoLoss)).length, TrialLength::Quick);
}

#[test]
fn a_result_reads_back_from_json_as_it_was() {
    let mut device = Device::new(Behaviour::Sharp { limit: LIMIT }).invalid_one_in(3);
    let found = searched(plan(), &mut device);
    let text = serde_json::to_string(&found).unwrap();
    assert_eq!(serde_json::from_str::<Throughput>(&text).unwrap(), found);
    let backwards = text.replace(r#""min":1000"#, r#""min":14880953"#);
    assert_ne!(backwards, text);
    assert!(serde_json::from_str::<Throughput>(&backwards).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sharp_limit_is_bracketed_within_width_and_bound(
        min in 1_u64..1_000_000,
        above in 0_u64..1_000_000_000,
        limit in 1_u64..1_100_000_000,
        parts in 0_u32..200_000_000,
        short in proptest::option::of(1_u64..90),
        invalid_one_in in prop_oneof![Just(0_u64), 3_u64..10],
        seed: u64,
    ) {
        let plan = ThroughputPlan {
            range: SearchRange::new(load(min), load(min + above)).unwrap(),
            width: Fraction::from_parts_per_billion(parts).unwrap(),
            final_trial: seconds(60),
            search_trial: short.map(seconds),
        };
        let mut device =
            Device::new(Behaviour::Sharp { limit }).seeded(seed).invalid_one_in(invalid_one_in);
        let Ok(found) = run(plan, &patient(), |l, d| device.measure::<Infallible>(l, d), |_| ());
        let valid = found.trials.len() - invalid_trials(&found.trials);
        prop_assert!(valid <= 2 * halvings(&plan), "{valid} trials");
        match found.finding {
            Finding::Bracketed { lower, upper } => {
                prop_assert!(lower < upper);
                prop_assert!(lower.frames_per_second() <= limit && limit < upper.frames_per_second());
                let gap = upper.frames_per_second() - lower.frames_per_second();
                prop_assert!(gap <= plan.width.of(upper.frames_per_second()).max(1));
            }
            Finding::AtMaximum { lower } => {
                prop_assert!(lower == plan.range.max() && lower.frames_per_second() <= limit);
            }
            Finding::BelowMinimum { upper } => {
                prop_assert!(upper == plan.range.min() && upper.frames_per_second() > limit);
            }
            Finding::Undecided { .. } => prop_assert!(false, "undecided with budget left"),
        }
    }

    /// Whatever the device answers: bounds in order, budget kept, every deciding trial without loss.
    #[test]
    fn any_answers_yield_ordered_bounds_within_the_budget(
        losses in proptest::collection::vec(0_u64..3, 1..40),
        trials in 0_u32..60,
        traffic_s in 0_u64..4000,
        max_r in 1_u32..5,
        z in proptest::option::of(0_u64..3),
        short: bool,
    ) {
        let budget = Budget { trials, traffic: seconds(traffic_s), ..Budget::default() };
        let mut answers = losses.iter().cycle();
        let mut measure = |_, d| {
            let lost = *answers.next().expect("endless");
            Ok::<_, Infallible>(Measured::Valid(
                traffic::search::TrialResult::new(100, 100 - lost, d).unwrap(),
            ))
        };
        let plan = ThroughputPlan { search_trial: short.then_some(seconds(1)), ..plan() };
        let Ok(found) = run(plan, &budget, &mut measure, |_| ());
        let Ok(repeated) = run(verified(max_r, z), &budget, &mut measure, |_| ());
        for (finding, trials) in [(found.finding, found.trials), (repeated.finding, repeated.trials)] {
            prop_assert!(trials.len() <= budget.trials as usize);
            let traffic: std::time::Duration = trials.iter().map(|trial| trial.input.duration).sum();
            prop_assert!(traffic <= budget.traffic);
            let (lower, upper) = match finding {
                Finding::Bracketed { lower, upper } => (Some(lower), Some(upper)),
                Finding::AtMaximum { lower } => (Some(lower), None),
                Finding::BelowMinimum { upper } => (None, Some(upper)),
                Finding::Undecided { lower, upper, .. } => (lower, upper),
            };
            if let (Some(lower), Some(upper)) = (lower, upper) {
                prop_assert!(lower < upper);
            }
            if let Some(lower) = lower {
                let clean = trials.iter().any(|trial| {
                    trial.input.load == lower
                        && trial.input.duration == seconds(60)
                        && trial.measured.valid().is_some_and(|result| result.frames_lost() == 0)
                });
                prop_assert!(clean, "{lower} has no final trial without loss");
            }
        }
    }
}
