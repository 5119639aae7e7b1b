//! One size: generator alone, maximum, search, latency at shares of what was found.
use std::num::NonZeroU32;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{anyhow, bail};
use environment::channel::INTERRUPTED;
use traffic::frames::SizeMix;
use traffic::path::{Loaded, Path, loopback_frames_per_second};
use traffic::results::{Latency, Maximum, SearchResult, SizeResult};
use traffic::search::{
    self, Budget, Load, Measured, Progress as Step, SearchRange, Share, maximum, mlr, rfc2544, tst009,
};
use traffic::trial::TrialOutcome;

use super::job::Job;
use crate::cli::Search;
use crate::progress::Progress;

/// Trials that are repeated at one load before the search gives up on a disturbed machine.
const ATTEMPTS: u32 = 8;

/// Percent of the found rate at which latency is measured; 0 is an idle path.
const SHARES: [u8; 4] = [0, 10, 50, 90];

/// What "idle" is: one frame each millisecond.
const IDLE_FPS: u64 = 1000;

/// The lowest rate that is looked for, frames per second.
const LEAST_FPS: u64 = 100;

/// Measures one size or mix.
pub fn size(
    path: &mut Path,
    mix: &SizeMix,
    job: &Job,
    patience: Duration,
    progress: &Progress,
) -> anyhow::Result<SizeResult> {
    let say = |what: &str| progress.measuring(format!("{mix} bytes: {what}"));
    say("the generator alone");
    let short = job.trial.min(Duration::from_secs(1));
    let loopback_fps = loopback_frames_per_second(job.profile, mix, short / 4)?;
    let directions = path.directions();
    let mut loaded = path.load(mix, job.residual)?;
    say("waiting for frames to arrive");
    if !loaded.warm_up(patience)? {
        bail!(
            "no frame of {mix} bytes came back within {} s; see that the switch forwards between the ports \
             (both must be up, and take frames of this length)",
            patience.as_secs()
        );
    }
    say("maximum");
    let maximum = maximum_of(&loaded.maximum(short)?);
    // Above what the device takes at most nothing can be found. The generator's own limit is no bound of
    // the device's, but nothing above it can be tried.
    let ceiling = (maximum.taken_fps.max(maximum.received_fps) * 1.02) as u64;
    let most = job.max_rate.map_or(ceiling, Load::frames_per_second).max(LEAST_FPS + directions);
    let range = Load::new(LEAST_FPS).zip(Load::new(most));
    let range = range.and_then(|(least, most)| SearchRange::new(least, most));
    let range =
        range.ok_or_else(|| anyhow!("no rate between {LEAST_FPS} and {most} frames/s to search in"))?;

    let search = searched(&mut loaded, job, range, &say)?;
    let mut latency = Vec::new();
    if let Some(rate) = search.rate_fps() {
        for percent in SHARES {
            say(&format!("latency at {percent} %"));
            let load_fps = match percent {
                0 => IDLE_FPS.min(rate as u64),
                _ => (rate * f64::from(percent) / 100.0) as u64,
            };
            latency.push(latency_at(&mut loaded, percent, load_fps.max(directions), short)?);
        }
    }
    Ok(SizeResult {
        frames: mix.to_string(),
        mean_bytes: mix.mean_bytes(),
        loopback_fps,
        maximum,
        search,
        latency,
    })
}

fn maximum_of(outcome: &TrialOutcome) -> Maximum {
    let per_second = |frames: u64| frames as f64 * 1e9 / outcome.sending_ns.max(1) as f64;
    Maximum {
        received_fps: per_second(outcome.lanes.iter().map(|lane| lane.tally.distinct).sum()),
        taken_fps: per_second(outcome.lanes.iter().map(|lane| lane.sent).sum()),
        generator_idle: outcome.idle_polls as f64 / (outcome.idle_polls + outcome.busy_polls).max(1) as f64,
    }
}

