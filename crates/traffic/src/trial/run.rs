//! The loop that sends and receives.
use std::time::Duration;

use frame::{QueueError, Side};
use measure::{Histogram, Noise, NoiseProbe, Preemption};

use super::clock::Clock;
use super::pace::Pace;
use crate::frames::{Checker, Stream, Tally};
use crate::rig::{RigError, TestRig};

/// Frames handled at a time: what a burst costs whatever its length (two barriers that wait for its stores, a look
/// at the clock) is a tenth of a generator's time with half as many.
const BURST: usize = 64;

/// A generator that has more than this many frames to send at once has been kept from sending them.
const KEPT_FROM_SENDING: u64 = BURST as u64;

/// A generator that was late by N frames is catching up for at most this many times N further frames: in that time a
/// device that is an eighth faster than the load empties its queue.
const MAKING_UP: u64 = 8;

/// How often the ports' control sides are looked after while frames flow.
const CONTROL_INTERVAL_NS: u64 = 100_000_000;

/// The rate at which frames are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// By a schedule, frames per second on each lane.
    FramesPerSecond(f64),
    /// As fast as the device takes them: frames are offered only if it has room.
    Maximum,
    /// A fixed number of frames per lane. The trial ends with the last of them, or after its duration.
    Burst {
        /// The number of frames, at least one.
        frames: u64,
        /// The rate of the schedule; `None` for the rate of [`Load::Maximum`].
        frames_per_second: Option<f64>,
    },
}

/// The plan of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// The load on each lane.
    pub load: Load,
    /// How long frames are sent.
    pub duration: Duration,
    /// How long to wait for late frames (RFC 2544 §23: 2 s). The wait ends earlier once no frame is missing.
    pub residual: Duration,
    /// Whether latencies are recorded, which needs a clock reading for each burst.
    pub latency: bool,
}

/// One direction: the sending end, its frames, and the receiving end.
#[derive(Debug)]
pub struct Lane {
    /// The number in the rig of the end that sends.
    pub from: usize,
    /// The number of the end that receives; the same if the device reflects.
    pub to: usize,
    /// One stream for each queue pair of the sender.
    pub streams: Vec<Stream>,
    /// Checks the received frames.
    pub checker: Checker,
}

/// The counts of one lane's frames.
#[derive(Clone, Debug)]
pub struct LaneOutcome {
    /// Frames that were due by the schedule.
    pub scheduled: u64,
    /// Frames that the device accepted.
    pub sent: u64,
    /// Frames that were due when the device had no room, which is a loss of the device.
    pub refused: u64,
    /// Frames for which the generator itself was too late, or for which the device had no room while the generator
    /// made up for lateness. They are not the device's loss, but too many of them make the trial invalid.
    pub missed: u64,
    /// What arrived.
    pub tally: Tally,
    /// The time from when a frame was due to when it was received.
    pub latency: Histogram,
    /// The time from when a frame was due to when it was sent, which is the generator's own part of the latency.
    pub lateness: Histogram,
}

/// Whether the generator lags behind its schedule: at the median or at the 99th percentile, half of the latency or
/// more is its own lateness. Such a latency is no figure of the device.
pub fn is_late(latency: &Histogram, lateness: &Histogram) -> bool {
    let own = |quantile| lateness.quantile_ns(quantile).saturating_mul(2) >= latency.quantile_ns(quantile);
    lateness.count() > 0 && latency.count() > 0 && (own(0.5) || own(0.99))
}

/// The result of a trial.
#[derive(Clone, Debug)]
pub struct TrialOutcome {
    /// The outcome of each lane.
    pub lanes: Vec<LaneOutcome>,
    /// The time from the first frame due to the last one sent.
    pub sending_ns: u64,
    /// Rounds of the loop in which something was sent or received.
    pub busy_polls: u64,
    /// Rounds in which nothing was sent or received.
    pub idle_polls: u64,
    /// The noise during the trial.
    pub noise: Noise,
}

