//! Runs work in a process of its own, so that its locked memory, its scheduling policy and its loads end with the
//! process.

use std::fs::File;
use std::io::{Read, Write};
use std::time::Duration;

use measure::Failure;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::clock::now_ns;
use crate::protocol::Reply;
use crate::sys::Child;

/// Runs `body` in a child process and returns its reply. `what` is a name for error texts.
///
/// # Errors
/// No child process could be started, it ended without a reply, or it has not replied within `limit`; in the last
/// case it is killed.
pub(crate) fn run(what: &str, limit: Duration, body: impl FnOnce() -> Reply) -> Result<Reply, Failure> {
    let failed =
        |error| Failure::new(format!("starting a process for {what}"), error, "allow the agent to fork");
    let (from_child, to_parent) = pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
    let mut to_parent = File::from(to_parent);
    let child = Child::fork(|| i32::from(to_parent.write_all(body().to_line().as_bytes()).is_err()))
        .map_err(failed)?;
    drop(to_parent);
    let reply = read_within(what, File::from(from_child), limit);
    drop(child);
    match reply?.map(|line| Reply::parse(&line)) {
        Some(Ok(reply)) => Ok(reply),
        _ => Err(Failure::new(
            format!("{what} in a process of its own"),
            "it ended without a result",
            "see whether something kills the agent's children (memory limit, real-time limit)",
        )),
    }
}

/// All that is written until the end; none where nothing was.
fn read_within(what: &str, mut pipe: File, limit: Duration) -> Result<Option<String>, Failure> {
    let until_ns = now_ns() + limit.as_nanos() as u64;
    let mut text = Vec::new();
    let mut block = [0u8; 64 << 10];
    loop {
        let left = Timespec::try_from(Duration::from_nanos(until_ns.saturating_sub(now_ns()))).ok();
        let ready = poll(&mut [PollFd::new(&pipe, PollFlags::IN)], left.as_ref());
        if ready == Ok(0) {
            return Err(Failure::new(
                format!("waiting for {what}"),
                format!("nothing after {} s", limit.as_secs()),
                "see whether this environment's timers work",
            ));
        }
        match pipe.read(&mut block) {
            Ok(0) if text.is_empty() => return Ok(None),
            Ok(0) => return Ok(Some(String::from_utf8_lossy(&text).into_owned())),
            Ok(count) => text.extend_from_slice(&block[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => {
                return Err(Failure::new(
                    format!("reading the result of {what}"),
                    error,
                    "let read through the sandbox that this runs in",
                ));
            }
        }
    }
}
