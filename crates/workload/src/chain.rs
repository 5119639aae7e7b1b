//! One member of a scenario's chain, in a process of its own.

use std::path::PathBuf;
use std::time::Duration;

use measure::Failure;
use port::virtio_user::{VirtioUser, VirtioUserOptions};
use scenario::chain::{self, Job, Outcome};
use serde::{Deserialize, Serialize};

use crate::child_process;
use crate::protocol::Reply;

/// Which member this is, and where its port is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainJob {
    /// The switch's vhost-user socket.
    pub socket: PathBuf,
    /// What it does.
    pub job: Job,
    /// The chain has ended by then, ms.
    pub limit_ms: u64,
}

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
