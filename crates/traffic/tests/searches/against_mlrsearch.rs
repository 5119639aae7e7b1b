//! MLRsearch beside FD.io's own package of that name, on the same simulated devices: the same bounds, in no more
//! time. `scripts/setup.sh test` puts the package into a folder of its own.

use std::convert::Infallible;
use std::io::Write;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::simulated::{Behaviour, Device, load};
use serde::Deserialize;
use serde_json::{Value, json};
use traffic::search::mlr::{Goal, Plan};
use traffic::search::{Bounds, Budget, Finding, Fraction, Load, SearchRange, run};

const MIN: u64 = 1000;
const MAX: u64 = 14_880_952;

/// Searches of each kind: limits that lie differently to the steps of a search and, where chance plays a part, other
/// chances. There are enough of them that their means are known within a few per cent.
const CERTAIN: u64 = 15;
const BY_CHANCE: u64 = 150;

/// Our time, all searches of a kind together, may be so many times the package's.
const TIME: f64 = 1.1;

/// What the package found, and what it asked: load, nanoseconds, frames received.
#[derive(Deserialize)]
struct Theirs {
    bounds: Vec<(Option<f64>, Option<f64>)>,
    trials: Vec<(u64, u64, u64)>,
}

/// A device with its limit, a seed, and the goals to search for.
#[derive(Clone)]
struct Job {
    behaviour: Behaviour,
    seed: u64,
    goals: Vec<Goal>,
}

fn percent(percent: f64) -> Fraction {
    Fraction::from_percent(percent).unwrap()
}

fn ratio(share: Fraction) -> f64 {
    f64::from(share.parts_per_billion()) / 1e9
}

/// As the package's `SearchGoal` has it; what is not said is the package's own choice.
fn of_goal(goal: &Goal) -> Value {
    json!({
        "loss_ratio": ratio(goal.loss()),
        "exceed_ratio": ratio(goal.exceed()),
        "relative_width": ratio(goal.width()),
        "initial_trial_duration": goal.initial_trial().as_secs_f64(),
        "final_trial_duration": goal.final_trial().as_secs_f64(),
        "duration_sum": goal.duration_sum().as_secs_f64(),
    })
}

fn python() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache =
        cache.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").expect("HOME")).join(".cache"));
    cache.join("tautline/mlrsearch/bin/python3")
}

/// All at once: the interpreter starts but once.
fn by_the_package(jobs: &[Job]) -> Vec<Theirs> {
    let of_job = |job: &Job| {
        json!({
            "device": job.behaviour,
            "seed": job.seed,
            "min_load": MIN,
            "max_load": MAX,
            "goals": job.goals.iter().map(of_goal).collect::<Vec<_>>(),
        })
    };
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/searches/mlrsearch.py");
    let python = python();
    let mut child = Command::new(&python)
        .arg(&script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| {
            panic!(
                "this test compares with FD.io's package MLRsearch, but {} does not start ({error}); run \
                 scripts/setup.sh test",
                python.display()
            )
        });
    let text = serde_json::to_vec(&jobs.iter().map(of_job).collect::<Vec<_>>()).unwrap();
    child.stdin.take().unwrap().write_all(&text).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{} {} failed", python.display(), script.display());
    serde_json::from_slice(&output.stdout).unwrap()
}

fn by_us(job: &Job) -> (Vec<Bounds<Load>>, Duration) {
    let plan = Plan { range: SearchRange::new(load(MIN), load(MAX)).unwrap(), goals: job.goals.clone() };
    let budget = Budget { attempts: NonZeroU32::MIN, ..Budget::default() };
    let mut device = Device::new(job.behaviour).seeded(job.seed);
    let Ok(found) = run(&plan, &budget, |l, d| device.measure::<Infallible>(l, d), |_| ());
    assert_eq!(found.cut, None, "{:?}", job.behaviour);
    let bounds = found.results.iter().map(|result| match result.finding {
        Finding::Bracketed { lower, upper } => Bounds { lower: Some(lower.load), upper: Some(upper) },
        Finding::AtMaximum { lower } => Bounds { lower: Some(lower.load), upper: None },
        Finding::BelowMinimum { upper } => Bounds { lower: None, upper: Some(upper) },
        Finding::Undecided { .. } => unreachable!("nothing was cut short"),
    });
    (bounds.collect(), device.traffic)
}

