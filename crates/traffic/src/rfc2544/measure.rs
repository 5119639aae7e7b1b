//! Measures one size: the generator alone, the maximum, the search, latencies at shares of the throughput, and
//! optional measurements.
use std::cell::RefCell;

use crate::frames::SizeMix;
use crate::path::{Path, loopback_frames_per_second};
use crate::recorder::Recorder;
use crate::results::{Latency, Maximum, MaximumTrial, SizeResult};
use crate::search::{Load, SearchRange, kept};
use crate::trial::{LaneOutcome, TrialOutcome, is_late};
use measure::Histogram;

use super::bench::{ATTEMPTS, Bench, unless_interrupted};
use super::job::{Job, LEAST_FPS, MAXIMUM_TRIALS};
use super::run_error::RunError;
use super::{back_to_back, frame_loss, search};

/// Percent of the throughput at which latency is measured. RFC 2544 section 26.2 requires 100 %, but a software
/// device's queues are then full whenever one of the programs pauses, and the generator is at its own limit.
const SHARES: [u8; 3] = [10, 50, 90];

/// The load that counts as idle: one frame each millisecond.
const IDLE_FPS: u64 = 1000;

/// Measures one size or mix.
pub fn size(
    path: &mut Path,
    mix: &SizeMix,
    job: &Job,
    progress: &dyn Fn(String),
    recorder: &RefCell<Recorder>,
) -> Result<SizeResult, RunError> {
    let say = |what: &str| progress(format!("{mix} bytes: {what}"));
    say("the generator alone");
    let loopback_fps = loopback_frames_per_second(job.profile, mix, job.latency_trial() / 4)?;
    let directions = path.directions();
    let mut bench = Bench { loaded: path.load(mix, job.residual)?, job, mix, say: &say, recorder };
    say("waiting for frames to arrive");
    if !bench.loaded.warm_up(job.timeout)? {
        return Err(RunError::NothingCameBack { mix: mix.to_string(), waited_s: job.timeout.as_secs() });
    }
    let maximum = maximum(&mut bench)?;
    // Above what the device takes at most nothing can be found. The generator's own limit is no bound of
    // the device's, but nothing above it can be tried.
    let ceiling = (maximum.taken_fps.max(maximum.received_fps) * 1.02) as u64;
    let asked = job.max_rate.map_or(ceiling, Load::frames_per_second).max(LEAST_FPS + directions);
    let keeps = |load: Load| {
        say(&format!("whether the generator keeps {:.3} Mpps", load.frames_per_second() as f64 / 1e6));
        bench.trial(load, job.latency_trial() / 4)
    };
    // The machine is disturbed at any load: the search finds and reports this.
    let most = Load::new(asked).map(|asked| kept(asked, keeps)).transpose()?.flatten();
    let most = most.map_or(asked, Load::frames_per_second).max(LEAST_FPS + directions);
    let range = Load::new(LEAST_FPS).zip(Load::new(most));
    let range = range.and_then(|(least, most)| SearchRange::new(least, most));
    let range = range.ok_or(RunError::NoRange { most })?;

    let search = search::searched(&mut bench, range)?;
    let mut latency = Vec::new();
    let throughput = search.throughput().map(Load::frames_per_second);
    let idle = (0, IDLE_FPS.min(throughput.unwrap_or(most)));
    let loaded = throughput.map(|rate| SHARES.map(|percent| (percent, rate * u64::from(percent) / 100)));
    for (percent, load_fps) in std::iter::once(idle).chain(loaded.into_iter().flatten()) {
        say(&format!("latency at {percent} %"));
        latency.push(latency_at(&mut bench, percent, load_fps.max(directions))?);
        recorder.borrow_mut().trial(|so_far| so_far.latency.clone_from(&latency));
    }
    let frame_loss =
        job.frame_loss.map(|step| frame_loss::walked(&mut bench, range.max(), step)).transpose()?;
    let bursts = job
        .back_to_back
        .map(|how| back_to_back::searched(&mut bench, how, search.throughput(), range.max(), loopback_fps));
    Ok(SizeResult {
        frame_bytes_with_fcs: mix.to_string(),
        mean_frame_bytes_with_fcs: mix.mean_bytes_with_fcs(),
        mean_frame_bytes_at_layer_1: mix.mean_bytes_at_layer_1(),
        loopback_fps,
        maximum,
        most_fps: most,
        generator_kept_less: most < asked,
        search,
        latency,
        frame_loss,
        back_to_back: bursts.transpose()?,
    })
}

/// Runs trials until enough of them are undisturbed, or until the limit of trials.
fn maximum(bench: &mut Bench<'_, '_>) -> Result<Maximum, RunError> {
    let mut trials: Vec<MaximumTrial> = Vec::new();
    let undisturbed = |trials: &[MaximumTrial]| trials.iter().filter(|trial| !trial.disturbed).count();
    let [enough, most] = [MAXIMUM_TRIALS, ATTEMPTS].map(|count| count.get() as usize);
    while undisturbed(&trials) < enough && trials.len() < most {
        (bench.say)(&format!("maximum, trial {}", trials.len() + 1));
        unless_interrupted()?;
        trials.push(maximum_of(&bench.loaded.maximum(bench.job.maximum_trial())?));
        bench.recorder.borrow_mut().trial(|so_far| so_far.maximum_trials.clone_from(&trials));
    }
    Maximum::of(trials).ok_or(RunError::NoTrial)
}

fn maximum_of(outcome: &TrialOutcome) -> MaximumTrial {
    let per_second = |frames: u64| frames as f64 * 1e9 / outcome.sending_ns.max(1) as f64;
    MaximumTrial {
        received_fps: per_second(outcome.lanes.iter().map(|lane| lane.tally.distinct).sum()),
        taken_fps: per_second(outcome.lanes.iter().map(|lane| lane.sent).sum()),
        generator_idle: outcome.idle_polls as f64 / (outcome.idle_polls + outcome.busy_polls).max(1) as f64,
        disturbed: outcome.noise.steal_ns > 0 || outcome.noise.involuntary_switches > 0,
    }
}

fn latency_at(
    bench: &mut Bench<'_, '_>,
    percent_of_throughput: u8,
    load_fps: u64,
) -> Result<Latency, RunError> {
    let load = Load::new(load_fps).ok_or(RunError::NoLoad)?;
    let mut invalid = 0;
    loop {
        unless_interrupted()?;
        let (measured, outcome) = bench.loaded.trial(load, bench.job.latency_trial())?;
        let disturbed = measured.valid().is_none();
        let sum = |of: fn(&LaneOutcome) -> &Histogram| {
            let mut all = Histogram::new();
            outcome.lanes.iter().for_each(|lane| all.merge(of(lane)));
            all
        };
        let (histogram, generator) = (sum(|lane| &lane.latency), sum(|lane| &lane.lateness));
        let late = is_late(&histogram, &generator);
        // On a machine that is disturbed all the time the last trial is shown, with how many went before.
        if (disturbed || late) && invalid + 1 < ATTEMPTS.get() {
            invalid += 1;
            continue;
        }
        invalid += u32::from(disturbed || late);
        let lost = outcome.lanes.iter();
        let lost = lost.map(|lane| lane.sent + lane.refused - lane.tally.distinct.min(lane.sent)).sum();
        let unsent = outcome.lanes.iter().map(|lane| lane.missed).sum();
        let histogram = (!late).then_some(histogram);
        return Ok(Latency {
            percent_of_throughput,
            load_fps,
            histogram,
            generator,
            lost,
            unsent,
            invalid,
            disturbed,
        });
    }
}
