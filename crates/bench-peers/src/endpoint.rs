//! A `vhost-user:` port without a switch, as a process of its own: what testpmd's `net_vhost` does with
//! `rxonly`, `txonly` and `mac`, done by a port of ours. It listens to lines and answers each with its counts.
use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use port::vhost_user::{VhostUser, VhostUserOptions};
use port::{QueueError, Side, Sink, Source};
use serde_json::json;
use traffic::frames::{Fields, FrameSize, SizeMix, Stream};
use traffic::rig::TestRig;

const BURST: usize = 32;

/// Rounds between two looks at the socket, none of which reads a clock.
const ATTEND_ROUNDS: u64 = 1 << 16;

enum Role {
    Paused,
    /// Drops.
    FromGuest,
    /// Sends frames that were made before, as `txonly` does.
    ToGuest(Box<Stream>),
    /// Sends back, with this end's address as the source.
    Reflect,
}

/// Of so many rounds one is timed, as the switch's worker does it.
const ROUNDS_PER_TIMED: u64 = 16;

#[derive(Default)]
struct Counts {
    frames: u64,
    /// Nanoseconds of timed rounds that moved something, and their frames.
    timed_ns: u64,
    timed_frames: u64,
}

/// Runs until the input ends.
pub fn run(socket: &Path, cpu: usize) -> anyhow::Result<()> {
    let pending = Arc::new(AtomicBool::new(false));
    let (send, commands) = channel();
    let bell = Arc::clone(&pending);
    // Started before this thread is pinned: it may run anywhere.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let _ = send.send(line);
            bell.store(true, Ordering::Release);
        }
        drop(send);
        bell.store(true, Ordering::Release);
    });
    traffic::bound::pin(cpu).context("pinning the port to its CPU")?;
    let mut rig = TestRig::new();
    rig.plug("host", Box::new(VhostUser::new(VhostUserOptions::new(socket))?))?;
    let begin = Instant::now();
    let (mut role, mut counts, mut rounds) = (Role::Paused, Counts::default(), 0u64);
    loop {
        // Looked at before it is taken back: taking it is a barrier, which waits for all that was stored.
        if pending.load(Ordering::Relaxed) && pending.swap(false, Ordering::Acquire) {
            match next_role(&commands, &counts, begin)? {
                Next::End => return Ok(()),
                Next::Same => {}
                Next::Role(next) => role = next,
            }
        }
        if matches!(role, Role::Paused) {
            rig.attend(Duration::from_millis(5))?;
            continue;
        }
        rounds += 1;
        if rounds.is_multiple_of(ATTEND_ROUNDS) {
            rig.attend(Duration::ZERO)?;
        }
        let begun = rounds.is_multiple_of(ROUNDS_PER_TIMED).then(Instant::now);
        match turn(&mut rig, &mut role) {
            Ok(0) => {}
            Ok(frames) => {
                counts.frames += frames as u64;
                if let Some(begun) = begun {
                    counts.timed_ns += begun.elapsed().as_nanos() as u64;
                    counts.timed_frames += frames as u64;
                }
            }
            // The driver may have ended in the middle of something: its port hears of it and listens again.
            Err((side, why)) => drop(rig.stopped(0, 0, side, why)),
        }
    }
}

enum Next {
    End,
    Same,
    Role(Role),
}

/// Does what the last line says, and answers each.
#[cold]
fn next_role(commands: &Receiver<String>, counts: &Counts, begin: Instant) -> anyhow::Result<Next> {
    let mut next = Next::Same;
    loop {
        let line = match commands.try_recv() {
            Ok(line) => line,
            Err(std::sync::mpsc::TryRecvError::Empty) => return Ok(next),
            Err(std::sync::mpsc::TryRecvError::Disconnected) => return Ok(Next::End),
        };
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("counts", _) => {}
            ("pause", _) => next = Next::Role(Role::Paused),
            ("from-guest", _) => next = Next::Role(Role::FromGuest),
            ("reflect", _) => next = Next::Role(Role::Reflect),
            ("to-guest", bytes) => {
                let mix = SizeMix::fixed(FrameSize::with_fcs(bytes.parse()?)?);
                let mut stream = Stream::new(Fields::default(), &mix, 0..1)?;
                stream.burst(BURST, |_| 0);
                next = Next::Role(Role::ToGuest(Box::new(stream)));
            }
            _ => bail!("there is no '{line}'"),
        }
        let answer = json!({
            "elapsed_ns": begin.elapsed().as_nanos() as u64,
            "frames": counts.frames,
            "timed_ns": counts.timed_ns,
            "timed_frames": counts.timed_frames,
        });
        let mut out = std::io::stdout().lock();
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
}

type Failure = (Side, QueueError);

/// One burst; how many frames.
#[inline(always)]
fn turn(rig: &mut TestRig, role: &mut Role) -> Result<usize, Failure> {
    let Some((source, sink)) = rig.end(0).pair(0) else { return Ok(0) };
    match role {
        Role::Paused => Ok(0),
        Role::FromGuest => drain(&mut **source),
        Role::ToGuest(stream) => send(&mut **sink, stream),
        Role::Reflect => reflect(&mut **source, &mut **sink),
    }
}

#[inline(always)]
fn drain(source: &mut dyn Source) -> Result<usize, Failure> {
    let frames = source.rx_burst(BURST).map_err(|why| (Side::FromGuest, why))?.len();
    if source.needs_release() {
        source.release();
    }
    Ok(frames)
}

#[inline(always)]
fn send(sink: &mut dyn Sink, stream: &Stream) -> Result<usize, Failure> {
    let room = sink.room().min(BURST);
    if room > 0 {
        let (batch, which) = stream.again(room);
        sink.accept(batch, which).map_err(|why| (Side::ToGuest, why))?;
    }
    Ok(room)
}

/// Addresses as testpmd's `mac` writes them: to a station of the sender's net, from this end.
const TO: [u8; 6] = [0x02, 0, 0, 0, 0, 0];
const FROM: [u8; 6] = [0x02, 0, 0, 0, 0, 0x02];

#[inline(always)]
fn reflect(source: &mut dyn Source, sink: &mut dyn Sink) -> Result<usize, Failure> {
    const WHICH: [u16; BURST] = {
        let mut which = [0; BURST];
        let mut i = 0;
        while i < BURST {
            which[i] = i as u16;
            i += 1;
        }
        which
    };
    let frames = source.rx_burst(BURST).map_err(|why| (Side::FromGuest, why))?.len();
    let mut accepted = Ok(());
    if let Some(batch) = source.batch_mut() {
        for i in 0..frames {
            let head = batch.snapshot_mut(i);
            head[..6].copy_from_slice(&TO);
            head[6..12].copy_from_slice(&FROM);
        }
        accepted = sink.accept(batch, &WHICH[..frames]);
    }
    if source.needs_release() {
        source.release();
    }
    accepted.map_err(|why| (Side::ToGuest, why))?;
    Ok(frames)
}
