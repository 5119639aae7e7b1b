//! Measures the loss at each load.
use crate::search::rfc2544::{FrameLoss, FrameLossPlan, Step};
use crate::search::{Load, Progress, run};

use super::bench::Bench;
use super::run_error::RunError;
use super::search::described;

/// Runs RFC 2544 section 26.3, from the highest load downwards.
pub fn walked(bench: &mut Bench<'_, '_>, max: Load, step: Step) -> Result<FrameLoss, RunError> {
    let plan = FrameLossPlan { max, step, trial: bench.job.trial };
    let (say, recorder) = (bench.say, bench.recorder);
    let observe = |step: Progress<'_, Load>| {
        say(&format!("frame loss, {}", described(&step)));
        recorder.borrow_mut().trial(|so_far| so_far.frame_loss_trials.push(step.trial.clone()));
    };
    run(plan, &Bench::budget(), |load, duration| bench.trial(load, duration), observe)
}
