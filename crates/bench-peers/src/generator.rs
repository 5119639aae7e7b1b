//! The same systems driven by the project's own generator: every frame is stamped, and verified to its last
//! byte when it comes back, so that loss is known.
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use nix::sched::{CloneFlags, setns};
use peers::netns::TapQueues;
use peers::{Bridge, Netns, Pages};
use port::tap::{Tap, TapOptions};
use port::virtio_user::VirtioUser;
use traffic::frames::{Access, Checker, Fields, FrameSize, SizeMix, Stream};
use traffic::path::judge;
use traffic::rig::TestRig;
use traffic::search::{Budget, Load, Measured, SearchRange, Fraction, Verification, kept, tst009};
use traffic::trial::{Lane, Load as Offered, Plan, TrialOutcome, run, warm_up};

use crate::cell::{RingPath, Topology};
use crate::device::{ADDRESSES, Device};
use crate::usage::Usage;

const FLOWS: u16 = 8;

/// Trials that must all lose before a load is one that loses: a pause of the machine loses frames at any load.
const VERIFICATIONS: u32 = 5;

/// Trials of a latency until the generator was in time.
const LATENCY_TRIES: u32 = 5;

/// Our generator at a system's ports.
pub struct Generator {
    rig: TestRig,
    lanes: Vec<Lane>,
    /// What a round of the generator costs in which nothing is sent and nothing comes.
    idle_poll_ns: f64,
}

/// What came through in one trial.
pub struct Passed {
    pub frames_per_second: f64,
    pub usage: Usage,
}

impl Generator {
    /// Connects to all ports of the device, and waits until frames come through: the device moves frames.
    pub fn connect(device: &Device, path: RingPath, entries: u16, pages: Pages) -> anyhow::Result<Self> {
        let mut rig = TestRig::new();
        for socket in &device.sockets {
            rig.plug(device.system.name(), Box::new(VirtioUser::new(path.options(socket, entries, pages))?))?;
        }
        rig.wait_until_up(crate::PATIENCE)?;
        Ok(Generator { rig, lanes: Vec::new(), idle_poll_ns: f64::INFINITY })
    }

    /// Opens two TAPs that are made for it in the bridge.
    pub fn over_bridge(bridge: &Bridge) -> anyhow::Result<Self> {
        let names = ["tap0", "tap1"];
        for name in names {
            bridge.tap(name, TapQueues::One)?;
        }
        let rig = inside(bridge.namespace(), || {
            let mut rig = TestRig::new();
            for name in names {
                // As the rings have it.
                let options = TapOptions { offloads: false, ..TapOptions::new(name) };
                rig.plug("bridge", Box::new(Tap::new(options)))?;
            }
            Ok(rig)
        })?;
        Ok(Generator { rig, lanes: Vec::new(), idle_poll_ns: f64::INFINITY })
    }

    /// From now on frames of this size.
    pub fn set_size(
        &mut self,
        topology: Topology,
        frame_bytes: u16,
        check: impl Fn() -> Result<(), crate::interrupt::Interrupted>,
    ) -> anyhow::Result<()> {
        let mix = SizeMix::fixed(FrameSize::with_fcs(frame_bytes)?);
        let ends: &[(usize, usize)] = if topology == Topology::Vm2vm { &[(0, 1), (1, 0)] } else { &[(0, 0)] };
        self.lanes.clear();
        for &(from, to) in ends {
            let fields = Fields {
                source: ADDRESSES[from].parse().context("an address")?,
                destination: ADDRESSES[1 - from].parse().context("an address")?,
                ..Fields::default()
            };
            self.lanes.push(Lane {
                from,
                to,
                streams: vec![Stream::new(fields, &mix, 0..FLOWS)?],
                checker: Checker::new(&fields, &mix, FLOWS, Access::Payload),
            });
        }
        let begin = Instant::now();
        while !warm_up(&mut self.rig, &mut self.lanes, Duration::from_millis(500))? {
            check()?;
            let in_vain = begin.elapsed() > crate::PATIENCE;
            ensure!(!in_vain, "no frame came through within {} s", crate::PATIENCE.as_secs());
        }
        // One frame, and then nothing for the rest of the time.
        let idle = self.run(Offered::FramesPerSecond(1.0), Duration::from_millis(5), false)?;
        let cost = idle.sending_ns as f64 / idle.idle_polls.max(1) as f64;
        self.idle_poll_ns = self.idle_poll_ns.min(cost);
        Ok(())
    }

