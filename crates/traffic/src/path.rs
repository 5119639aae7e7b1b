//! A path under test: what is sent over it, and the result of one trial.
use std::ops::Range;
use std::time::Duration;

use crate::frames::{Access, Checker, Fields, SizeMix, Stream};
use crate::rig::{RigError, TestRig};
use crate::search::rfc2544::Burst;
use crate::search::{Invalid, Load, Measured, TrialResult};
use crate::trial::{self, Lane, Plan, TrialOutcome};

/// The properties of the sent frames, except lengths and rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Headers of the frames from the first port. Frames in the other direction have source and destination swapped.
    pub fields: Fields,
    /// The number of flows, which are distributed over the queue pairs.
    pub flows: u16,
    /// The part of each frame that the receiver reads.
    pub access: Access,
    /// Whether both directions are tested at once.
    pub bidirectional: bool,
}

/// How the device under test is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One port. The device sends back what it receives.
    Loop,
    /// From the first port to the second.
    Through,
}

/// Connected ports, and the device between them.
pub struct Path {
    rig: TestRig,
    topology: Topology,
    profile: Profile,
}

/// A path that is ready to send frames of one mix.
pub struct Loaded<'p> {
    path: &'p mut Path,
    lanes: Vec<Lane>,
    /// How long to wait for late frames after each trial.
    residual: Duration,
}

/// Frames that the generator may miss before a trial is invalid: one in a thousand.
const MISSED_SHARE: u64 = 1_000;

/// Bursts by which the generator's own rate is found, and the frames in each: as many as the smallest usual
/// ring holds.
const PROBES: u32 = 15;
const PROBE_FRAMES: u64 = 256;

/// By how much longer than planned a burst may take before it is invalid: a tenth, and what a look at the
/// clock and a round of the loop may be late.
const BURST_LATE: f64 = 0.1;
const BURST_LATE_LEAST: Duration = Duration::from_micros(10);

impl Path {
    /// A path over the rig's ports 0 and, unless the topology is a loop, 1.
    pub fn new(rig: TestRig, topology: Topology, profile: Profile) -> Self {
        Path { rig, topology, profile }
    }

    /// The rig, for descriptions of its ports.
    pub fn rig(&mut self) -> &mut TestRig {
        &mut self.rig
    }

    /// The number of directions in which frames go.
    pub fn directions(&self) -> u64 {
        if self.profile.bidirectional && self.topology == Topology::Through { 2 } else { 1 }
    }

    /// Prepares frames of this mix for the path. After each trial, late frames are waited for as long as `residual`.
    ///
    /// # Errors
    /// A frame of the mix is too short for a VLAN tag, or the memory for the frames is refused.
    pub fn load(&mut self, mix: &SizeMix, residual: Duration) -> Result<Loaded<'_>, RigError> {
        let forth = self.profile.fields;
        let back = Fields {
            source: forth.destination,
            destination: forth.source,
            source_ip: forth.destination_ip,
            destination_ip: forth.source_ip,
            ..forth
        };
        let mut lanes = vec![match self.topology {
            Topology::Loop => self.lane(0, 0, &forth, mix)?,
            Topology::Through => self.lane(0, 1, &forth, mix)?,
        }];
        if self.directions() == 2 {
            lanes.push(self.lane(1, 0, &back, mix)?);
        }
        Ok(Loaded { path: self, lanes, residual })
    }

    fn lane(&mut self, from: usize, to: usize, fields: &Fields, mix: &SizeMix) -> Result<Lane, RigError> {
        let pairs = self.rig.end(from).sinks().count().max(1) as u16;
        let flows = self.profile.flows.max(pairs);
        let share = |pair: u16| (u32::from(flows) * u32::from(pair) / u32::from(pairs)) as u16;
        let streams = (0..pairs)
            .map(|pair| Stream::new(*fields, mix, share(pair)..share(pair + 1)))
            .collect::<Result<_, _>>()?;
        Ok(Lane { from, to, streams, checker: Checker::new(fields, mix, flows, self.profile.access) })
    }
}

