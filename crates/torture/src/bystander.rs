//! Two correct front-ends that exchange frames at a steady rate.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use frame::FrameBatch;
use measure::Failure;
use port::virtio_user::{VirtioUser, VirtioUserOptions};
use serde::{Deserialize, Serialize};
use traffic::frames::{Access, Checker, Fields, FrameSize, SizeMix, Stream};
use traffic::rig::TestRig;

use crate::turns::Turns;

/// How long the back-end may take to serve both.
const READY: Duration = Duration::from_secs(10);
/// From one broadcast to the next: with them a switch visits what a hostile front-end has posted to receive.
const BROADCAST: Duration = Duration::from_millis(1);
/// The length of an Ethernet header, which distinguishes the frames from broadcasts.
const HEADER_BYTES: usize = 14;
/// The number of a broadcast stands behind them.
const NUMBER_BYTES: usize = HEADER_BYTES + 8;
/// The most frames of each direction under way, and the most broadcasts beside them. Both rings have a buffer for each,
/// so no frame is lost here even if the switch gets no CPU, and a correct switch drops none.
const WINDOW: u64 = 128;
const BROADCASTS: u64 = 64;
/// The number of the only flow.
const FLOW: u16 = 0;
/// Frames of a burst.
const BURST: usize = 32;
/// Frames that are overdue by more are not sent later: a longer burst would measure something else.
const BEHIND: Duration = Duration::from_millis(10);
/// The pause of the thread while it has nothing to do.
const PAUSE: Duration = Duration::from_micros(50);
/// How long a frame may be under way. After that it counts as lost and frees its place in the window.
const LATE: Duration = Duration::from_secs(2);

/// A bystander keeps at least this part of its rate, against its own while nothing is hostile and against that asked for.
const LEAST_RATIO: f64 = 0.9;

/// The counts of the bystanders' frames.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Undisturbed {
    /// Frames sent.
    pub sent: u64,
    /// Frames that arrived, each counted once.
    pub received: u64,
    /// Frames that arrived altered, twice, or after one that was sent later.
    pub spoiled: u64,
    /// Broadcasts that a receiver sent back. Each may have made up for a lost one.
    #[serde(default)]
    pub echoed: u64,
    /// The longest time without an arrival while frames were sent, ns, not counting time in which this thread had no
    /// CPU.
    pub longest_gap_ns: u64,
    /// How long frames were sent, ns.
    pub elapsed_ns: u64,
    /// The planned rate of both directions and the broadcasts together, frames a second.
    pub asked_per_s: f64,
    /// Rates during hostile messages, and while these paused; empty if they never paused.
    pub turns: Turns,
}

impl Undisturbed {
    /// Whether frames were lost, or the rate was lower than allowed, because of hostile front-ends.
    pub fn is_disturbed(&self) -> bool {
        let rates = [self.turns.ratio(), self.turns.reached(self.asked_per_s)];
        self.received < self.sent
            || self.spoiled > 0
            || rates.into_iter().flatten().any(|ratio| ratio < LEAST_RATIO)
    }
}

/// The exchange of frames, which runs until it is ended.
pub struct Bystander {
    over: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
    thread: JoinHandle<Result<Undisturbed, Failure>>,
    turns: Turns,
    /// When the turn began, and how many frames had arrived by then.
    turn: (Instant, u64),
}

fn failed(error: impl ToString) -> Failure {
    Failure::new("sending frames beside", error, "see that both sockets are ports of one switch")
}

impl Bystander {
    /// Starts sending `rate` frames a second each way between the ports at these paths.
    ///
    /// # Errors
    /// A socket cannot be connected to, or the queues of a port do not run within 10 s.
    pub fn start(paths: [&Path; 2], rate: u32) -> Result<Self, Failure> {
        let mut rig = TestRig::new();
        for path in paths {
            let port = VirtioUser::new(VirtioUserOptions::new(path)).map_err(failed)?;
            rig.attach("bystander", Box::new(port)).map_err(failed)?;
        }
        rig.wait_until_up(READY).map_err(failed)?;
        let (over, received) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let thread = {
            let (over, received) = (Arc::clone(&over), Arc::clone(&received));
            thread::spawn(move || Traffic::new(rate)?.run(rig, &over, &received))
        };
        Ok(Bystander { over, received, thread, turns: Turns::default(), turn: (Instant::now(), 0) })
    }