fn searched(
    loaded: &mut Loaded<'_>,
    job: &Job,
    range: SearchRange,
    say: &dyn Fn(&str),
) -> anyhow::Result<SearchResult> {
    let attempts = NonZeroU32::new(ATTEMPTS).unwrap_or(NonZeroU32::MIN);
    let budget = Budget { attempts, ..Budget::default() };
    let measure = |load: Load, duration: Duration| -> anyhow::Result<Measured> {
        if INTERRUPTED.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(loaded.trial(load, duration)?.0)
    };
    let observe = |step: Step<'_, Load>| say(&described(&step));
    let (trial, width) = (job.trial, job.width);
    Ok(match job.search {
        Search::Rfc2544 => {
            let search_trial = (!job.is_quick()).then_some(Duration::from_secs(5));
            let plan = rfc2544::ThroughputPlan { range, width, final_trial: trial, search_trial };
            let found = rfc2544::throughput(plan, &budget, measure, observe)?;
            SearchResult::Rfc2544 { finding: found.finding, trials: found.trials }
        }
        Search::Tst009 => {
            let plan = tst009::Plan { range, width, trial, verification: job.verification };
            let found = tst009::search(plan, &budget, measure, observe)?;
            SearchResult::Tst009 { finding: found.finding, trials: found.trials }
        }
        Search::Mlr => {
            let loss = Share::from_percent(0.5).unwrap_or(Share::ZERO);
            let goal = |loss| mlr::Goal::new(trial, trial * 2, loss, Share::HALF, width);
            let plan = mlr::Plan { range, goals: vec![goal(Share::ZERO)?, goal(loss)?] };
            SearchResult::Mlr { outcome: mlr::search(&plan, &budget, measure, observe)? }
        }
        Search::Maximum => {
            let repeats = NonZeroU32::new(3).unwrap_or(NonZeroU32::MIN);
            let plan = maximum::Plan { load: range.max(), trial, repeats };
            SearchResult::Maximum { outcome: maximum::received(plan, &budget, measure, observe)? }
        }
    })
}

/// A line for the progress display.
fn described(step: &Step<'_, Load>) -> String {
    let mega = |load: Load| format!("{:.3}", load.frames_per_second() as f64 / 1e6);
    let known = |bound: Option<Load>| bound.map_or_else(|| "?".to_owned(), mega);
    let bounds = step.bounds.first();
    let (lower, upper) = bounds.map_or((None, None), |bounds| (bounds.lower, bounds.upper));
    let result = match &step.trial.measured {
        Measured::Valid(result) => format!("lost {}", result.frames_lost()),
        Measured::Invalid(_) => "disturbed, again".to_owned(),
    };
    format!(
        "trial {} at {} Mpps {result}; between {} and {} Mpps",
        step.trial.number,
        mega(step.trial.input.load),
        known(lower),
        known(upper)
    )
}

fn latency_at(
    loaded: &mut Loaded<'_>,
    percent: u8,
    load_fps: u64,
    duration: Duration,
) -> anyhow::Result<Latency> {
    let load = Load::new(load_fps).ok_or_else(|| anyhow!("no latency at 0 frames/s"))?;
    let mut invalid = 0;
    loop {
        if INTERRUPTED.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        let (measured, outcome) = loaded.trial(load, duration)?;
        // On a machine that is disturbed all the time the last trial is shown, with how many went before.
        if measured.valid().is_none() && invalid + 1 < ATTEMPTS {
            invalid += 1;
            continue;
        }
        invalid += u32::from(measured.valid().is_none());
        let mut histogram = ::measure::Histogram::new();
        outcome.lanes.iter().for_each(|lane| histogram.merge(&lane.latency));
        let lost = outcome
            .lanes
            .iter()
            .map(|lane| lane.sent + lane.refused - lane.tally.distinct.min(lane.sent))
            .sum();
        return Ok(Latency { percent, load_fps, histogram, lost, invalid });
    }
}

/// Why a search has no answer, for people.
pub fn why_undecided(result: &SearchResult) -> Option<String> {
    let of = |finding: &search::Finding<Load>| match finding {
        search::Finding::Undecided { cut, .. } => Some(format!("undecided ({cut:?})")),
        search::Finding::BelowMinimum { .. } => Some(format!("frames are lost even at {LEAST_FPS} frames/s")),
        _ => None,
    };
    match result {
        SearchResult::Rfc2544 { finding, .. } | SearchResult::Tst009 { finding, .. } => of(finding),
        SearchResult::Mlr { outcome } => outcome.cut.map(|cut| format!("undecided ({cut:?})")),
        SearchResult::Maximum { .. } => None,
    }
}
