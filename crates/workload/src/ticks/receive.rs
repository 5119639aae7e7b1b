//! Runs the job of a receiver of ticks.

use std::os::fd::AsFd;
use std::time::Duration;

use ::ticks::receiver::{self, Received};
use ::ticks::{HINTS_AT, Handlers, Page, doorbell};
use measure::Failure;
use pv_sched::Hints;

use super::job::{Doorbell, TicksJob};
use crate::child_process;
use crate::pin::pin_to;
use crate::protocol::Reply;

/// How long the source may take to answer.
const CONNECT: Duration = Duration::from_secs(10);

pub(crate) fn run(job: &TicksJob) -> Result<Received, Failure> {
    let body = || receive(job).map_or_else(Reply::Failed, |received| Reply::Ticks(Box::new(received)));
    match child_process::run("a receiver of ticks", Duration::from_millis(job.limit_ms), body)? {
        Reply::Ticks(received) => Ok(*received),
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
    match &job.doorbell {
        Doorbell::Socket(path) => {
            let (memory, interrupts) = doorbell::connect(path, 1, CONNECT)?;
            let hints = hints(&memory, job)?;
            receiver::run(&Page::map(memory)?, &interrupts[0], hints.as_ref(), &job.receiver)
        }
        Doorbell::Device => {
            let device = doorbell::Device::open()?;
            let page = Page::map(device.memory())?;
            let handlers = job.traced.map(Handlers::start).transpose()?;
            let received = receiver::run(
                &page,
                device.interrupt(),
                hints(device.memory(), job)?.as_ref(),
                &job.receiver,
            )?;
            if let Some(handlers) = handlers {
                page.set_handlers(&handlers.stop()?);
            }
            Ok(received)
        }
    }
}

/// Where the receiver tells the host of itself, if it is to.
fn hints(memory: impl AsFd, job: &TicksJob) -> Result<Option<Hints>, Failure> {
    job.receiver.hints.then(|| Hints::map(memory, HINTS_AT)).transpose()
}