    /// How long the present turn with hostile messages has lasted.
    pub fn turn(&self) -> Duration {
        self.turn.0.elapsed()
    }

    /// Whether the hostile front-ends have paused yet.
    pub fn has_turns(&self) -> bool {
        !self.turns.beside_per_s.is_empty()
    }

    /// Pauses the hostile front-ends for `time`; then the next turn begins.
    pub fn rest(&mut self, time: Duration) {
        let beside = self.rate();
        thread::sleep(time);
        let alone = self.rate();
        self.turns.push(beside, alone);
    }

    /// Frames a second since the last call.
    fn rate(&mut self) -> f64 {
        let (since, before) = self.turn;
        self.turn = (Instant::now(), self.received.load(Ordering::Relaxed));
        (self.turn.1 - before) as f64 / (self.turn.0 - since).as_secs_f64()
    }

    /// Stops sending and returns the counts of the frames.
    ///
    /// # Errors
    /// A port stopped before, the memory for the frames was refused, or the thread panicked.
    pub fn end(self) -> Result<Undisturbed, Failure> {
        self.over.store(true, Ordering::Relaxed);
        let ended = self.thread.join().unwrap_or_else(|_| Err(failed("its thread panicked")))?;
        Ok(Undisturbed { turns: self.turns, ..ended })
    }
}

/// One way from station to station.
struct Lane {
    stream: Stream,
    checker: Checker,
    window: Window,
}

/// Frames that are under way and keep their order. A frame behind a gap shows a loss; if no frames come any more, the
/// time limit does.
struct Window {
    size: u64,
    /// Frames with lower numbers are not waited for.
    awaited: u64,
    /// When the oldest awaited frame became the oldest.
    since: Instant,
}

impl Window {
    fn new(size: u64) -> Self {
        Window { size, awaited: 0, since: Instant::now() }
    }

    /// The number of frames that may be sent now, if `sent` frames were sent, and all frames before `next` have arrived
    /// or count as lost.
    fn room(&mut self, sent: u64, next: u64, now: Instant) -> u64 {
        if next > self.awaited || self.awaited >= sent {
            (self.awaited, self.since) = (self.awaited.max(next), now);
        } else if now - self.since > LATE {
            (self.awaited, self.since) = (sent, now);
        }
        self.size.saturating_sub(sent - self.awaited)
    }
}

impl Lane {
    fn new(fields: Fields) -> Result<Self, Failure> {
        let mix = SizeMix::fixed(FrameSize::MIN);
        let stream = Stream::new(fields, &mix, 0..1).map_err(failed)?;
        let checker = Checker::new(&fields, &mix, 1, Access::Payload);
        Ok(Lane { stream, checker, window: Window::new(WINDOW) })
    }

    fn room(&mut self, now: Instant) -> u64 {
        self.window.room(self.stream.sent(), self.checker.next(FLOW), now)
    }
}

struct Traffic {
    lanes: [Lane; 2],
    broadcasts: Broadcasts,
    /// Frames a second, each way.
    rate: u32,
}

/// Numbered broadcasts. A hostile front-end may send back a broadcast that it received. An echo that comes after a
/// later number is recognised; an earlier one cannot be distinguished from the original.
struct Broadcasts {
    sent: u64,
    received: u64,
    echoed: u64,
    /// The highest number that arrived.
    latest: u64,
    window: Window,
}

impl Broadcasts {
    fn new() -> Self {
        Broadcasts { sent: 0, received: 0, echoed: 0, latest: 0, window: Window::new(BROADCASTS) }
    }