impl Loaded<'_> {
    /// Sends a few frames at a time until a whole burst arrives in each direction, so that links are up and addresses
    /// are learned. Returns false if that does not happen within `patience`.
    ///
    /// # Errors
    /// A queue of a port stopped, the port's control side failed, or the run was interrupted. The memory for frames
    /// in the other direction is refused.
    pub fn warm_up(&mut self, patience: Duration) -> Result<bool, RigError> {
        self.teach()?;
        trial::warm_up(&mut self.path.rig, &mut self.lanes, patience)
    }

    /// Sends some frames from the receiving station: a learning switch floods frames to a station that it has not
    /// seen.
    fn teach(&mut self) -> Result<(), RigError> {
        let Topology::Through = self.path.topology else { return Ok(()) };
        if self.path.directions() == 2 {
            return Ok(());
        }
        let forth = self.path.profile.fields;
        let back = Fields { source: forth.destination, destination: forth.source, ..forth };
        let mix = SizeMix::fixed(back.shortest());
        let mut lanes = [self.path.lane(1, 0, &back, &mix)?];
        let plan = Plan {
            load: trial::Load::FramesPerSecond(1000.0),
            duration: Duration::from_millis(20),
            residual: Duration::from_millis(20),
            latency: false,
        };
        trial::run(&mut self.path.rig, &mut lanes, &plan).map(drop)
    }

    /// Runs one trial at a load, which is divided equally among all directions.
    ///
    /// # Errors
    /// A queue of a port stopped, the port's control side failed, or the run was interrupted.
    pub fn trial(&mut self, load: Load, duration: Duration) -> Result<(Measured, TrialOutcome), RigError> {
        let each = load.frames_per_second() as f64 / self.lanes.len() as f64;
        let outcome = self.run(trial::Load::FramesPerSecond(each), duration, true)?;
        Ok((judge(&outcome), outcome))
    }

    /// Runs one trial that sends as much as the device takes.
    ///
    /// # Errors
    /// A queue of a port stopped, the port's control side failed, or the run was interrupted.
    pub fn maximum(&mut self, duration: Duration) -> Result<TrialOutcome, RigError> {
        self.run(trial::Load::Maximum, duration, false)
    }

    /// Sends one burst in the first direction. If frames were lost, waits for the residual time, so that the device's
    /// buffers are empty before the next burst. If all frames came back, the buffers are empty at once.
    ///
    /// # Errors
    /// A queue of a port stopped, the port's control side failed, or the run was interrupted.
    pub fn burst(&mut self, burst: Burst, rate: Load) -> Result<(Measured, TrialOutcome), RigError> {
        let frames_per_second = Some(rate.frames_per_second() as f64);
        let load = trial::Load::Burst { frames: burst.frames(), frames_per_second };
        let planned = rate.time_for(burst.frames());
        // The end of the slots or, for a late generator, some time after it: the outcome shows the lateness.
        let limit = planned * 2 + Duration::from_millis(10);
        let outcome = self.run_lanes(0..1, load, limit, false)?;
        Ok((judge_burst(&outcome, planned), outcome))
    }

    /// The rate at which the generator can pass frames to an idle device, in frames per second in the first
    /// direction: the median of 15 short bursts. `None` if no frame was accepted.
    ///
    /// # Errors
    /// A queue of a port stopped, the port's control side failed, or the run was interrupted.
    pub fn burst_rate(&mut self) -> Result<Option<f64>, RigError> {
        let load = trial::Load::Burst { frames: PROBE_FRAMES, frames_per_second: None };
        let mut rates = Vec::new();
        for _ in 0..PROBES {
            let outcome = self.run_lanes(0..1, load, Duration::from_millis(100), false)?;
            let sent: u64 = outcome.lanes.iter().map(|lane| lane.sent).sum();
            if sent > 0 {
                rates.push(sent as f64 * 1e9 / outcome.sending_ns.max(1) as f64);
            }
        }
        Ok(measure::statistics::median(&rates))
    }

    fn run(
        &mut self,
        load: trial::Load,
        duration: Duration,
        latency: bool,
    ) -> Result<TrialOutcome, RigError> {
        self.run_lanes(0..self.lanes.len(), load, duration, latency)
    }

    fn run_lanes(
        &mut self,
        which: Range<usize>,
        load: trial::Load,
        duration: Duration,
        latency: bool,
    ) -> Result<TrialOutcome, RigError> {
        let plan = Plan { load, duration, residual: self.residual, latency };
        let lanes = &mut self.lanes[which];
        for Lane { streams, checker, .. } in lanes.iter_mut() {
            streams.iter().flat_map(Stream::next_by_flow).for_each(|(flow, next)| checker.begin(flow, next));
        }
        trial::run(&mut self.path.rig, lanes, &plan)
    }
}