/// Runs one trial; the ports must be up.
///
/// # Errors
/// A queue of a port stopped, the port's control side failed, or the run was interrupted.
pub fn run(rig: &mut TestRig, lanes: &mut [Lane], plan: &Plan) -> Result<TrialOutcome, RigError> {
    let probe = NoiseProbe::start(Preemption::OfThread);
    let before: Vec<Tally> = lanes.iter().map(|lane| lane.checker.tally()).collect();
    let mut state: Vec<LaneState> = lanes.iter().map(|_| LaneState::new(plan.load, plan.latency)).collect();
    let end_ns = plan.duration.as_nanos() as u64;
    let (mut busy_polls, mut idle_polls) = (0, 0);
    let clock = Clock::start();
    let mut control_ns = CONTROL_INTERVAL_NS;
    let sending_ns = loop {
        let now_ns = clock.now_ns();
        if now_ns >= end_ns || state.iter().all(|state| state.left == 0) {
            break now_ns;
        }
        let mut moved = false;
        for (lane, state) in lanes.iter_mut().zip(&mut state) {
            moved |= send(rig, lane, state, now_ns)?;
            moved |= receive(rig, lane, state, plan.latency.then_some(clock))?;
        }
        if moved {
            busy_polls += 1
        } else {
            idle_polls += 1
        }
        if now_ns >= control_ns {
            rig.attend(Duration::ZERO)?;
            control_ns = now_ns + CONTROL_INTERVAL_NS;
        }
    };
    let noise = probe.finish();
    let residual_ns = sending_ns + plan.residual.as_nanos() as u64;
    loop {
        for (lane, state) in lanes.iter_mut().zip(&mut state) {
            receive(rig, lane, state, plan.latency.then_some(clock))?;
        }
        let all = lanes.iter().zip(&state).zip(&before).all(|((lane, state), before)| {
            lane.checker.tally().distinct - before.distinct >= state.outcome.sent
        });
        let now_ns = clock.now_ns();
        if all || now_ns >= residual_ns {
            break;
        }
        if now_ns >= control_ns {
            rig.attend(Duration::ZERO)?;
            control_ns = now_ns + CONTROL_INTERVAL_NS;
        }
    }
    let outcomes = lanes.iter().zip(state).zip(&before).map(|((lane, state), before)| LaneOutcome {
        tally: lane.checker.tally() - *before,
        scheduled: state.outcome.sent + state.outcome.refused + state.outcome.missed,
        ..state.outcome
    });
    Ok(TrialOutcome { lanes: outcomes.collect(), sending_ns, busy_polls, idle_polls, noise })
}

/// Sends a few frames at a time until a whole burst arrives on every lane, so that links are up and addresses are
/// learned (RFC 2544 §23). Returns false if some lane is still incomplete after `patience`.
///
/// # Errors
/// A queue of a port stopped, the port's control side failed, or the run was interrupted.
pub fn warm_up(rig: &mut TestRig, lanes: &mut [Lane], patience: Duration) -> Result<bool, RigError> {
    let plan = Plan {
        load: Load::FramesPerSecond(1000.0),
        duration: Duration::from_millis(20),
        residual: Duration::from_millis(20),
        latency: false,
    };
    let begin = std::time::Instant::now();
    loop {
        let outcome = run(rig, lanes, &plan)?;
        // Whole bursts, so that nothing of this is still on its way when the trial begins.
        if outcome.lanes.iter().all(|lane| lane.sent > 0 && lane.tally.distinct >= lane.sent) {
            return Ok(true);
        }
        if begin.elapsed() >= patience {
            return Ok(false);
        }
        rig.attend(Duration::ZERO)?;
    }
}

struct LaneState {
    load: Load,
    pace: Option<Pace>,
    /// Frames of a burst that are still to be sent; the maximum if there is no limit.
    left: u64,
    /// Frames with which the generator still makes up for having been late.
    making_up: u64,
    /// The most room that was seen so far.
    most_room: usize,
    /// Whether latencies are recorded.
    latency: bool,
    next_stream: usize,
    outcome: LaneOutcome,
}