    fn has_room(&mut self, now: Instant) -> bool {
        self.window.room(self.sent, self.latest, now) > 0
    }

    fn header() -> [u8; HEADER_BYTES] {
        let mut header = [0xff; HEADER_BYTES];
        header[6..12].copy_from_slice(&Fields::default().source.0);
        header[12..].copy_from_slice(&[0x88, 0xb5]);
        header
    }

    /// The next one, from the first station to all.
    fn next(&mut self) -> [u8; 60] {
        self.sent += 1;
        let mut frame = [0; 60];
        frame[..HEADER_BYTES].copy_from_slice(&Self::header());
        frame[HEADER_BYTES..NUMBER_BYTES].copy_from_slice(&self.sent.to_be_bytes());
        frame
    }

    /// Whether a frame is a broadcast. Its first arrival is counted as received, any other as an echo. At its origin
    /// a broadcast can only be an echo.
    fn arrived(&mut self, frame: &[u8], at_its_origin: bool) -> bool {
        let is_one = frame.starts_with(&Self::header());
        let number = frame.get(HEADER_BYTES..NUMBER_BYTES).and_then(|bytes| bytes.try_into().ok());
        let number = number.map_or(0, u64::from_be_bytes);
        let is_first = !at_its_origin && (self.latest + 1..=self.sent).contains(&number);
        if is_one && is_first {
            self.latest = number;
            self.received += 1;
        } else if is_one {
            self.echoed += 1;
        }
        is_one
    }
}

impl Traffic {
    fn new(rate: u32) -> Result<Self, Failure> {
        let there = Fields::default();
        let back = Fields {
            source: there.destination,
            destination: there.source,
            source_ip: there.destination_ip,
            destination_ip: there.source_ip,
            ..there
        };
        Ok(Traffic { lanes: [Lane::new(there)?, Lane::new(back)?], broadcasts: Broadcasts::new(), rate })
    }

    fn run(
        mut self,
        mut rig: TestRig,
        over: &AtomicBool,
        arrived: &AtomicU64,
    ) -> Result<Undisturbed, Failure> {
        let start = Instant::now();
        let (mut offered, mut next_broadcast) = (0u64, start);
        let (mut last_look, mut gap, mut longest_gap) = (start, Duration::ZERO, Duration::ZERO);
        let (mut elapsed, mut until) = (Duration::ZERO, None);
        let behind = (BEHIND.as_secs_f64() * f64::from(self.rate)).max(1.0) as u64;
        loop {
            let now = Instant::now();
            // The time in which this thread did not run does not count for the back-end.
            gap += (now - last_look).min(4 * PAUSE);
            last_look = now;
            let due = ((now - start).as_secs_f64() * f64::from(self.rate)) as u64 - offered;
            offered += due.saturating_sub(behind);
            let due = due.min(behind).min(BURST as u64);
            let Some((one, other)) = rig.two_ends(0, 1) else {
                return Err(failed("its ports are not there"));
            };
            let (Some(one), Some(other)) = (one.pair(0), other.pair(0)) else {
                return Err(failed("a queue has stopped"));
            };
            let ((one_source, one_sink), (other_source, other_sink)) = (one, other);
            let mut is_busy = false;
            if until.is_none() {
                let room = self.lanes.iter_mut().map(|lane| lane.room(now)).min();
                let count = due.min(room.unwrap_or(0));
                offered += count;
                is_busy = count > 0;
                for (lane, sink) in self.lanes.iter_mut().zip([&mut *one_sink, other_sink]) {
                    let (batch, which) = lane.stream.burst(count as usize, |_| 0);
                    sink.accept(batch, which).map_err(failed)?;
                }
                if now >= next_broadcast && self.broadcasts.has_room(now) {
                    let broadcast = FrameBatch::of_frame(&self.broadcasts.next()).map_err(failed)?;
                    one_sink.accept(&broadcast, &[0]).map_err(failed)?;
                    next_broadcast = now + BROADCAST;
                }
            }
            let before = self.received();
            let ends = [(other_source, false), (one_source, true)];
            for (lane, (source, sends_broadcasts)) in self.lanes.iter_mut().zip(ends) {
                for frame in source.rx_burst(BURST).map_err(failed)?.frames() {
                    // A hostile neighbour may send frames, too, and a switch floods those whose station it does not know.
                    if !self.broadcasts.arrived(frame.snapshot(), sends_broadcasts) {
                        lane.checker.check(frame);
                    }
                }
                if source.needs_release() {
                    source.release();
                    is_busy = true;
                }
            }
            let received = self.received();
            if received > before {
                arrived.store(received, Ordering::Relaxed);
                if until.is_none() {
                    longest_gap = longest_gap.max(gap);
                }
                gap = Duration::ZERO;
            }
            if until.is_none() && over.load(Ordering::Relaxed) {
                elapsed = now - start;
                until = Some(now + LATE);
            }
            let sent = self.broadcasts.sent + self.lanes.iter().map(|lane| lane.stream.sent()).sum::<u64>();
            if until.is_some_and(|until| received >= sent || now >= until) {
                let tallies = self.lanes.each_ref().map(|lane| lane.checker.tally());
                let spoiled =
                    tallies.map(|tally| tally.altered + tally.doubled + tally.reordered + tally.stale);
                return Ok(Undisturbed {
                    sent,
                    received,
                    spoiled: spoiled.iter().sum(),
                    echoed: self.broadcasts.echoed,
                    longest_gap_ns: longest_gap.as_nanos() as u64,
                    elapsed_ns: elapsed.as_nanos() as u64,
                    asked_per_s: 2.0 * f64::from(self.rate) + 1.0 / BROADCAST.as_secs_f64(),
                    turns: Turns::default(),
                });
            }
            if !is_busy {
                thread::sleep(PAUSE);
            }
        }
    }