/// The result of a trial, or why the trial is invalid.
pub fn judge(outcome: &TrialOutcome) -> Measured {
    let sum = |of: fn(&trial::LaneOutcome) -> u64| outcome.lanes.iter().map(of).sum::<u64>();
    let (scheduled, missed) = (sum(|lane| lane.scheduled), sum(|lane| lane.missed));
    if outcome.noise.steal_ns > 0 {
        return Measured::Invalid(Invalid::Preempted);
    }
    if missed > scheduled / MISSED_SHARE {
        let reason = match outcome.noise.involuntary_switches {
            0 => Invalid::MissedRate { frames_due: scheduled, frames_sent: scheduled - missed },
            _ => Invalid::Preempted,
        };
        return Measured::Invalid(reason);
    }
    counted(outcome)
}

/// The result of a burst. It is invalid unless every frame was offered in the planned time. A slower burst fits into
/// buffers for which the planned one is too long.
pub fn judge_burst(outcome: &TrialOutcome, planned: Duration) -> Measured {
    let sum = |of: fn(&trial::LaneOutcome) -> u64| outcome.lanes.iter().map(of).sum::<u64>();
    let latest = planned.mul_f64(1.0 + BURST_LATE) + BURST_LATE_LEAST;
    let missed = sum(|lane| lane.missed);
    if outcome.noise.steal_ns > 0 {
        return Measured::Invalid(Invalid::Preempted);
    }
    if missed > 0 || Duration::from_nanos(outcome.sending_ns) > latest {
        let frames_due = sum(|lane| lane.scheduled);
        // In time, at the rate at which it went.
        let in_time = planned.as_nanos() as f64 / outcome.sending_ns.max(1) as f64;
        let frames_sent = ((frames_due - missed) as f64 * in_time.min(1.0)) as u64;
        return Measured::Invalid(match outcome.noise.involuntary_switches {
            0 => Invalid::MissedRate { frames_due, frames_sent },
            _ => Invalid::Preempted,
        });
    }
    counted(outcome)
}

/// The offered and the received frames of a trial.
fn counted(outcome: &TrialOutcome) -> Measured {
    let sum = |of: fn(&trial::LaneOutcome) -> u64| outcome.lanes.iter().map(of).sum::<u64>();
    // Frames for which the device had no room when they were due are its loss, as on a wire.
    let offered = sum(|lane| lane.sent + lane.refused);
    let received = sum(|lane| lane.tally.distinct);
    match TrialResult::new(offered, received.min(offered), Duration::from_nanos(outcome.sending_ns)) {
        Ok(result) => Measured::Valid(result),
        Err(_) => {
            let frames_due = sum(|lane| lane.scheduled);
            Measured::Invalid(Invalid::MissedRate { frames_due, frames_sent: 0 })
        }
    }
}

