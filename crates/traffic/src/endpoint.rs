//! A `vhost-user:` port without a switch, in a process of its own. It reads commands from standard input
//! (`from-guest`, `to-guest BYTES`, `reflect`, `pause`, `counts`) and answers each with its counts, as a line of
//! JSON.
use std::fmt::Display;
use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use port::vhost_user::{VhostUser, VhostUserOptions};
use serde_json::json;

use crate::frames::FrameSize;
use crate::rig::{Responder, RigError, TestRig};

/// Rounds between two looks at the socket, none of which reads a clock.
const ATTEND_ROUNDS: u64 = 1 << 16;

/// One of this many rounds is timed, as the switch's worker does it.
const ROUNDS_PER_TIMED: u64 = 16;

#[derive(Default)]
struct Counts {
    frames: u64,
    /// The duration of timed rounds that moved something, in nanoseconds, and their frames.
    timed_ns: u64,
    timed_frames: u64,
}

/// Runs a `vhost-user:` port on one CPU until standard input ends.
///
/// # Errors
/// The thread cannot be bound to the CPU, the port cannot be made on the socket's path, its control side fails, a
/// command is unknown, or an answer cannot be written to standard output.
pub fn run(socket: &Path, cpu: usize) -> Result<(), RigError> {
    let pending = Arc::new(AtomicBool::new(false));
    let (send, commands) = channel();
    let told = Arc::clone(&pending);
    // Started before this thread is bound: it may run anywhere.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let _ = send.send(line);
            told.store(true, Ordering::Release);
        }
        drop(send);
        told.store(true, Ordering::Release);
    });
    let failed = |what| move |source| RigError::System { what, source };
    linux::cpus::bind(&[cpu]).map_err(failed("binding to a CPU"))?;
    let mut rig = TestRig::new();
    rig.attach("host", Box::new(VhostUser::new(VhostUserOptions::new(socket))?))?;
    let (mut responder, mut counts, mut rounds) = (None, Counts::default(), 0u64);
    loop {
        // Looked at before it is taken back: taking it is a barrier, which waits for all that was stored.
        if pending.load(Ordering::Relaxed)
            && pending.swap(false, Ordering::Acquire)
            && !handle_command(&commands, &mut responder, &counts).map_err(failed("commands to the port"))?
        {
            return Ok(());
        }
        let Some(responder) = &responder else {
            rig.attend(Duration::from_millis(5))?;
            continue;
        };
        rounds += 1;
        if rounds.is_multiple_of(ATTEND_ROUNDS) {
            rig.attend(Duration::ZERO)?;
        }
        let begun = rounds.is_multiple_of(ROUNDS_PER_TIMED).then(Instant::now);
        match responder.turn(&mut rig) {
            Ok(0) => {}
            Ok(frames) => {
                counts.frames += frames as u64;
                if let Some(begun) = begun {
                    counts.timed_ns += begun.elapsed().as_nanos() as u64;
                    counts.timed_frames += frames as u64;
                }
            }
            // The driver may have ended in the middle of a burst: the port notices it and listens again.
            Err((side, why)) => drop(rig.stopped(0, 0, side, why)),
        }
    }
}

/// Carries out the commands that have come and answers each. Returns false at the end of standard input.
#[cold]
fn handle_command(
    commands: &Receiver<String>,
    responder: &mut Option<Responder>,
    counts: &Counts,
) -> std::io::Result<bool> {
    loop {
        let line = match commands.try_recv() {
            Ok(line) => line,
            Err(end) => return Ok(end == TryRecvError::Empty),
        };
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("counts", _) => {}
            ("pause", _) => *responder = None,
            ("from-guest", _) => *responder = Some(Responder::Drop),
            ("reflect", _) => *responder = Some(Responder::Reflect),
            ("to-guest", bytes) => {
                let wrong = |why: &dyn Display| std::io::Error::other(format!("{line}: {why}"));
                let bytes = bytes.parse().map_err(|error| wrong(&error))?;
                let size = FrameSize::with_fcs(bytes).map_err(|error| wrong(&error))?;
                *responder = Some(Responder::sender(size).map_err(|error| wrong(&error))?);
            }
            _ => return Err(std::io::Error::other(format!("there is no '{line}'"))),
        }
        let Counts { frames, timed_ns, timed_frames } = counts;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", json!({ "frames": frames, "timed_ns": timed_ns, "timed_frames": timed_frames }))?;
        out.flush()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_no_frame_has_is_refused() {
        for (line, is_known) in [("to-guest 64", true), ("to-guest 12", false), ("to-guest x", false)] {
            let (send, commands) = channel();
            send.send(line.to_owned()).unwrap();
            let mut responder = Some(Responder::Drop);
            let handled = handle_command(&commands, &mut responder, &Counts::default());
            assert_eq!(handled.is_ok(), is_known, "{line}: {handled:?}");
        }
    }
}