    fn received(&self) -> u64 {
        self.broadcasts.received + self.lanes.iter().map(|lane| lane.checker.tally().distinct).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_frame_leaves_the_window() {
        let mut lane = Lane::new(Fields::default()).unwrap();
        let start = Instant::now();
        assert_eq!(lane.room(start), WINDOW);
        let (batch, _) = lane.stream.burst(BURST, |_| 0);
        // All but the last are lost, and the last tells so.
        lane.checker.check(batch.frame(BURST - 1)).unwrap();
        assert_eq!(lane.room(start), WINDOW);
        // Nothing comes any more.
        lane.stream.burst(BURST, |_| 0);
        let there_is = WINDOW - BURST as u64;
        assert_eq!([start, start + LATE].map(|now| lane.room(now)), [there_is; 2]);
        assert_eq!(lane.room(start + 2 * LATE), WINDOW);
        assert_eq!(lane.room(start + 2 * LATE), WINDOW);
    }

    #[test]
    fn an_echo_is_no_arrival() {
        let mut broadcasts = Broadcasts::new();
        let [first, second, third] = [0; 3].map(|_| broadcasts.next());
        assert!(broadcasts.arrived(&first, false) && broadcasts.arrived(&third, false));
        // The second is lost, and comes back from a front-end that received it; so does the third.
        assert!(broadcasts.arrived(&second, false) && broadcasts.arrived(&third, false));
        assert_eq!((broadcasts.sent, broadcasts.received, broadcasts.echoed), (3, 2, 2));
        // The next is lost, too, and its echo comes to both.
        let fourth = broadcasts.next();
        assert!(broadcasts.arrived(&fourth, true));
        assert_eq!((broadcasts.received, broadcasts.echoed), (2, 3));
        // Cut off, never sent, or none of these.
        let mut later = third;
        later[NUMBER_BYTES - 1] = 5;
        assert!(broadcasts.arrived(&first[..HEADER_BYTES], false) && broadcasts.arrived(&later, false));
        assert!(!broadcasts.arrived(&first[..13], false) && !broadcasts.arrived(&[0; 60], false));
        assert_eq!(broadcasts.received, 2);
    }
}