    /// As much as the system takes.
    pub fn maximum(&mut self, duration: Duration) -> anyhow::Result<Passed> {
        let outcome = self.run(Offered::Maximum, duration, false)?;
        let received: u64 = outcome.lanes.iter().map(|lane| lane.tally.distinct).sum();
        let idle_ns = outcome.idle_polls as f64 * self.idle_poll_ns;
        let idle_share = Some(idle_ns / outcome.sending_ns as f64).filter(|share| *share <= 1.0);
        Ok(Passed {
            frames_per_second: received as f64 * 1e9 / outcome.sending_ns as f64,
            usage: Usage { idle_share, busy_ns_per_frame: None },
        })
    }

    /// The highest rate of each lane that the generator itself keeps, up to `most`; that, if it keeps none.
    pub fn kept(
        &mut self,
        most_fps: f64,
        trial: Duration,
        check: impl Fn(&mut Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<Load> {
        let most = Load::new((most_fps as u64).max(2000)).context("a load")?;
        Ok(kept(most, |load| self.at_load(load, trial, &check))?.unwrap_or(most))
    }

    /// The highest rate of each lane that passes without loss (ETSI NFV-TST 009), up to `most`.
    pub fn zero_loss(
        &mut self,
        most: Load,
        trial: Duration,
        check: impl Fn(&mut Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<tst009::Outcome> {
        let least = Load::new(1000).context("a load")?;
        let plan = tst009::Plan {
            range: SearchRange::new(least, most).context("a range")?,
            width: Fraction::from_percent(3.0).context("a share")?,
            trial,
            verification: Verification {
                max_trials: NonZeroU32::new(VERIFICATIONS).context("not zero")?,
                max_frames_lost: None,
            },
        };
        let budget =
            Budget { trials: 96, attempts: NonZeroU32::new(12).context("not zero")?, ..Budget::default() };
        tst009::search(plan, &budget, |load, duration| self.at_load(load, duration, &check), |_| {})
    }

    /// One trial, as searches ask for it.
    fn at_load(
        &mut self,
        load: Load,
        duration: Duration,
        check: impl Fn(&mut Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<Measured> {
        check(self)?;
        Ok(judge(&self.run(Offered::FramesPerSecond(load.frames_per_second() as f64), duration, false)?))
    }

    /// Median and 99th centile of the latency at this rate of each lane; none where the generator did not keep to its
    /// own schedule in any of its tries.
    pub fn latency(&mut self, fps: f64, duration: Duration) -> anyhow::Result<Option<(u64, u64)>> {
        for _ in 0..LATENCY_TRIES {
            let outcome = self.run(Offered::FramesPerSecond(fps), duration, true)?;
            let in_time = matches!(judge(&outcome), Measured::Valid(_));
            let lane = outcome.lanes.first().filter(|lane| in_time && lane.latency.count() > 0);
            if let Some(lane) = lane {
                return Ok(Some((lane.latency.quantile_ns(0.5), lane.latency.quantile_ns(0.99))));
            }
        }
        Ok(None)
    }

    fn run(&mut self, load: Offered, duration: Duration, latency: bool) -> anyhow::Result<TrialOutcome> {
        let plan = Plan { load, duration, residual: Duration::from_millis(20), latency };
        let outcome = run(&mut self.rig, &mut self.lanes, &plan)?;
        let altered: u64 = outcome.lanes.iter().map(|lane| lane.tally.altered).sum();
        ensure!(altered == 0, "{altered} frames were altered on their way");
        Ok(outcome)
    }
}

/// Does something in a network namespace. In a thread of its own: this one stays where it is, whatever happens.
fn inside<T: Send>(namespace: &Netns, work: impl FnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
    let path = format!("/proc/{}/ns/net", namespace.holder());
    let entrance = std::fs::File::open(&path).with_context(|| format!("opening {path}"))?;
    let enter = || -> anyhow::Result<T> {
        setns(entrance, CloneFlags::CLONE_NEWNET).context("entering the bridge's network namespace")?;
        work()
    };
    let done = std::thread::scope(|scope| scope.spawn(enter).join());
    done.map_err(|_| anyhow!("the thread in the bridge's network namespace failed"))?
}
