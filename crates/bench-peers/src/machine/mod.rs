//! The state of the machine during a measurement: disturbances, the latency between its two cores, the use of time at
//! each side of the rings, and the maximum rate at which the cores can pass frames to each other.
pub mod latency_class;

use std::time::Duration;

use anyhow::{Context, ensure};
use linux::cpus::Bound;
use measure::siblings::{Baseline, DISTURBED};
use serde::{Deserialize, Serialize};
use traffic::cache_transfer::{LinesPerFrame, Ring, Spacing, frames_per_second};
use traffic::frames::FrameSize;

use crate::cell::{Cell, DriverKind, Topology};

/// The part of the time so far that may go into waiting for SMT-undisturbed cores.
const WAITING: f64 = 0.4;
/// Length of a turn of the cache-transfer limit.
const LIMIT_TIME: Duration = Duration::from_millis(25);
pub const PAUSE: Duration = Duration::from_millis(10);

/// The driver's CPU and the switch's, and the facts about them. The systems are stopped while the CPUs are measured.
pub struct Machine {
    pub driver_cpu: usize,
    pub switch_cpu: usize,
    baseline: Baseline,
    /// The time spent waiting for SMT-undisturbed cores so far.
    pub waited: Duration,
}

/// One measurement, before or after a trial.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct State {
    /// Core-to-core latency of a cache line, in ns.
    pub line_ns: f64,
    /// The duration of a fixed piece of arithmetic on the driver's core and on the switch's, in ns: it is about 1.5
    /// times as long while the core's SMT sibling is busy.
    pub arithmetic_ns: [f64; 2],
    /// Whether the SMT sibling of one of the cores is busy.
    pub shared: bool,
}

impl Machine {
    /// Chooses the CPUs: the driver's is the first that this process may use, the switch's the last.
    ///
    /// # Errors
    /// The process's CPUs cannot be asked for, or it may use only one.
    pub fn pick() -> anyhow::Result<Self> {
        let cpus = linux::cpus::usable().context("asking for this process's CPUs")?;
        ensure!(
            cpus.len() >= 2,
            "one CPU is not enough: the switch and the driver poll on one each; start with two or more (taskset -pc $$)"
        );
        let (driver_cpu, switch_cpu) = (cpus[0], cpus[cpus.len() - 1]);
        Ok(Machine { driver_cpu, switch_cpu, baseline: Baseline::default(), waited: Duration::ZERO })
    }

    /// Measures the state of both cores and the core-to-core latency between them.
    ///
    /// # Errors
    /// A thread cannot be bound to one of the two CPUs, or a measuring thread panics.
    pub fn look(&mut self) -> anyhow::Result<State> {
        let times = measure::siblings::arithmetic_ns(&[self.driver_cpu, self.switch_cpu])
            .context("measuring what the cores can do")?;
        // A core is compared to its own best in this run.
        let shared = !self.baseline.disturbed(&times, DISTURBED).is_empty();
        let _bound = Bound::to(&[self.driver_cpu])?;
        let line_ns = traffic::core_to_core::line_ns(self.driver_cpu, self.switch_cpu)
            .context("measuring the core-to-core latency")?;
        Ok(State { line_ns, arithmetic_ns: [times[0], times[1]], shared })
    }

    /// Measures the cache-transfer limit of a cell, in frames per second. The measurement has a turn of its own
    /// beside the systems' turns, because the cost of a cache line changes from one moment to the next.
    ///
    /// # Errors
    /// The cell has no rings (TAPs), its frame size is out of range, or a thread cannot be bound to one of the two
    /// CPUs.
    pub fn transfer_limit(&self, cell: &Cell, huge_pages: bool) -> anyhow::Result<f64> {
        let path = cell.path.context("TAPs have no rings")?;
        let ring = Ring { packed: path.is_packed(), in_order: path.is_in_order() };
        let (to_switch, to_driver) =
            (cell.topology != Topology::HostToGuest, cell.topology != Topology::GuestToHost);
        let bytes = FrameSize::with_fcs(cell.frame_bytes)?.in_buffer();
        let lines = LinesPerFrame::of(bytes, to_switch, to_driver);
        // The driver allocates the buffers, so the driver decides their spacing: the same lines are to be moved.
        let spacing = match cell.driver {
            DriverKind::Dpdk if !huge_pages => Spacing::Pages,
            _ => Spacing::OddLines,
        };
        let _bound = Bound::to(&[self.driver_cpu])?;
        frames_per_second(ring, lines, spacing, self.driver_cpu, self.switch_cpu, LIMIT_TIME)
            .context("measuring the cache-transfer limit")
    }

    /// Whether waiting has taken less than its allowed share of `elapsed`.
    pub fn may_wait(&self, elapsed: Duration) -> bool {
        self.waited <= elapsed.mul_f64(WAITING)
    }
}
