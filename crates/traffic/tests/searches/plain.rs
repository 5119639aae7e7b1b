//! Frame loss rate, latency, back-to-back and maximum against simulated devices whose answers are known.

use std::convert::Infallible;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::simulated::{Behaviour, Device, load, seconds};
use traffic::search::rfc2544::{
    BackToBack, BackToBackPlan, Burst, FrameLoss, FrameLossPlan, LatencyPlan, Step, ThroughputPlan,
    back_to_back, latency,
};
use traffic::search::{
    Budget, Cut, Finding, Fraction, Invalid, Measured, SearchRange, TrialLength, TrialResult, Verification,
    invalid_trials, maximum, run,
};

fn times(count: u32) -> NonZeroU32 {
    NonZeroU32::new(count).unwrap()
}

/// Enough tries that a device whose trials are often invalid does not end a search.
fn patient() -> Budget {
    Budget { attempts: times(1000), ..Budget::default() }
}

fn walk(step: Step, device: &mut Device) -> FrameLoss {
    let plan = FrameLossPlan { max: load(1_000_000), step, trial: seconds(60) };
    let Ok(found) = run(plan, &patient(), |l, d| device.measure::<Infallible>(l, d), |_| ());
    found
}

fn percentages(found: &FrameLoss) -> Vec<u8> {
    found.points.iter().map(|point| point.percent).collect()
}

#[test]
fn the_frame_loss_rate_walks_down_until_two_trials_lose_nothing() {
    let found = walk(Step::COARSEST, &mut Device::new(Behaviour::Sharp { limit: 650_000 }));
    assert_eq!(percentages(&found), [100, 90, 80, 70, 60, 50]);
    assert!(found.ended_lossless && found.cut.is_none());
    assert_eq!(found.length, TrialLength::Full);
    let first = found.points[0];
    assert_eq!((first.load, first.result.frames_lost()), (load(1_000_000), 350_000 * 60));
    assert_eq!(first.result.loss_ratio(), 0.35);
    assert_eq!(found.points[4].load, load(600_000));
    let finer = walk(Step::from_percent(3).unwrap(), &mut Device::new(Behaviour::Sharp { limit: 935_000 }));
    assert_eq!(percentages(&finer), [100, 97, 94, 91, 88]);
}

#[test]
fn the_frame_loss_rate_ends_at_once_without_loss_and_at_the_bottom_with_nothing_else() {
    let clean = walk(Step::COARSEST, &mut Device::new(Behaviour::NoLoss));
    assert_eq!(percentages(&clean), [100, 90]);
    assert!(clean.ended_lossless);
    let lost = walk(Step::COARSEST, &mut Device::new(Behaviour::TotalLoss));
    assert_eq!(percentages(&lost), [100, 90, 80, 70, 60, 50, 40, 30, 20, 10]);
    assert!(!lost.ended_lossless && lost.cut.is_none());
    let finest = walk(Step::from_percent(1).unwrap(), &mut Device::new(Behaviour::TotalLoss));
    assert_eq!(finest.points.len(), 100);
}

#[test]
fn two_lossless_trials_must_be_successive() {
    // Lossless at 90 % and from 70 % down.
    let measure = |l: traffic::search::Load, d| {
        let rate = l.frames_per_second();
        let behaviour =
            if rate == 900_000 || rate <= 700_000 { Behaviour::NoLoss } else { Behaviour::TotalLoss };
        Device::new(behaviour).measure::<Infallible>(l, d)
    };
    let plan = FrameLossPlan { max: load(1_000_000), step: Step::COARSEST, trial: seconds(1) };
    let Ok(found) = run(plan, &Budget::default(), measure, |_| ());
    assert_eq!(percentages(&found), [100, 90, 80, 70, 60]);
    assert_eq!(found.length, TrialLength::Quick);
}

#[test]
fn the_frame_loss_rate_repeats_invalid_trials_and_says_what_cut_it_short() {
    let mut device = Device::new(Behaviour::Sharp { limit: 650_000 }).invalid_one_in(2);
    let found = walk(Step::COARSEST, &mut device);
    assert_eq!(percentages(&found), [100, 90, 80, 70, 60, 50]);
    assert!(invalid_trials(&found.trials) > 0);
    assert_eq!(found.trials.len(), 6 + invalid_trials(&found.trials));
    let plan = FrameLossPlan { max: load(1_000_000), step: Step::COARSEST, trial: seconds(60) };
    let budget = Budget { trials: 4, ..Budget::default() };
    let mut device = Device::new(Behaviour::TotalLoss);
    let Ok(cut) = run(plan, &budget, |l, d| device.measure::<Infallible>(l, d), |_| ());
    assert_eq!((cut.points.len(), cut.cut, cut.ended_lossless), (4, Some(Cut::Trials), false));
}

