//! Checked traffic between two ends of a path: every frame that is missing must be accounted for.
use std::path::Path;
use std::time::{Duration, Instant};

use frame::Side;
use port::virtio_user::{VirtioUser, VirtioUserOptions};
use traffic::frames::{Access, Checker, Fields, FrameSize, SizeMix, Stream, Tally};
use traffic::rig::TestRig;
use traffic::trial::{Lane, Load, Plan, TrialOutcome, run, warm_up};
use virtio::net::MacAddress;

use super::SOON;

/// Flows through each queue pair; odd, so that their frames have no fixed place in a burst.
const FLOWS: u16 = 7;

/// The station at each end: `[A, B]`.
pub const STATIONS: [MacAddress; 2] = [MacAddress([2, 0, 0, 0, 0xa, 1]), MacAddress([2, 0, 0, 0, 0xb, 1])];

/// What the two ends are.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// Lengths of the frames from A, and of those from B. Different ones tell a frame that went astray.
    pub mixes: [&'a str; 2],
    /// Whom A and B address.
    pub to: [MacAddress; 2],
    pub queue_pairs: u16,
    pub mtu_bytes: Option<u16>,
}

impl Default for Shape<'_> {
    fn default() -> Self {
        let mixes = ["64x2+68x2+304x1+1004x1+1522x2", "66x2+69x2+305x1+1005x1+1521x2"];
        Shape { mixes, to: [STATIONS[1], STATIONS[0]], queue_pairs: 1, mtu_bytes: None }
    }
}

/// Two `virtio-user` drivers of this process, and the streams between them.
pub struct Ends {
    rig: TestRig,
    lanes: [Lane; 2],
    /// Frames that were sent by nothing in `lanes`.
    hellos: u64,
}

impl Ends {
    /// Plugs both ends in: whether an end waits for its back-end is said beside its socket.
    pub fn new(sockets: [(&Path, bool); 2], shape: &Shape<'_>) -> Self {
        let mut rig = TestRig::new();
        for (path, server) in sockets {
            let options = VirtioUserOptions {
                server,
                queue_pairs: shape.queue_pairs,
                mtu_bytes: shape.mtu_bytes,
                ..VirtioUserOptions::new(path)
            };
            rig.attach(&path.display().to_string(), Box::new(VirtioUser::new(options).unwrap())).unwrap();
        }
        let lanes = [(0, 1), (1, 0)].map(|(from, to)| {
            let fields = Fields {
                source: STATIONS[from],
                destination: shape.to[from],
                source_port: 1024 + 1000 * from as u16,
                ..Fields::default()
            };
            let mix: SizeMix = shape.mixes[from].parse().unwrap();
            let flows = |pair| pair * FLOWS..(pair + 1) * FLOWS;
            let stream = |pair| Stream::new(fields, &mix, flows(pair)).unwrap();
            Lane {
                from,
                to,
                streams: (0..shape.queue_pairs).map(stream).collect(),
                checker: Checker::new(&fields, &mix, FLOWS * shape.queue_pairs, Access::Payload),
            }
        });
        Ends { rig, lanes, hellos: 0 }
    }

    /// Waits until both ends are plugged in at the other side.
    pub fn wait_until_up(&mut self) {
        self.rig.wait_until_up(SOON).unwrap();
    }

    /// Each end sends a frame to itself: a switch that learns addresses then knows them, and sends the frame nowhere.
    pub fn introduce(&mut self) {
        for (end, station) in STATIONS.into_iter().enumerate() {
            let fields = Fields { source: station, destination: station, ..Fields::default() };
            let mut stream = Stream::new(fields, &SizeMix::fixed(FrameSize::MIN), 0..1).unwrap();
            let (batch, which) = stream.burst(1, |_| 0);
            self.rig.end(end).sinks().next().unwrap().accept(batch, which).unwrap();
            self.hellos += 1;
        }
    }

    /// Frames flow both ways until some came through; then as many as this in a second for so long.
    pub fn exchange(&mut self, frames_per_second: f64, duration: Duration) {
        self.warm_up();
        let outcome = self.send(frames_per_second, duration);
        for lane in &outcome.lanes {
            assert!(lane.sent > 0 && lane.tally.distinct > 0, "{lane:?}");
        }
    }

    /// Frames flow both ways until some came through.
    pub fn warm_up(&mut self) {
        assert!(
            warm_up(&mut self.rig, &mut self.lanes, SOON).unwrap(),
            "no frames come: {:?}",
            self.tallies()
        );
    }

    /// As many frames as this in a second for so long, both ways.
    pub fn send(&mut self, frames_per_second: f64, duration: Duration) -> TrialOutcome {
        let load = Load::FramesPerSecond(frames_per_second);
        let plan = Plan { load, duration, residual: Duration::from_millis(200), latency: false };
        run(&mut self.rig, &mut self.lanes, &plan).unwrap()
    }

    /// Frames sent so far, by end.
    pub fn sent(&self) -> [u64; 2] {
        [0, 1].map(|lane| self.lanes[lane].streams.iter().map(Stream::sent).sum())
    }

    /// What came, by the end that sent it.
    pub fn tallies(&self) -> [Tally; 2] {
        [0, 1].map(|lane| self.lanes[lane].checker.tally())
    }

    /// Frames that were sent and have not come, in both directions.
    pub fn missing(&self) -> i64 {
        let count = |lane: usize| self.sent()[lane] as i64 - self.tallies()[lane].distinct as i64;
        count(0) + count(1)
    }

    /// Receives until only frames are missing that `lost` explains, all of them counted on the way or by the ends
    /// themselves. Then checks that no frame was changed. Returns the loss.
    #[track_caller]
    pub fn account(&mut self, mut lost: impl FnMut() -> u64) -> u64 {
        let deadline = Instant::now() + Duration::from_secs(20);
        let only_receive = Plan {
            load: Load::FramesPerSecond(1.0),
            duration: Duration::ZERO,
            residual: Duration::ZERO,
            latency: false,
        };
        let explained = loop {
            for _ in 0..64 {
                run(&mut self.rig, &mut self.lanes, &only_receive).unwrap();
            }
            let explained = lost() + self.dropped_here();
            if self.missing() == explained as i64 {
                break explained;
            }
            assert!(
                Instant::now() < deadline,
                "{} frames are missing, {explained} drops are counted; sent {:?}, came {:#?}",
                self.missing(),
                self.sent(),
                self.tallies()
            );
        };
        for (sent, tally) in self.sent().into_iter().zip(self.tallies()) {
            let faults = (tally.altered, tally.doubled, tally.reordered, tally.stale);
            assert_eq!(faults, (0, 0, 0, 0), "altered, doubled, reordered, stale: {tally:?}");
            assert!(tally.distinct <= sent && tally.distinct > 0, "{tally:?} of {sent}");
        }
        explained
    }

    fn dropped_here(&self) -> u64 {
        let pairs = |end: usize| (0..self.rig.port(end).queue_pairs()).map(move |pair| (end, pair));
        let counters = [0, 1].into_iter().flat_map(pairs).flat_map(|(end, pair)| {
            [Side::FromGuest, Side::ToGuest].map(|side| self.rig.port(end).counters(pair, side))
        });
        counters.flatten().map(|counters| counters.counts().dropped()).sum()
    }

    /// What an end has agreed on.
    pub fn describe(&self, end: usize) -> String {
        self.rig.describe(end)
    }

    /// Frames that ends sent to themselves: the switch drops them.
    pub fn hellos(&self) -> u64 {
        self.hellos
    }
}