impl LaneState {
    fn new(load: Load, latency: bool) -> Self {
        let (pace, left) = match load {
            Load::FramesPerSecond(rate) => (Some(Pace::new(rate)), u64::MAX),
            Load::Maximum => (None, u64::MAX),
            Load::Burst { frames, frames_per_second } => (frames_per_second.map(Pace::new), frames),
        };
        let outcome = LaneOutcome {
            scheduled: 0,
            sent: 0,
            refused: 0,
            missed: 0,
            tally: Tally::default(),
            latency: Histogram::new(),
            lateness: Histogram::new(),
        };
        LaneState { load, pace, left, making_up: 0, most_room: 0, latency, next_stream: 0, outcome }
    }

    /// Notes that the generator has `behind` frames to send, and that there is room for `room` frames.
    ///
    /// A generator that was late sends the due frames faster than any wire would. This lasts until the device has
    /// caught up as well.
    #[inline(always)]
    fn look(&mut self, behind: u64, room: usize) {
        self.most_room = self.most_room.max(room);
        if behind > KEPT_FROM_SENDING {
            self.making_up = self.making_up.max(MAKING_UP * behind);
        } else if room >= self.most_room / 2 {
            self.making_up = 0;
        }
    }

    /// The number of due frames to send now: at most as many as a queue holds. Frames that are sent later are not lost.
    #[inline(always)]
    fn at_once(&self, due: usize) -> usize {
        if self.most_room > 0 { due.min(self.most_room) } else { due }
    }

    /// Counts frames that were due, and `refused` frames of them for which the device had no room.
    ///
    /// Refused frames are lost to the device, as on a wire. While the generator makes up for its own delay, refused
    /// frames do not count as lost: no wire would have sent so many frames at once. A burst that was delayed is invalid
    /// as a whole.
    #[inline(always)]
    fn sent(&mut self, due: u64, refused: u64) {
        if self.making_up > 0 && matches!(self.load, Load::FramesPerSecond(_)) {
            self.outcome.missed += refused;
        } else {
            self.outcome.refused += refused;
        }
        self.making_up = self.making_up.saturating_sub(due);
    }
}

/// Sends one burst of the frames that are due. Returns whether any frame was sent.
#[inline]
fn send(rig: &mut TestRig, lane: &mut Lane, state: &mut LaneState, now_ns: u64) -> Result<bool, RigError> {
    let behind = match &mut state.pace {
        None => BURST as u64,
        Some(pace) => {
            let (due, missed) = pace.due(now_ns);
            let missed = missed.min(state.left);
            state.outcome.missed += missed;
            state.left -= missed;
            due
        }
    };
    let due = behind.min(state.left).min(BURST as u64) as usize;
    if due == 0 {
        return Ok(false);
    }
    let index = state.next_stream;
    state.next_stream = if index + 1 >= lane.streams.len() { 0 } else { index + 1 };
    let Some((pair, sink)) = rig.end(lane.from).numbered_sink(index) else { return Ok(false) };
    let room = sink.room();
    state.look(behind, room);
    let due = state.at_once(due);
    let room = room.min(due);
    let mut accepted = Ok(());
    if room > 0 {
        let due_ns = |i: usize| state.pace.as_ref().map_or(now_ns, |pace| pace.due_ns(i));
        let (batch, which) = lane.streams[index].burst(room, due_ns);
        accepted = sink.accept(batch, which);
    }
    if let Some(pace) = &mut state.pace {
        if state.latency && room > 0 {
            // The lateness of the burst's middle frame stands for all of it.
            let late_ns = now_ns.saturating_sub(pace.due_ns(room / 2));
            state.outcome.lateness.record_many_ns(late_ns, room as u64);
        }
        pace.did(due as u64);
        state.sent(due as u64, (due - room) as u64);
    }
    state.outcome.sent += room as u64;
    state.left -= if state.pace.is_some() { due as u64 } else { room as u64 };
    accepted.map_err(|why| rig.stopped(lane.from, pair, Side::ToGuest, why))?;
    Ok(room > 0)
}