#[test]
fn the_frame_loss_rate_of_a_lossy_limit_falls_with_the_load() {
    // 10 % above the limit 1 % is lost, 25 % above it 2.5 %.
    let found = walk(Step::COARSEST, &mut Device::new(Behaviour::Lossy { limit: 800_000, steepness: 10 }));
    assert_eq!(percentages(&found), [100, 90, 80, 70]);
    let lost: Vec<u64> = found.points.iter().map(|point| point.result.frames_lost()).collect();
    assert_eq!(lost, [25_000 * 60, 900_000 * 60 / 80, 0, 0]);
    assert!(found.ended_lossless);
}

#[test]
fn the_frame_loss_rate_shows_occasional_loss_and_goes_on_below_it() {
    let behaviour = Behaviour::Occasional { limit: 1_000_000, one_in: 3 };
    let mut longest = 0;
    for seed in 0..20 {
        let found = walk(Step::COARSEST, &mut Device::new(behaviour).seeded(seed));
        let lost: Vec<bool> = found.points.iter().map(|point| point.result.frames_lost() > 0).collect();
        let ends = lost.windows(2).position(|two| two == [false, false]);
        assert_eq!(ends.map(|first| first + 2), found.ended_lossless.then_some(lost.len()), "{lost:?}");
        longest = longest.max(lost.len());
    }
    assert!(longest > 2, "no loss was seen");
}

#[test]
fn the_frame_loss_rate_of_a_drifting_device_is_that_of_each_moment() {
    // 1,000 fewer each second: 60,000 from one trial to the next, while the load falls by 100,000.
    let behaviour = Behaviour::Drifting { limit: 800_000, per_second: 1000 };
    let found = walk(Step::COARSEST, &mut Device::new(behaviour));
    let lost: Vec<u64> = found.points.iter().map(|point| point.result.frames_lost() / 60).collect();
    assert_eq!(lost, [200_000, 160_000, 120_000, 80_000, 40_000, 0, 0]);
}

#[test]
fn steps_are_one_to_ten_per_cent() {
    assert_eq!(Step::from_percent(0), None);
    assert_eq!(Step::from_percent(11), None);
    assert!(serde_json::from_str::<Step>("11").is_err());
}

#[test]
fn latency_is_planned_as_the_rfc_asks_and_labelled_where_it_is_less() {
    let full = LatencyPlan::full(load(1_000_000));
    assert_eq!((full.stream(), full.tagged_after()), (seconds(120), seconds(60)));
    assert_eq!((full.repeats().get(), full.length()), (20, TrialLength::Full));
    let half = full.at_fraction(Fraction::HALF);
    assert_eq!((half.load(), half.stream()), (load(500_000), seconds(120)));
    assert_eq!(LatencyPlan::full(load(1)).at_fraction(Fraction::HALF).load(), load(1));
    assert_eq!(LatencyPlan::new(load(1), seconds(120), times(19)).length(), TrialLength::Quick);
    assert_eq!(LatencyPlan::new(load(1), seconds(119), times(20)).length(), TrialLength::Quick);
}

#[test]
fn latency_is_measured_the_planned_number_of_times_invalid_ones_aside() {
    let plan = LatencyPlan::full(load(1_000_000));
    let mut calls = 0_u64;
    let measure = |at, stream| {
        assert_eq!((at, stream), (load(1_000_000), seconds(120)));
        calls += 1;
        let answer = Measured::Valid(Duration::from_micros(calls));
        Ok::<_, Infallible>(if calls.is_multiple_of(3) {
            Measured::Invalid(Invalid::Preempted)
        } else {
            answer
        })
    };
    let mut seen = 0;
    let Ok(found) = latency(plan, &Budget::default(), measure, |_| seen += 1);
    assert_eq!((found.results().count(), found.trials.len(), seen), (20, 29, 29));
    assert_eq!((found.length, found.cut), (TrialLength::Full, None));
    assert!(found.results().all(|latency| !latency.as_micros().is_multiple_of(3)));
    let budget = Budget { trials: 19, ..Budget::default() };
    let Ok(cut) = latency(plan, &budget, |_, _| Ok::<_, Infallible>(Measured::Valid(())), |_| ());
    assert_eq!((cut.length, cut.cut), (TrialLength::Quick, Some(Cut::Trials)));
}

