//! Measures the longest burst without loss.
use crate::results::Bursts;
use crate::search::rfc2544::{BackToBackPlan, Burst, BurstInput, back_to_back};
use crate::search::{Load, Progress};

use super::bench::{Bench, unless_interrupted};
use super::job::BurstJob;
use super::run_error::RunError;
use super::search::result;

/// How much of the rate that the generator reached it is asked to hold.
const HELD: f64 = 0.8;

/// Frames that any ring holds.
const FIRST: u64 = 64;

/// RFC 9004. A virtual port has no largest rate of its own. The rate of a burst is the user's `--max-rate`, or the
/// rate at which the generator can send to an idle device and receive meanwhile, and at least the highest rate that
/// the search offered.
pub fn searched(
    bench: &mut Bench<'_, '_>,
    how: BurstJob,
    throughput: Option<Load>,
    most: Load,
    loopback_fps: f64,
) -> Result<Bursts, RunError> {
    let left_out = |why: &str| Ok(Bursts::LeftOut { why: why.to_owned() });
    if bench.mix.single().is_none() {
        return left_out("only for frames of one length (RFC 9004 section 3)");
    }
    let Some(throughput) = throughput else {
        return left_out("no throughput was found to hold it against");
    };
    let (job, say, recorder) = (bench.job, bench.say, bench.recorder);
    say("bursts: the generator's rate");
    let held = bench.loaded.burst_rate()?;
    let held = held.and_then(|rate| Load::new((rate.min(loopback_fps) * HELD) as u64));
    let max_rate = job.max_rate.or(held).map_or(most, |rate| rate.max(most));
    let max_burst = Burst::new(max_rate.frames_in(how.longest).max(1));
    let Some(max_burst) = max_burst else { return left_out("the longest burst has no frame") };
    let plan = BackToBackPlan {
        max_rate,
        throughput,
        max_burst,
        first_burst: Burst::new(FIRST),
        width: job.width,
        verification: job.verification,
        repeats: how.searches,
    };
    let observe = |step: Progress<'_, Burst, BurstInput>| {
        let trial = step.trial;
        say(&format!("burst of {} frames {}", trial.input.burst.frames(), result(&trial.measured)));
        recorder.borrow_mut().trial(|so_far| so_far.burst_trials.push(trial.clone()));
    };
    let measure = |burst, rate| -> Result<_, RunError> {
        unless_interrupted()?;
        Ok(bench.loaded.burst(burst, rate)?.0)
    };
    let budget = crate::search::Budget { trials: 100_000, ..Bench::budget() };
    Ok(Bursts::Made { outcome: back_to_back(plan, &budget, measure, observe)? })
}
