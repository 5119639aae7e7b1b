//! How it is done.

use std::time::Duration;

use measure::Failure;
use port::virtio_user::{VirtioUser, VirtioUserOptions};
use scenario::chain::{self, Outcome};

use super::job::ChainJob;
use crate::child_process;
use crate::protocol::Reply;

pub(crate) fn run(job: &ChainJob) -> Result<Outcome, Failure> {
    let body = || member(job).map_or_else(Reply::Failed, Reply::Chain);
    match child_process::run("a member of a chain", Duration::from_millis(job.limit_ms), body)? {
        Reply::Chain(outcome) => Ok(outcome),
        Reply::Failed(failure) => Err(failure),
        _ => unreachable!("the child says one of both"),
    }
}

fn member(job: &ChainJob) -> Result<Outcome, Failure> {
    let port = VirtioUser::new(VirtioUserOptions::new(&job.socket))
        .map_err(|error| Failure::new(error.what, error.why, error.remedy))?;
    chain::run(Box::new(port), &job.job)
}