/// A buffer that drains at a rate: a burst at a larger rate fits up to a length.
struct Buffer {
    frames: u64,
    drains_fps: u64,
    /// Added to the buffer from one search to the next.
    more: Vec<u64>,
    longest: u64,
    asked: Vec<Burst>,
}

impl Buffer {
    fn new(frames: u64, drains_fps: u64) -> Buffer {
        Buffer { frames, drains_fps, more: Vec::new(), longest: 0, asked: Vec::new() }
    }

    fn measure<E>(&mut self, burst: Burst, rate: traffic::search::Load) -> Result<Measured, E> {
        // A search begins with the longest burst.
        if burst.frames() >= self.longest {
            self.longest = burst.frames();
            if !self.asked.is_empty() {
                self.frames += self.more.pop().unwrap_or(0);
            }
        }
        self.asked.push(burst);
        let sending = rate.time_for(burst.frames());
        let forwarded = traffic::search::Load::new(self.drains_fps).unwrap().frames_in(sending);
        let received = burst.frames().min(self.frames + forwarded);
        Ok(Measured::Valid(TrialResult::new(burst.frames(), received, sending).unwrap()))
    }
}

fn burst_plan() -> BackToBackPlan {
    BackToBackPlan {
        max_rate: load(10_000_000),
        throughput: load(6_000_000),
        max_burst: Burst::new(300_000_000).unwrap(),
        first_burst: None,
        width: Fraction::ZERO,
        verification: Verification::NONE,
        repeats: times(3),
    }
}

#[test]
fn back_to_back_finds_the_buffer_behind_the_burst() {
    let mut buffer = Buffer::new(4096, 6_000_000);
    let Ok(found) =
        back_to_back(burst_plan(), &Budget::default(), |b, r| buffer.measure::<Infallible>(b, r), |_| ());
    let BackToBack::Measured { searches, statistics, cut, .. } = found else { panic!("{found:?}") };
    assert_eq!((searches.len(), cut), (3, None));
    let statistics = statistics.unwrap();
    // 4,096 frames wait while six of ten are forwarded: the burst is 4096 / 0.4, to a frame.
    assert!(
        statistics.mean_frames.round() >= 10_239.0 && statistics.mean_frames <= 10_241.0,
        "{statistics:?}"
    );
    assert_eq!((statistics.min_frames, statistics.standard_deviation_frames), (statistics.max_frames, 0.0));
    // The correction gives the buffer back.
    let buffered = statistics.corrected_buffer_seconds * 10_000_000.0;
    assert!((buffered - 4096.0).abs() < 1.0, "{buffered}");
    assert!(searches.iter().all(|search| search.trials.len() <= 31));
}

#[test]
fn back_to_back_from_below_finds_the_same_with_little_traffic() {
    for first in [1, 64, 100_000, 400_000_000] {
        let plan = BackToBackPlan { first_burst: Burst::new(first), repeats: times(1), ..burst_plan() };
        let mut buffer = Buffer::new(4096, 6_000_000);
        let Ok(found) =
            back_to_back(plan, &Budget::default(), |b, r| buffer.measure::<Infallible>(b, r), |_| ());
        let BackToBack::Measured { statistics: Some(statistics), .. } = found else { panic!("{found:?}") };
        assert!((10_239..=10_241).contains(&statistics.max_frames), "{statistics:?}");
        assert_eq!(buffer.asked[0].frames(), first.min(300_000_000));
        if first <= 64 {
            assert!(buffer.asked.iter().all(|burst| burst.frames() < 2 * 10_241), "{:?}", buffer.asked);
        }
    }
    // Up to the longest, and not beyond.
    let plan = BackToBackPlan {
        first_burst: Burst::new(64),
        max_burst: Burst::new(1000).unwrap(),
        repeats: times(1),
        ..burst_plan()
    };
    let mut buffer = Buffer::new(4096, 6_000_000);
    let Ok(found) = back_to_back(plan, &Budget::default(), |b, r| buffer.measure::<Infallible>(b, r), |_| ());
    let BackToBack::Measured { searches, .. } = found else { panic!("{found:?}") };
    assert_eq!(searches[0].finding, Finding::AtMaximum { lower: plan.max_burst });
    let asked: Vec<u64> = buffer.asked.iter().map(|burst| burst.frames()).collect();
    assert_eq!(asked, [64, 128, 256, 512, 1000]);
}

