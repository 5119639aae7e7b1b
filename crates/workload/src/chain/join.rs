//! Runs the job of a chain member.

use std::time::Duration;

use clocks::{Exchange, FarClock};
use linux::ivshmem;
use measure::Failure;
use port::af_xdp::{AfXdp, AfXdpOptions};
use port::virtio_user::{VirtioUser, VirtioUserOptions};
use scenario::chain::{self, Job, Outcome};

use super::job::{ChainJob, MemberPort};
use crate::child_process;
use crate::protocol::Reply;

/// The frames of a tick come all at once. The most that QEMU's virtio-net has too.
const QUEUE_SIZE: u16 = 1024;

pub(crate) fn run(job: &ChainJob) -> Result<Outcome, Failure> {
    let body = || member(job).map_or_else(Reply::Failed, Reply::Chain);
    match child_process::run("a member of a chain", Duration::from_millis(job.limit_ms), body)? {
        Reply::Chain(outcome) => Ok(outcome),
        Reply::Failed(failure) => Err(failure),
        _ => unreachable!("the child says one of both"),
    }
}

fn member(job: &ChainJob) -> Result<Outcome, Failure> {
    match &job.port {
        MemberPort::Socket(socket) => {
            let (queue_size, buffers) = (QUEUE_SIZE, QUEUE_SIZE);
            let options = VirtioUserOptions { queue_size, buffers, ..VirtioUserOptions::new(socket) };
            let port = VirtioUser::new(options)
                .map_err(|error| Failure::new(error.what, error.why, error.remedy))?;
            chain::run(Box::new(port), &job.job, &|ns| ns)
        }
        MemberPort::Interface(name) => in_guest(name, &job.job),
    }
}

/// In a guest the kernel drives the card; its frames come and go by AF_XDP.
fn in_guest(interface: &str, job: &Job) -> Result<Outcome, Failure> {
    let memory = ivshmem::open().map_err(|error| {
        let remedy = "give the guest QEMU's ivshmem-plain, and start the member as root";
        Failure::new("opening memory that this guest shares with its host", error, remedy)
    })?;
    let exchange = Exchange::map(&memory, 0)?;
    let clock = FarClock::find(&exchange)?;
    let port = AfXdp::new(AfXdpOptions::new(interface));
    let mut outcome = chain::run(Box::new(port), job, &|ns| clock.far_ns(ns))?;
    outcome.clock_error_ns = clock.error_ns(&exchange)?;
    Ok(outcome)
}