/// Runs the package's trials through our device: it is the same one, frame by frame.
fn assert_same_device(job: &Job, theirs: &Theirs) -> Duration {
    let mut device = Device::new(job.behaviour).seeded(job.seed);
    for &(rate, nanoseconds, received) in &theirs.trials {
        let Ok(measured) = device.measure::<Infallible>(load(rate), Duration::from_nanos(nanoseconds));
        let ours = measured.valid().unwrap().frames_received();
        assert_eq!(ours, received, "{:?} at {rate} for {nanoseconds} ns", job.behaviour);
    }
    device.traffic
}

/// Devices by name: of this limit, and whether it is the same each time.
fn devices(limit: u64) -> Vec<(&'static str, bool, Behaviour)> {
    vec![
        ("hard limit", true, Behaviour::Sharp { limit }),
        ("loses 1 % at 10 % over", true, Behaviour::Lossy { limit, steepness: 10 }),
        ("loses 1 % at 100 % over", true, Behaviour::Lossy { limit, steepness: 1 }),
        ("loses 1 % at 1 % over", true, Behaviour::Lossy { limit, steepness: 100 }),
        ("no loss at all", true, Behaviour::NoLoss),
        ("1 trial in 5 loses some", false, Behaviour::Occasional { limit, one_in: 5 }),
        ("limit varies by 0.5 %", false, Behaviour::Noisy { limit, ppm: 5_000 }),
        ("limit varies by 2 %", false, Behaviour::Noisy { limit, ppm: 20_000 }),
        (
            "1 trial in 4 is 3 % slower",
            false,
            Behaviour::TwoModes { limit, slower: limit / 100 * 97, one_in: 4 },
        ),
        (
            "a pause in 40 s above 80 %",
            false,
            Behaviour::Pausing { limit, from: limit / 100 * 80, one_in: 40 },
        ),
        ("drifts", false, Behaviour::Drifting { limit, per_second: limit / 1_000_000 }),
    ]
}

fn goals() -> Vec<(&'static str, Vec<Goal>)> {
    let (no_drop, partial_drop) = (Goal::csit(Fraction::ZERO), Goal::csit(percent(0.5)));
    vec![
        ("NDR", vec![no_drop]),
        ("PDR", vec![partial_drop]),
        ("NDR and PDR", vec![no_drop, partial_drop]),
        ("RFC 2544", vec![Goal::rfc2544(percent(0.5))]),
        ("TST 009", vec![Goal::tst009(percent(0.5))]),
        ("all four", vec![no_drop, partial_drop, Goal::rfc2544(percent(0.5)), Goal::tst009(percent(0.5))]),
    ]
}

/// Searches of one kind, on the same device with other limits and chances.
struct Case {
    goals_name: &'static str,
    device_name: &'static str,
    /// The device treats a load the same each time, so that every search can be compared.
    is_certain: bool,
    jobs: Vec<Job>,
}

fn cases() -> Vec<Case> {
    let limit = |run: u64| 7_654_321 - run * 31_571;
    let mut cases = Vec::new();
    for (goals_name, goals) in goals() {
        for (number, (device_name, is_certain, _)) in devices(MAX).into_iter().enumerate() {
            let behaviour = |run| devices(limit(run))[number].2;
            let job = |run| Job { behaviour: behaviour(run), seed: run, goals: goals.clone() };
            let jobs = (0..if is_certain { CERTAIN } else { BY_CHANCE }).map(job).collect();
            cases.push(Case { goals_name, device_name, is_certain, jobs });
        }
    }
    cases
}

/// How far our bounds of one goal are from the package's, relative to those: one entry for each search.
#[derive(Clone, Default)]
struct Distances(Vec<f64>);

impl Distances {
    fn add(&mut self, ours: Option<Load>, theirs: Option<f64>) {
        self.0.push(match (ours, theirs) {
            (Some(ours), Some(theirs)) => ours.frames_per_second() as f64 / theirs - 1.0,
            (None, None) => 0.0,
            _ => f64::INFINITY,
        });
    }

