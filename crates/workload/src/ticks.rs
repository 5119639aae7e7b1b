//! The receiver of ticks, with load beside it, in a process of its own.

use std::path::PathBuf;
use std::time::Duration;

use ::ticks::receiver::{self, Received};
use ::ticks::{Page, doorbell};
use measure::Failure;
use serde::{Deserialize, Serialize};

use crate::child_process;
use crate::pin::pin_to;
use crate::protocol::Reply;

pub use crate::wakeup::Load;

/// How long the source may take to answer.
const CONNECT: Duration = Duration::from_secs(10);

/// What is received, where from, and what goes on beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicksJob {
    /// The source's socket.
    pub doorbell: PathBuf,
    /// How it is received.
    pub receiver: receiver::Plan,
    /// The load on the receiver's CPU, at normal priority.
    pub load: Option<Load>,
    /// CPUs to work on; the first runs the receiver.
    pub cpus: Vec<usize>,
    /// The source has ended by then, ms.
    pub limit_ms: u64,
}

pub(crate) fn run(job: &TicksJob) -> Result<Received, Failure> {
    let body = || receive(job).map_or_else(Reply::Failed, Reply::Ticks);
    match child_process::run("a receiver of ticks", Duration::from_millis(job.limit_ms), body)? {
        Reply::Ticks(received) => Ok(received),
        Reply::Failed(failure) => Err(failure),
        _ => unreachable!("the child says one of both"),
    }
}

fn receive(job: &TicksJob) -> Result<Received, Failure> {
    let none = || Failure::new("receiving ticks on no CPU", "none was named", "name at least one");
    let cpu = *job.cpus.first().ok_or_else(none)?;
    pin_to(cpu)?;
    if let Some(load) = job.load {
        load.start(cpu)?;
    }
    let (memory, interrupts) = doorbell::connect(&job.doorbell, 1, CONNECT)?;
    receiver::run(&Page::map(memory)?, &interrupts[0], &job.receiver)
}