#[test]
fn throughput_and_back_to_back_of_one_device_give_its_drain_rate_and_its_buffer() {
    // The buffer takes its share of a throughput trial too: 4,096 frames in 60 s are 68 frames per second.
    let mut buffer = Buffer::new(4096, 6_000_000);
    let trial =
        |l: traffic::search::Load, d| buffer.measure::<Infallible>(Burst::new(l.frames_in(d)).unwrap(), l);
    let range = SearchRange::new(load(1000), load(10_000_000)).unwrap();
    let plan = ThroughputPlan { range, width: Fraction::ZERO, final_trial: seconds(60), search_trial: None };
    let Ok(found) = run(plan, &Budget::default(), trial, |_| ());
    let throughput = *found.finding.decided_lower().unwrap();
    assert_eq!(throughput, load(6_000_068));
    let plan = BackToBackPlan { throughput, ..burst_plan() };
    let mut buffer = Buffer::new(4096, 6_000_000);
    let Ok(found) = back_to_back(plan, &Budget::default(), |b, r| buffer.measure::<Infallible>(b, r), |_| ());
    let BackToBack::Measured { statistics: Some(statistics), .. } = found else { panic!("{found:?}") };
    let buffered = statistics.corrected_buffer_seconds * 10_000_000.0;
    assert!((buffered - 4096.0).abs() < 2.0, "{buffered}");
}

#[test]
fn back_to_back_sees_through_occasional_loss_where_it_may_try_again() {
    let run = |verification| {
        let mut buffer = Buffer::new(4096, 6_000_000);
        let mut calls = 0_u32;
        // Every fifth burst loses one frame more.
        let measure = |burst, rate: traffic::search::Load| {
            calls += 1;
            let Ok(Measured::Valid(whole)) = buffer.measure::<Infallible>(burst, rate) else { panic!() };
            let received = whole.frames_received() - u64::from(calls.is_multiple_of(5));
            let result = TrialResult::new(burst.frames(), received, whole.sending()).unwrap();
            Ok::<_, Infallible>(Measured::Valid(result))
        };
        let plan = BackToBackPlan { verification, ..burst_plan() };
        let Ok(found) = back_to_back(plan, &Budget::default(), measure, |_| ());
        let BackToBack::Measured { statistics: Some(statistics), .. } = found else { panic!("{found:?}") };
        statistics
    };
    let patient = run(Verification { max_trials: times(2), max_frames_lost: None });
    assert!((10_239..=10_241).contains(&patient.min_frames), "{patient:?}");
    let strict = run(Verification::NONE);
    assert!(strict.min_frames < 10_239, "{strict:?}");
}

#[test]
fn back_to_back_reports_mean_extremes_and_deviation_over_the_searches() {
    // Popped from the end: 100 more at the second search, 200 more than that at the third.
    let mut buffer = Buffer { more: vec![200, 100], ..Buffer::new(1000, 1) };
    let Ok(found) =
        back_to_back(burst_plan(), &Budget::default(), |b, r| buffer.measure::<Infallible>(b, r), |_| ());
    let BackToBack::Measured { statistics: Some(statistics), .. } = found else { panic!("{found:?}") };
    assert_eq!((statistics.min_frames, statistics.max_frames), (1000, 1300));
    assert_eq!((statistics.searches, statistics.mean_frames.round()), (3, 1133.0));
    // 1000, 1100, 1300: squares 17778 + 1111 + 27778 over 2.
    assert!((statistics.standard_deviation_frames - 152.75).abs() < 0.01, "{statistics:?}");
}

#[test]
fn back_to_back_is_not_applicable_where_the_throughput_is_the_line_rate() {
    let plan = BackToBackPlan { throughput: load(10_000_000), ..burst_plan() };
    let measure = |_, _| -> Result<Measured, &str> { Err("asked for a burst") };
    assert_eq!(
        back_to_back(plan, &Budget::default(), measure, |_| ()),
        Ok(BackToBack::NotApplicable { plan })
    );
}

