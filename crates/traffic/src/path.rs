//! A path under test: what is sent into it, and what one trial on it says.
use std::time::Duration;

use crate::frames::{Access, Checker, Fields, SizeMix, Stream};
use crate::rig::{RigError, TestRig};
use crate::search::{Invalid, Load, Measured, TrialResult};
use crate::trial::{self, Lane, Plan, TrialOutcome};

/// What is sent, beside lengths and rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Headers of the frames from the first port; those of the other direction have them swapped.
    pub fields: Fields,
    /// Flows, dealt out to the queue pairs.
    pub flows: u16,
    /// What the receiver looks at.
    pub access: Access,
    /// Both directions at once.
    pub bidirectional: bool,
}

/// How the device under test is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One port; the device sends back what it gets.
    Loop,
    /// From the first port to the second.
    Through,
}

/// Ports, plugged in and up, and the device between them.
pub struct Path {
    rig: TestRig,
    topology: Topology,
    profile: Profile,
}

/// A path with frames of one mix on it.
pub struct Loaded<'p> {
    path: &'p mut Path,
    lanes: Vec<Lane>,
    /// What late frames are waited for after each trial.
    residual: Duration,
}

/// Frames that the generator may miss before a trial says nothing: one in ten thousand.
const MISSED_SHARE: u64 = 10_000;

impl Path {
    /// Over the rig's ports 0 and, unless it is a loop, 1.
    pub fn new(rig: TestRig, topology: Topology, profile: Profile) -> Self {
        Path { rig, topology, profile }
    }

    /// The rig, for what ports say of themselves.
    pub fn rig(&mut self) -> &mut TestRig {
        &mut self.rig
    }

    /// Lanes: number of directions in which frames go.
    pub fn directions(&self) -> u64 {
        if self.profile.bidirectional && self.topology == Topology::Through { 2 } else { 1 }
    }

    /// Puts frames of this mix on the path.
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
            .collect::<Result<_, _>>()
            .map_err(|source| RigError::System { what: "memory for the frames to send", source })?;
        Ok(Lane { from, to, streams, checker: Checker::new(fields, mix, flows, self.profile.access) })
    }
}

impl Loaded<'_> {
    /// Sends a little until it arrives: links come up, addresses are learned. False if nothing arrives.
    pub fn warm_up(&mut self, patience: Duration) -> Result<bool, RigError> {
        self.teach()?;
        trial::warm_up(&mut self.path.rig, &mut self.lanes, patience)
    }

    /// A learning switch has to hear each station once before frames to it go nowhere else.
    fn teach(&mut self) -> Result<(), RigError> {
        let Topology::Through = self.path.topology else { return Ok(()) };
        if self.path.directions() == 2 {
            return Ok(());
        }
        let forth = self.path.profile.fields;
        let back = Fields { source: forth.destination, destination: forth.source, ..forth };
        let mix = SizeMix::fixed(64).unwrap_or_else(|error| unreachable!("{error}"));
        let mut lanes = [self.path.lane(1, 0, &back, &mix)?];
        let plan = Plan {
            load: trial::Load::FramesPerSecond(1000.0),
            duration: Duration::from_millis(20),
            residual: Duration::from_millis(20),
            latency: false,
        };
        trial::run(&mut self.path.rig, &mut lanes, &plan).map(drop)
    }

    /// One trial at a load, over all directions together.
    pub fn trial(&mut self, load: Load, duration: Duration) -> Result<(Measured, TrialOutcome), RigError> {
        let each = load.frames_per_second() as f64 / self.lanes.len() as f64;
        let outcome = self.run(trial::Load::FramesPerSecond(each), duration, true)?;
        Ok((judge(&outcome), outcome))
    }

    /// One trial in which as much is sent as the device takes.
    pub fn maximum(&mut self, duration: Duration) -> Result<TrialOutcome, RigError> {
        self.run(trial::Load::Maximum, duration, false)
    }

    fn run(
        &mut self,
        load: trial::Load,
        duration: Duration,
        latency: bool,
    ) -> Result<TrialOutcome, RigError> {
        let plan = Plan { load, duration, residual: self.residual, latency };
        for Lane { streams, checker, .. } in &mut self.lanes {
            streams.iter().flat_map(Stream::next_by_flow).for_each(|(flow, next)| checker.begin(flow, next));
        }
        trial::run(&mut self.path.rig, &mut self.lanes, &plan)
    }
}

/// What a trial says about the device, if it says anything.
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
    // What the device had no room for when it was due is its loss, as it would be on a wire.
    let offered = sum(|lane| lane.sent + lane.refused);
    let received = sum(|lane| lane.tally.distinct);
    match TrialResult::new(offered, received.min(offered), Duration::from_nanos(outcome.sending_ns)) {
        Ok(result) => Measured::Valid(result),
        Err(_) => Measured::Invalid(Invalid::MissedRate { frames_due: scheduled, frames_sent: 0 }),
    }
}

/// How fast the generator is by itself: frames from port to port in memory, received by the same thread,
/// frames per second. A device that is tested must be slower by a margin, or it is the generator that is
/// measured.
pub fn loopback_frames_per_second(
    profile: Profile,
    mix: &SizeMix,
    duration: Duration,
) -> Result<f64, RigError> {
    let failed = |source| RigError::System { what: "memory for the loopback", source };
    let (one, other) = port::in_memory::InMemory::pair(1, Default::default()).map_err(failed)?;
    let mut rig = TestRig::new();
    rig.plug("loopback", Box::new(one))?;
    rig.plug("loopback", Box::new(other))?;
    let profile = Profile { bidirectional: false, ..profile };
    let mut path = Path::new(rig, Topology::Through, profile);
    let outcome = path.load(mix, Duration::ZERO)?.maximum(duration)?;
    let received: u64 = outcome.lanes.iter().map(|lane| lane.tally.distinct).sum();
    Ok(received as f64 * 1e9 / outcome.sending_ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        rig.plug("one", Box::new(one)).unwrap();
        rig.plug("other", Box::new(other)).unwrap();
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
    fn a_trial_of_a_disturbed_generator_says_nothing() {
        let mut path = path(1, false);
        let mut loaded = path.load(&SizeMix::fixed(64).unwrap(), Duration::from_secs(1)).unwrap();
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
    fn the_generator_knows_how_fast_it_is() {
        let mix = SizeMix::fixed(64).unwrap();
        assert!(loopback_frames_per_second(PROFILE(true), &mix, Duration::from_millis(20)).unwrap() > 0.0);
    }
}
