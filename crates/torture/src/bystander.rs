//! Two front-ends that do nothing wrong, and frames between them at a steady rate.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use measure::Failure;
use port::FrameBatch;
use port::virtio_user::{VirtioUser, VirtioUserOptions};
use serde::{Deserialize, Serialize};
use traffic::rig::TestRig;

/// How long the back-end may take to serve both.
const READY: Duration = Duration::from_secs(10);
/// From one frame to the next.
const INTERVAL: Duration = Duration::from_micros(200);
/// Stations and type: by them its frames are told from others.
const HEADER_BYTES: usize = 14;
/// How long a last frame may be under way.
const LATE: Duration = Duration::from_secs(2);

/// What became of the bystanders' frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undisturbed {
    /// Frames sent.
    pub sent: u64,
    /// Frames that arrived.
    pub received: u64,
    /// The longest time without an arrival while frames were sent, ns.
    pub longest_gap_ns: u64,
    /// How long it went, ns.
    pub elapsed_ns: u64,
}

/// Runs until it is ended.
pub struct Bystander {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Result<Undisturbed, Failure>>,
}

fn failed(error: impl ToString) -> Failure {
    Failure::new("sending frames beside", error, "see that both sockets are ports of one switch")
}

impl Bystander {
    /// From the port at `from` to the one at `to`.
    ///
    /// # Errors
    /// The ports do not come up, or no frame arrives.
    pub fn start(from: &Path, to: &Path) -> Result<Self, Failure> {
        let mut rig = TestRig::new();
        for path in [from, to] {
            let port = VirtioUser::new(VirtioUserOptions::new(path)).map_err(failed)?;
            rig.attach("bystander", Box::new(port)).map_err(failed)?;
        }
        rig.wait_until_up(READY).map_err(failed)?;
        let over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&over);
        let thread = thread::spawn(move || send(rig, &told));
        Ok(Bystander { over, thread })
    }

    /// Ends it.
    ///
    /// # Errors
    /// A port stopped meanwhile.
    pub fn end(self) -> Result<Undisturbed, Failure> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| Err(failed("its thread panicked")))
    }
}

/// From one station to the other.
fn frame() -> [u8; 60] {
    let mut frame = [0; 60];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0xb5, 2, 2, 0, 0, 0, 0xb5, 1, 0x88, 0xb5]);
    frame
}

fn send(mut rig: TestRig, over: &AtomicBool) -> Result<Undisturbed, Failure> {
    let own = FrameBatch::of_frame(&frame()).map_err(failed)?;
    let mut counts = Undisturbed::default();
    let start = Instant::now();
    let mut next = start;
    let mut last_arrival = start;
    let mut until = None;
    loop {
        let now = Instant::now();
        let Some((one, other)) = rig.two_ends(0, 1) else { return Err(failed("its ports are not there")) };
        let (Some((_, sink)), Some((source, _))) = (one.pair(0), other.pair(0)) else {
            return Err(failed("a queue has stopped"));
        };
        if until.is_none() && now >= next {
            sink.accept(&own, &[0]).map_err(failed)?;
            counts.sent += 1;
            // What this thread itself missed is not made up for: a burst would measure something else.
            next = now.max(next + INTERVAL);
        }
        // A hostile neighbour may send frames, too, and a switch floods those whose station it does not know.
        let batch = source.rx_burst(32).map_err(failed)?;
        let arrived =
            batch.frames().filter(|arrived| arrived.snapshot().starts_with(&frame()[..HEADER_BYTES])).count();
        let arrived = arrived as u64;
        let is_busy = source.needs_release();
        if is_busy {
            source.release();
        }
        if arrived > 0 {
            counts.received += arrived;
            if until.is_none() {
                counts.longest_gap_ns = counts.longest_gap_ns.max((now - last_arrival).as_nanos() as u64);
            }
            last_arrival = now;
        } else if !is_busy {
            thread::sleep(INTERVAL / 4);
        }
        if until.is_none() && over.load(Ordering::Relaxed) {
            counts.elapsed_ns = start.elapsed().as_nanos() as u64;
            until = Some(now + LATE);
        }
        if until.is_some_and(|until| counts.received >= counts.sent || now >= until) {
            return Ok(counts);
        }
    }
}