/// How fast the generator is by itself, in frames per second: it sends frames between two ports in memory and
/// receives them on the same thread. A device under test must be slower by a margin. Otherwise the result measures
/// the generator.
///
/// # Errors
/// The memory or an eventfd for the ports is refused, the frames cannot be made ([`Path::load`]), or a port fails.
pub fn loopback_frames_per_second(
    profile: Profile,
    mix: &SizeMix,
    duration: Duration,
) -> Result<f64, RigError> {
    let failed = |source| RigError::System { what: "connect two ports in memory", source };
    let (one, other) = port::in_memory::InMemory::pair(1, Default::default()).map_err(failed)?;
    let mut rig = TestRig::new();
    rig.attach("loopback", Box::new(one))?;
    rig.attach("loopback", Box::new(other))?;
    let profile = Profile { bidirectional: false, ..profile };
    let mut path = Path::new(rig, Topology::Through, profile);
    let outcome = path.load(mix, Duration::ZERO)?.maximum(duration)?;
    let received: u64 = outcome.lanes.iter().map(|lane| lane.tally.distinct).sum();
    Ok(received as f64 * 1e9 / outcome.sending_ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::FrameSize;

    const PROFILE: fn(bool) -> Profile = |bidirectional| Profile {
        fields: Fields {
            source: virtio::net::MacAddress([2, 0, 0, 0, 0, 1]),
            destination: virtio::net::MacAddress([2, 0, 0, 0, 0, 2]),
            vlan: None,
            source_ip: std::net::Ipv4Addr::new(198, 18, 0, 1),
            destination_ip: std::net::Ipv4Addr::new(198, 19, 0, 1),
            source_port: 1024,
            destination_port: 7,
        },
        flows: 5,
        access: Access::Payload,
        bidirectional,
    };

    fn path(pairs: u16, bidirectional: bool) -> Path {
        let (one, other) = port::in_memory::InMemory::pair(pairs, Default::default()).unwrap();
        let mut rig = TestRig::new();
        rig.attach("one", Box::new(one)).unwrap();
        rig.attach("other", Box::new(other)).unwrap();
        Path::new(rig, Topology::Through, PROFILE(bidirectional))
    }

    #[test]
    fn frames_arrive_over_every_pair_and_direction() {
        for (pairs, bidirectional) in [(1, false), (1, true), (3, false), (2, true)] {
            let mut path = path(pairs, bidirectional);
            let mut loaded = path.load(&"64x3+1518x1".parse().unwrap(), Duration::from_secs(1)).unwrap();
            assert!(loaded.warm_up(Duration::from_secs(5)).unwrap());
            let (_, outcome) = loaded.trial(Load::new(20_000).unwrap(), Duration::from_millis(100)).unwrap();
            for lane in &outcome.lanes {
                let tally = lane.tally;
                assert_eq!((tally.distinct, tally.altered, tally.reordered), (lane.sent, 0, 0), "{lane:?}");
                assert!(lane.sent > 0 && lane.sent + lane.missed <= lane.scheduled);
            }
        }
    }

    #[test]
    fn frames_too_short_for_a_tag_are_no_matter_of_memory() {
        let mut path = path(1, false);
        path.profile.fields.vlan = Some(1);
        let Err(refused) = path.load(&SizeMix::fixed(FrameSize::MIN), Duration::ZERO) else {
            panic!("64 bytes")
        };
        let text = refused.to_string();
        assert!(text.starts_with("frames with a VLAN tag need 68 bytes"), "{text}");
    }

    #[test]
    fn a_trial_of_a_disturbed_generator_says_nothing() {
        let mut path = path(1, false);
        let mut loaded = path.load(&SizeMix::fixed(FrameSize::MIN), Duration::from_secs(1)).unwrap();
        let (_, mut outcome) = loaded.trial(Load::new(1000).unwrap(), Duration::from_millis(50)).unwrap();
        outcome.noise = Default::default();
        (outcome.lanes[0].missed, outcome.lanes[0].refused) = (0, 0);
        let result = judge(&outcome);
        let result = result.valid().unwrap();
        assert_eq!((result.frames_offered(), result.frames_lost()), (outcome.lanes[0].sent, 0));
        outcome.lanes[0].refused = 7;
        assert_eq!(judge(&outcome).valid().unwrap().frames_lost(), 7, "no room is the device's loss");
        outcome.lanes[0].missed = outcome.lanes[0].scheduled;
        assert!(matches!(judge(&outcome), Measured::Invalid(Invalid::MissedRate { .. })));
        outcome.noise.involuntary_switches = 1;
        assert_eq!(judge(&outcome), Measured::Invalid(Invalid::Preempted));
        outcome.lanes[0].missed = 0;
        assert!(judge(&outcome).valid().is_some());
        outcome.noise.steal_ns = 1;
        assert_eq!(judge(&outcome), Measured::Invalid(Invalid::Preempted));
    }

    #[test]
    fn a_wait_for_late_frames_is_interrupted() {
        let mut path = path(1, false);
        path.rig().stop_when(|| true);
        let mut loaded = path.load(&SizeMix::fixed(FrameSize::MIN), Duration::from_secs(2)).unwrap();
        // Frames that are sent to the other port do not come back.
        loaded.lanes[0].to = 0;
        let burst = loaded.burst(Burst::new(1).unwrap(), Load::new(50_000).unwrap());
        assert!(matches!(burst, Err(RigError::Interrupted)), "{burst:?}");
    }

    #[test]
    fn a_burst_is_as_many_frames_as_asked_and_goes_the_first_way_only() {
        for pairs in [1, 3] {
            let mut path = path(pairs, true);
            let mut loaded = path.load(&SizeMix::fixed(FrameSize::MIN), Duration::from_secs(1)).unwrap();
            for frames in [1, 31, 32, 33, 100] {
                let burst = Burst::new(frames).unwrap();
                let rate = Load::new(50_000).unwrap();
                // A burst whose thread lost its CPU until after the end of the slots has not sent all frames, and says
                // so.
                let outcome = (0..1000).find_map(|_| {
                    let (measured, outcome) = loaded.burst(burst, rate).unwrap();
                    measured.valid().map(|_| outcome)
                });
                let outcome = outcome.expect("one undisturbed burst");
                let [lane] = &outcome.lanes[..] else { panic!("{outcome:?}") };
                assert_eq!(lane.scheduled, frames, "{lane:?}");
                assert_eq!(lane.tally.distinct, lane.sent, "{lane:?}");
            }
            assert!(loaded.burst_rate().unwrap().unwrap() > 0.0);
        }
    }

    #[test]
    fn a_burst_that_was_late_or_not_whole_says_nothing() {
        let mut path = path(1, false);
        let mut loaded = path.load(&SizeMix::fixed(FrameSize::MIN), Duration::from_secs(1)).unwrap();
        let (burst, rate) = (Burst::new(100).unwrap(), Load::new(100_000).unwrap());
        let (_, mut outcome) = loaded.burst(burst, rate).unwrap();
        let planned = Duration::from_millis(1);
        outcome.noise = Default::default();
        let lane = &mut outcome.lanes[0];
        (lane.sent, lane.refused, lane.missed, lane.tally.distinct) = (90, 10, 0, 90);
        lane.scheduled = 100;
        outcome.sending_ns = 1_000_000;
        assert_eq!(judge_burst(&outcome, planned).valid().unwrap().frames_lost(), 10, "no room is loss");
        outcome.sending_ns = 1_200_000;
        let late = Measured::Invalid(Invalid::MissedRate { frames_due: 100, frames_sent: 83 });
        assert_eq!(judge_burst(&outcome, planned), late);
        outcome.noise.involuntary_switches = 1;
        assert_eq!(judge_burst(&outcome, planned), Measured::Invalid(Invalid::Preempted));
        (outcome.sending_ns, outcome.lanes[0].missed) = (1_000_000, 1);
        assert_eq!(judge_burst(&outcome, planned), Measured::Invalid(Invalid::Preempted));
        outcome.lanes[0].missed = 0;
        assert!(judge_burst(&outcome, planned).valid().is_some());
        outcome.noise.steal_ns = 1;
        assert_eq!(judge_burst(&outcome, planned), Measured::Invalid(Invalid::Preempted));
    }

    #[test]
    fn latency_beyond_the_generators_own_limit_is_told_to_be_its_own() {
        let mut path = path(1, false);
        let mut loaded = path.load(&SizeMix::fixed(FrameSize::MIN), Duration::from_millis(100)).unwrap();
        // No generator sends a frame each nanosecond: it is late by up to a millisecond all the time.
        let (_, outcome) =
            loaded.trial(Load::new(1_000_000_000).unwrap(), Duration::from_millis(20)).unwrap();
        let lane = &outcome.lanes[0];
        assert_eq!(lane.lateness.count(), lane.sent);
        assert!(lane.lateness.median_ns() <= lane.latency.max_ns(), "{lane:?}");
        assert!(trial::is_late(&lane.latency, &lane.lateness), "{lane:?}");
    }

    #[test]
    fn the_generator_knows_how_fast_it_is() {
        let mix = SizeMix::fixed(FrameSize::MIN);
        assert!(loopback_frames_per_second(PROFILE(true), &mix, Duration::from_millis(20)).unwrap() > 0.0);
    }
}
