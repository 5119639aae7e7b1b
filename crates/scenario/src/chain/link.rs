//! A member's port: sends frames in bursts, and receives frames with their arrival times.

use std::io;
use std::time::{Duration, Instant};

use frame::{FrameBatch, OwnMemory, OwnSgBuilder, SNAPSHOT_BYTES};
use measure::Failure;
use memory::SgList;
use port::Port;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use traffic::rig::TestRig;
use virtio::net::{HeaderLayout, NetHeader};

use super::frame::LONGEST;
use super::instant::now_ns;

/// Frames of a burst.
const BURST: usize = 32;
/// Bytes between two frames in our memory.
const STRIDE: usize = 2048;
/// How long the switch may take to be ready.
const READY_WITHIN: Duration = Duration::from_secs(10);
/// How long a sender waits for room before a frame is dropped.
const ROOM_WITHIN: Duration = Duration::from_millis(20);
/// How long it polls before it sleeps.
const POLL: Duration = Duration::from_micros(20);

/// A running port.
pub struct Link {
    rig: TestRig,
    memory: OwnMemory,
    builder: OwnSgBuilder,
    batch: FrameBatch,
    which: Vec<u16>,
    frame: Vec<u8>,
    /// Frames for which there was no room in time.
    pub dropped: u64,
}

fn failed(error: impl ToString) -> Failure {
    Failure::new("passing frames on through a port of the switch", error, "see whether the switch still runs")
}

impl Link {
    /// Starts a port, and waits until its queues run.
    ///
    /// # Errors
    /// The queues do not start.
    pub fn start(port: Box<dyn Port>) -> Result<Self, Failure> {
        let mut rig = TestRig::new();
        rig.attach("port", port).map_err(failed)?;
        rig.wait_until_up(READY_WITHIN).map_err(failed)?;
        let memory = OwnMemory::new(c"tautline-scenario", (BURST * STRIDE) as u64).map_err(failed)?;
        let builder = memory.sg_builder();
        Ok(Link {
            rig,
            memory,
            builder,
            batch: FrameBatch::of_memory(BURST),
            which: Vec::with_capacity(BURST),
            frame: Vec::with_capacity(LONGEST),
            dropped: 0,
        })
    }

    /// Adds a frame to the burst, which is sent when it is full.
    ///
    /// # Errors
    /// The port has stopped.
    pub fn put(&mut self, frame: &[u8]) -> Result<(), Failure> {
        let slot = self.batch.len();
        let start = slot * STRIDE;
        self.memory.slice(start + NetHeader::BYTES, frame.len()).write(frame);
        if let Some(arena) = self.batch.arena_mut() {
            let first = arena.len();
            self.builder.push(arena, start as u64, (NetHeader::BYTES + frame.len()) as u32);
            self.batch.push(first, HeaderLayout::Full).map_err(|reason| failed(reason.text()))?;
        }
        if self.batch.len() == BURST { self.flush() } else { Ok(()) }
    }

    /// Sends the frames of the burst. Waits a while for room.
    ///
    /// # Errors
    /// The port has stopped.
    pub fn flush(&mut self) -> Result<(), Failure> {
        let count = self.batch.len();
        let mut sent = 0;
        let mut waiting_since: Option<Instant> = None;
        while sent < count {
            let Some((_, sink)) = self.rig.end(0).pair(0) else {
                return Err(failed("its queues have stopped"));
            };
            let room = sink.room().min(count - sent);
            if room > 0 {
                self.which.clear();
                self.which.extend(sent as u16..(sent + room) as u16);
                sink.accept(&self.batch, &self.which).map_err(failed)?;
                sent += room;
                waiting_since = None;
            } else if waiting_since.get_or_insert_with(Instant::now).elapsed() > ROOM_WITHIN {
                self.dropped += (count - sent) as u64;
                break;
            } else {
                std::thread::yield_now();
            }
        }
        self.batch.clear();
        Ok(())
    }

    /// Waits up to `limit` for frames. Calls `each` for each frame of a burst, with the time at which the burst came.
    /// Returns the number of frames.
    ///
    /// # Errors
    /// The port has stopped.
    pub fn receive(&mut self, limit: Duration, each: &mut dyn FnMut(&[u8], u64)) -> Result<usize, Failure> {
        let start = Instant::now();
        loop {
            let Some((source, _)) = self.rig.end(0).pair(0) else {
                return Err(failed("its queues have stopped"));
            };
            let batch = source.rx_burst(BURST).map_err(failed)?;
            let came_ns = now_ns();
            let count = batch.len();
            for frame in batch.frames() {
                let bytes = frame.len_bytes();
                self.frame.clear();
                self.frame.extend_from_slice(frame.snapshot());
                if bytes > SNAPSHOT_BYTES {
                    self.frame.resize(bytes, 0);
                    let (slices, skip) = frame.slices();
                    SgList::new(slices).skip(skip + SNAPSHOT_BYTES).read(&mut self.frame[SNAPSHOT_BYTES..]);
                }
                each(&self.frame, came_ns);
            }
            if source.needs_release() {
                source.release();
            }
            let waited = start.elapsed();
            if count > 0 || waited >= limit {
                return Ok(count);
            }
            if waited >= POLL {
                self.sleep(limit - waited)?;
            }
        }
    }

    /// Sleeps until something comes, or the switch has something to say.
    fn sleep(&mut self, limit: Duration) -> Result<(), Failure> {
        let Some((source, _)) = self.rig.end(0).pair(0) else {
            return Err(failed("its queues have stopped"));
        };
        let came = !source.sleep() && {
            let limit = Timespec::try_from(limit.min(Duration::from_millis(50))).ok();
            match source.wake_fd() {
                None => false,
                Some(fd) => match poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], limit.as_ref()) {
                    Ok(count) => count > 0,
                    Err(rustix::io::Errno::INTR) => true,
                    Err(error) => return Err(failed(io::Error::from(error))),
                },
            }
        };
        source.wake();
        if !came {
            self.rig.attend(Duration::ZERO).map_err(failed)?;
        }
        Ok(())
    }
}