#[test]
fn back_to_back_says_so_where_the_buffer_was_not_filled_or_the_budget_ended() {
    let plan = BackToBackPlan { max_burst: Burst::new(1000).unwrap(), ..burst_plan() };
    let mut buffer = Buffer::new(4096, 6_000_000);
    let Ok(found) = back_to_back(plan, &Budget::default(), |b, r| buffer.measure::<Infallible>(b, r), |_| ());
    let BackToBack::Measured { searches, statistics, cut, .. } = found else { panic!("{found:?}") };
    assert_eq!((searches.len(), statistics, cut), (3, None, None));
    assert!(searches.iter().all(|s| s.finding == Finding::AtMaximum { lower: plan.max_burst }));
    // The budget is for all searches together.
    let budget = Budget { trials: 40, ..Budget::default() };
    let mut buffer = Buffer::new(4096, 6_000_000);
    let Ok(found) = back_to_back(burst_plan(), &budget, |b, r| buffer.measure::<Infallible>(b, r), |_| ());
    let BackToBack::Measured { searches, statistics, cut, .. } = found else { panic!("{found:?}") };
    assert_eq!((statistics, cut, buffer.asked.len()), (None, Some(Cut::Trials), 40));
    assert_eq!(searches.len(), 2);
    // The time of its traffic has a limit, too: a search takes 30 s for the first burst and as much for all others.
    let budget = Budget { traffic: seconds(100), ..Budget::default() };
    let mut buffer = Buffer::new(4096, 6_000_000);
    let Ok(found) = back_to_back(burst_plan(), &budget, |b, r| buffer.measure::<Infallible>(b, r), |_| ());
    let BackToBack::Measured { searches, cut, .. } = found else { panic!("{found:?}") };
    assert_eq!((searches.len(), cut), (2, Some(Cut::Traffic)));
}

#[test]
fn back_to_back_verifies_loss_where_asked_to() {
    let verification = Verification { max_trials: times(2), max_frames_lost: None };
    let plan = BackToBackPlan { verification, repeats: times(1), ..burst_plan() };
    let mut last = None;
    // Loses the first time it sees a burst.
    let measure = |burst: Burst, rate: traffic::search::Load| {
        let received = burst.frames() - u64::from(last.replace(burst) != Some(burst));
        let sending = rate.time_for(burst.frames());
        Ok::<_, Infallible>(Measured::Valid(TrialResult::new(burst.frames(), received, sending).unwrap()))
    };
    let Ok(found) = back_to_back(plan, &Budget::default(), measure, |_| ());
    let BackToBack::Measured { searches, .. } = found else { panic!("{found:?}") };
    assert_eq!(searches[0].finding, Finding::AtMaximum { lower: plan.max_burst });
    assert_eq!(searches[0].trials.len(), 2);
}

/// The two figures that belong side by side.
#[test]
fn the_maximum_is_what_comes_through_however_much_is_lost() {
    let behaviour = Behaviour::Sharp { limit: 600_000 };
    let plan = maximum::Plan { load: load(1_000_000), trial: seconds(60), repeats: times(3) };
    let mut device = Device::new(behaviour).invalid_one_in(2);
    let Ok(found) = run(plan, &patient(), |l, d| device.measure::<Infallible>(l, d), |_| ());
    assert_eq!(found.received_fps, Some(600_000.0));
    assert_eq!(found.trials.len() - invalid_trials(&found.trials), 3);
    assert_eq!((found.length, found.cut), (TrialLength::Full, None));
    // A device that loses all once overloaded carries plenty, and nothing at the maximum.
    let overload = |l: traffic::search::Load, d| {
        let fits = l.frames_per_second() <= 600_000;
        Device::new(if fits { Behaviour::NoLoss } else { Behaviour::TotalLoss }).measure::<Infallible>(l, d)
    };
    let Ok(found) = run(plan, &patient(), overload, |_| ());
    assert_eq!(found.received_fps, Some(0.0));
    let range = SearchRange::new(load(1000), plan.load).unwrap();
    let (width, final_trial) = (Fraction::ZERO, seconds(60));
    let zero_loss = ThroughputPlan { range, width, final_trial, search_trial: None };
    let Ok(zero_loss) = run(zero_loss, &patient(), overload, |_| ());
    assert_eq!(zero_loss.finding, Finding::Bracketed { lower: load(600_000), upper: load(600_001) });
}

#[test]
fn the_maximum_is_a_median_and_none_without_a_valid_trial() {
    let plan = maximum::Plan { load: load(1000), trial: seconds(1), repeats: times(3) };
    let mut received = [900, 100, 500].into_iter();
    let measure = |_, d| {
        let received = received.next().expect("three trials");
        Ok::<_, Infallible>(Measured::Valid(TrialResult::new(1000, received, d).unwrap()))
    };
    let Ok(found) = run(plan, &Budget::default(), measure, |_| ());
    assert_eq!((found.received_fps, found.length), (Some(500.0), TrialLength::Quick));
    let preempted = |_, _| Ok::<_, Infallible>(Measured::Invalid(Invalid::Preempted));
    let Ok(found) = run(plan, &Budget::default(), preempted, |_| ());
    assert_eq!((found.received_fps, found.cut, found.trials.len()), (None, Some(Cut::Invalid), 5));
}
