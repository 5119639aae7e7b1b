//! Pipes and AF_UNIX streams between two processes: round trips and bandwidth.

use std::os::fd::OwnedFd;

use measure::Failure;
use rustix::io::{self, fcntl_dupfd_cloexec, read, write};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};

use super::failure::call_failed;
use crate::batch::{self, Measured, Pace, Scale, timed};
use crate::pin::pin_to;
use crate::sys::Child;
use crate::trial::Trial;

/// The channel between the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    Pipe,
    UnixStream,
}

/// The exchange between the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// A byte in both directions; both processes on one CPU.
    RoundTrip,
    /// A byte in both directions; the other process on another CPU, which each byte must wake.
    RoundTripAcross,
    /// As many bytes as possible from one process to the other; both on one CPU.
    Stream,
}

/// One process's end.
struct End {
    from: OwnedFd,
    to: OwnedFd,
}

impl Channel {
    fn open(self) -> io::Result<(End, End)> {
        match self {
            Channel::Pipe => {
                let (there, back) = (pipe_with(PipeFlags::CLOEXEC)?, pipe_with(PipeFlags::CLOEXEC)?);
                Ok((End { from: back.0, to: there.1 }, End { from: there.0, to: back.1 }))
            }
            Channel::UnixStream => {
                let end = |fd: OwnedFd| -> io::Result<End> {
                    let copy = fcntl_dupfd_cloexec(&fd, 0)?;
                    Ok(End { from: fd, to: copy })
                };
                let (ours, theirs) =
                    socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
                Ok((end(ours)?, end(theirs)?))
            }
        }
    }
}

/// Bytes in one write or read of a stream, and in one unit of work.
const BLOCK_BYTES: usize = 64 << 10;
const UNIT_BYTES: usize = 16 * BLOCK_BYTES;

/// Measures an exchange.
pub(crate) fn measure(
    (channel, exchange): (Channel, Exchange),
    trial: &Trial,
    pace: &mut Pace,
) -> Result<Measured, Failure> {
    let other_cpu = match exchange {
        Exchange::RoundTripAcross => Some(trial.other_cpu()?),
        Exchange::RoundTrip | Exchange::Stream => None,
    };
    let (ours, theirs) = channel.open().map_err(call_failed("opening a channel between processes"))?;
    let mut block = vec![0u8; BLOCK_BYTES];
    let child = Child::fork(|| {
        if other_cpu.is_some_and(|cpu| pin_to(cpu).is_err()) {
            return 1;
        }
        match exchange {
            Exchange::RoundTrip | Exchange::RoundTripAcross => echo(&theirs),
            Exchange::Stream => while matches!(write(&theirs.to, &block), Ok(1..)) {},
        }
        0
    })
    .map_err(call_failed("fork"))?;
    // Without this copy of the child's end, its death is seen as the end of what can be read.
    drop(theirs);
    let measured = match exchange {
        Exchange::RoundTrip | Exchange::RoundTripAcross => {
            batch::measure(trial.budget, Scale::nanos(1.0), pace, |units| {
                timed(|| (0..units).try_for_each(|_| round_trip(&ours)))
            })
        }
        Exchange::Stream => {
            batch::measure(trial.budget, Scale::per_second(UNIT_BYTES as f64), pace, |units| {
                timed(|| (0..units).try_for_each(|_| receive(&ours, &mut block)))
            })
        }
    };
    drop(child);
    measured
}

/// Sends every byte back until the other end is closed.
fn echo(end: &End) {
    let mut byte = [0u8];
    while read(&end.from, &mut byte) == Ok(1) && write(&end.to, &byte) == Ok(1) {}
}

fn round_trip(end: &End) -> Result<(), Failure> {
    let mut byte = [7u8];
    match write(&end.to, &byte).and_then(|_| read(&end.from, &mut byte)) {
        Ok(1) => Ok(()),
        Ok(_) => Err(helper_ended()),
        Err(error) => Err(call_failed("a round trip between processes")(error)),
    }
}

fn receive(end: &End, block: &mut [u8]) -> Result<(), Failure> {
    let mut left = UNIT_BYTES;
    while left > 0 {
        let wanted = left.min(block.len());
        match read(&end.from, &mut block[..wanted]).map_err(call_failed("receiving a stream"))? {
            0 => return Err(helper_ended()),
            got => left -= got,
        }
    }
    Ok(())
}

pub(super) fn helper_ended() -> Failure {
    Failure::new(
        "talking to a helper process",
        "it ended too early",
        "see whether something kills the agent's children, or forbids them the second CPU",
    )
}