    /// The worst of all where the device is the same each time. Else the median, for in a single search both
    /// sides are led by chance.
    fn judged(&mut self, is_certain: bool) -> f64 {
        self.0.sort_by(f64::total_cmp);
        let quantile = |quarters: usize| self.0[(self.0.len() - 1) * quarters / 4];
        match is_certain && quantile(4) > -quantile(0) {
            true => quantile(4),
            false if is_certain => quantile(0),
            false => quantile(2),
        }
    }

    /// How far the middle half of them spreads.
    fn spread(&mut self) -> f64 {
        self.0.sort_by(f64::total_cmp);
        self.0[(self.0.len() - 1) * 3 / 4] - self.0[(self.0.len() - 1) / 4]
    }
}

/// Compares, prints a line for each goal, and says what is wrong.
fn compare(case: &Case, theirs: Vec<Theirs>) -> Vec<String> {
    let (mut our_time, mut their_time) = (Duration::ZERO, Duration::ZERO);
    let mut apart = vec![[Distances::default(), Distances::default()]; case.jobs[0].goals.len()];
    let mut shown = Vec::new();
    for (job, theirs) in case.jobs.iter().zip(theirs) {
        let (ours, time) = by_us(job);
        our_time += time;
        their_time += assert_same_device(job, &theirs);
        for (apart, (ours, theirs)) in apart.iter_mut().zip(ours.iter().zip(&theirs.bounds)) {
            apart[0].add(ours.lower, theirs.0);
            apart[1].add(ours.upper, theirs.1);
        }
        if shown.is_empty() {
            shown = ours.into_iter().zip(theirs.bounds).collect();
        }
    }
    let Case { goals_name, device_name, is_certain, .. } = *case;
    let times = our_time.as_secs_f64() / their_time.as_secs_f64();
    let searches = case.jobs.len() as f64;
    let mut wrong = Vec::new();
    for (goal, (mut apart, (ours, theirs))) in case.jobs[0].goals.iter().zip(apart.into_iter().zip(shown)) {
        let text = |bound: Option<f64>| bound.map_or("-".to_owned(), |rate| format!("{:.3}", rate / 1e6));
        let ours =
            [ours.lower, ours.upper].map(|load| text(load.map(|load| load.frames_per_second() as f64)));
        let theirs = [theirs.0, theirs.1].map(text);
        let [lower, upper] = apart.each_mut().map(|of| of.judged(is_certain));
        let spread = if is_certain { 0.0 } else { apart.each_mut().map(Distances::spread)[0] };
        println!(
            "{goals_name:12} {device_name:27} {:>7} {:>7} {:>7} {:>7} {:6.1} {:6.1} {times:5.2} {:6.2} {:6.2} {:6.2}",
            ours[0],
            ours[1],
            theirs[0],
            theirs[1],
            our_time.as_secs_f64() / searches,
            their_time.as_secs_f64() / searches,
            lower * 100.0,
            upper * 100.0,
            spread * 100.0,
        );
        // Of so many searches by chance the median itself is known within about a fifth of their spread.
        let allowed = ratio(goal.width()) + spread / 5.0;
        for (what, by) in [("lower", lower), ("upper", upper)] {
            if by.abs() > allowed {
                let by = by * 100.0;
                wrong.push(format!("{goals_name}, {device_name}: {what} bounds are {by:.3} % apart"));
            }
        }
    }
    if times > TIME {
        wrong.push(format!("{goals_name}, {device_name}: {times:.3} times the package's time"));
    }
    wrong
}

#[test]
fn the_bounds_of_fdios_package_in_no_more_time() {
    let cases = cases();
    let all: Vec<Job> = cases.iter().flat_map(|case| case.jobs.clone()).collect();
    let mut theirs = by_the_package(&all).into_iter();
    println!(
        "Mpps of the first search of each kind, seconds of traffic in the mean of all, percent between our bounds \
         and the package's: the worst, or the median and the spread where chance plays a part"
    );
    println!(
        "{:12} {:27} {:>15} {:>15} {:>13} {:>5} {:>6} {:>6} {:>6}",
        "goals", "device", "our bounds", "the package's", "our, its s", "ratio", "lower", "upper", "spread"
    );
    let wrong: Vec<String> = cases
        .iter()
        .flat_map(|case| compare(case, theirs.by_ref().take(case.jobs.len()).collect()))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
