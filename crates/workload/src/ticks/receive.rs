//! How it is done.

use std::time::Duration;

use ::ticks::receiver::{self, Received};
use ::ticks::{Page, doorbell};
use measure::Failure;

use super::job::TicksJob;
use crate::child_process;
use crate::pin::pin_to;
use crate::protocol::Reply;

/// How long the source may take to answer.
const CONNECT: Duration = Duration::from_secs(10);

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