/// Receives one burst from each queue. Returns whether any frame was received.
#[inline]
fn receive(
    rig: &mut TestRig,
    lane: &mut Lane,
    state: &mut LaneState,
    clock: Option<Clock>,
) -> Result<bool, RigError> {
    let mut failed: Option<(u16, QueueError)> = None;
    let mut moved = false;
    for (pair, source) in rig.end(lane.to).numbered_sources() {
        match source.rx_burst(BURST) {
            Ok(batch) if !batch.is_empty() => {
                let now_ns = clock.map(Clock::now_ns);
                for frame in batch.frames() {
                    let stamp = lane.checker.check(frame);
                    if let (Some(stamp), Some(now_ns)) = (stamp, now_ns) {
                        state.outcome.latency.record_ns(now_ns.saturating_sub(stamp.due_ns));
                    }
                }
                moved = true;
            }
            Ok(_) => {}
            Err(error) => {
                failed = Some((pair, error));
                continue;
            }
        }
        if source.needs_release() {
            source.release();
        }
    }
    match failed {
        None => Ok(moved),
        Some((pair, why)) => Err(rig.stopped(lane.to, pair, Side::FromGuest, why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_room_is_the_devices_loss_unless_the_generator_was_late() {
        let of = |load, behind| {
            let mut state = LaneState::new(load, false);
            state.look(behind, 0);
            state.sent(32, 7);
            (state.outcome.refused, state.outcome.missed)
        };
        let burst = Load::Burst { frames: 100, frames_per_second: Some(1e6) };
        assert_eq!(of(Load::FramesPerSecond(1e6), KEPT_FROM_SENDING), (7, 0));
        assert_eq!(of(Load::FramesPerSecond(1e6), KEPT_FROM_SENDING + 1), (0, 7));
        assert_eq!(of(burst, KEPT_FROM_SENDING + 1), (7, 0));
    }

    #[test]
    fn a_small_queue_loses_nothing_by_being_small() {
        let mut state = LaneState::new(Load::FramesPerSecond(1e6), false);
        assert_eq!(state.at_once(50), 50, "a device that never had room loses all");
        state.look(50, 32);
        assert_eq!(state.at_once(50), 32);
        state.look(50, 7);
        assert_eq!(state.at_once(50), 32, "a full one is the device's doing");
    }

    #[test]
    fn a_generator_makes_up_until_the_device_has_caught_up_and_not_for_ever() {
        let late = || {
            let mut state = LaneState::new(Load::FramesPerSecond(1e6), false);
            state.look(10, 256);
            state.look(100, 40);
            state.sent(32, 0);
            state
        };
        // In time again, and the ring is still full of what was sent at once.
        let mut state = late();
        state.look(5, 3);
        state.sent(5, 2);
        assert_eq!((state.outcome.refused, state.outcome.missed), (0, 2));
        // The queue has been half empty: from now on, a frame without room counts as refused.
        state.look(5, 128);
        state.sent(5, 0);
        state.look(5, 3);
        state.sent(5, 2);
        assert_eq!((state.outcome.refused, state.outcome.missed), (2, 2));
        // A device that is too slow for the load does not catch up.
        let mut state = late();
        for _ in 0..1000 {
            state.look(5, 4);
            state.sent(5, 1);
        }
        let missed = (800 - 32u64).div_ceil(5);
        assert_eq!((state.outcome.refused, state.outcome.missed), (1000 - missed, missed));
    }

    #[test]
    fn half_a_latency_or_more_that_is_the_generators_own_is_late() {
        let of = |all: &[(u64, u64)]| {
            let mut histogram = Histogram::new();
            all.iter().for_each(|&(ns, count)| histogram.record_many_ns(ns, count));
            histogram
        };
        let latency = of(&[(10_000, 980), (100_000, 20)]);
        assert!(!is_late(&latency, &of(&[(4_000, 980), (40_000, 20)])));
        assert!(is_late(&latency, &of(&[(6_000, 1000)])), "half of the median");
        assert!(is_late(&latency, &of(&[(4_000, 980), (60_000, 20)])), "half of what the slowest took");
        assert!(!is_late(&latency, &of(&[(4_000, 995), (900_000, 5)])), "too few to be seen at 99 %");
        assert!(!is_late(&latency, &Histogram::new()), "nothing was sent by a schedule");
    }
}
