//! Measures context switches: a token passes around a ring of processes on one CPU, and the process that has the
//! token reads its working set. The figure is the time from one process to the next: the switch, a pipe's write and
//! read, and the cache misses of the working set.

use std::os::fd::OwnedFd;

use measure::Failure;
use rustix::io::{self, read, write};
use rustix::pipe::{PipeFlags, pipe_with};

use super::channel::helper_ended;
use super::failure::call_failed;
use crate::batch::{self, Measured, Pace, Scale, timed};
use crate::opaque::hide_u64;
use crate::sys::Child;
use crate::trial::Trial;

/// A ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    /// The number of processes in the ring, including the agent; at least 2.
    pub(crate) processes: usize,
    /// The bytes that each process reads when it has the token.
    pub(crate) working_set_bytes: usize,
}

/// One process of the ring: where the token comes from and goes to, and its working set.
struct Member {
    from: OwnedFd,
    to: OwnedFd,
    working_set: Vec<u64>,
}

impl Member {
    /// Keeps of all pipes the ends of one process and closes the others, so that the death of any process
    /// ends the whole ring.
    fn take(process: usize, pipes: Vec<(OwnedFd, OwnedFd)>, ring: Ring) -> Option<Self> {
        let (mut from, mut to) = (None, None);
        for (at, (read_end, write_end)) in pipes.into_iter().enumerate() {
            if at == process {
                from = Some(read_end);
            }
            if at == (process + 1) % ring.processes {
                to = Some(write_end);
            }
        }
        // Filled with other than zeros, so that each process has pages of its own.
        let working_set = vec![process as u64 + 1; ring.working_set_bytes / size_of::<u64>()];
        Some(Member { from: from?, to: to?, working_set })
    }

    fn work(&self) {
        hide_u64(self.working_set.iter().fold(0u64, |sum, word| sum.wrapping_add(*word)));
    }

    /// Waits for the token and passes it on until the ring ends.
    fn serve(&self) {
        let mut token = [0u8];
        while read(&self.from, &mut token) == Ok(1) {
            self.work();
            if write(&self.to, &token) != Ok(1) {
                return;
            }
        }
    }
}

/// Measures the ring's switches.
pub(crate) fn measure(ring: Ring, trial: &Trial, pace: &mut Pace) -> Result<Measured, Failure> {
    let mut pipes = (0..ring.processes)
        .map(|_| pipe_with(PipeFlags::CLOEXEC))
        .collect::<io::Result<Vec<_>>>()
        .map_err(call_failed("opening the ring's pipes"))?;
    let mut children = Vec::with_capacity(ring.processes - 1);
    for process in 1..ring.processes {
        let child = Child::fork(|| {
            // The child's copy of the list: the parent keeps its own.
            let member = Member::take(process, std::mem::take(&mut pipes), ring);
            member.map_or(1, |member| {
                member.serve();
                0
            })
        });
        children.push(child.map_err(call_failed("fork"))?);
    }
    let own = Member::take(0, pipes, ring).ok_or_else(helper_ended)?;
    let measured = batch::measure(trial.budget, Scale::nanos(ring.processes as f64), pace, |units| {
        timed(|| (0..units).try_for_each(|_| once_round(&own)))
    });
    drop(children);
    measured
}

fn once_round(own: &Member) -> Result<(), Failure> {
    let mut token = [1u8];
    own.work();
    match write(&own.to, &token).and_then(|_| read(&own.from, &mut token)) {
        Ok(1) => Ok(()),
        Ok(_) => Err(helper_ended()),
        Err(error) => Err(call_failed("passing the token")(error)),
    }
}
