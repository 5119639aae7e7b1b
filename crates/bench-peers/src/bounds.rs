//! What the machine allows at a moment: how far the two cores are from each other, and the bound of a cell, which
//! is the cache lines of its frames between them and nothing else.
use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::bail;
use peers::testpmd::Buffers;
use traffic::bound::{self, LinesPerFrame, Ring, Spacing};
use traffic::distance;

use crate::cell::{Cell, DriverKind, Link, Topology};
use crate::records::BoundRecord;

/// Length of a turn.
const TIME: Duration = Duration::from_millis(25);

/// Lines that hold the frame, once for each way that it goes. Drivers put the net header into the line before:
/// it stays as it is, and need not travel.
pub fn lines(topology: Topology, frame_bytes: u16) -> LinesPerFrame {
    let lines = usize::from(frame_bytes).div_ceil(64);
    match topology {
        Topology::GuestToHost => LinesPerFrame { to_switch: lines, to_driver: 0 },
        Topology::HostToGuest => LinesPerFrame { to_switch: 0, to_driver: lines },
        Topology::Loop | Topology::Vm2vm => LinesPerFrame { to_switch: lines, to_driver: lines },
    }
}

/// The buffers are the driver's, so it says where they lie: the same lines are to be moved.
fn spacing(driver: DriverKind, dpdk: Buffers) -> Spacing {
    match (driver, dpdk) {
        (DriverKind::Dpdk, Buffers::OneToAPage) => Spacing::Pages,
        (DriverKind::Dpdk, Buffers::SideBySide) | (DriverKind::Tautline, _) => Spacing::OddLines,
    }
}

/// What was found at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Allowed {
    pub frames_per_second: f64,
    /// Until the driver's core has a line that the switch's has just written.
    pub line_ns: f64,
}

/// A figure over the same figure a moment before, on a machine that has not changed.
pub const STEADY: RangeInclusive<f64> = 0.75..=1.33;
/// The same of what one line costs: it is measured in less than a millisecond, and cores that are moved show
/// more than this.
const SAME_DISTANCE: RangeInclusive<f64> = 0.6..=1.67;

impl Allowed {
    /// Whether what was measured between these moments may be held against each other.
    pub fn is_steady(&self, before: &Allowed) -> bool {
        STEADY.contains(&(self.frames_per_second / before.frames_per_second))
            && SAME_DISTANCE.contains(&(self.line_ns / before.line_ns))
    }
}

/// Measures the bound of a cell between rings and the cores' distance once: a turn of its own beside the systems',
/// for what a line costs changes from one moment to the next.
pub fn measure(
    cell: &Cell,
    dpdk: Buffers,
    (driver_cpu, switch_cpu): (usize, usize),
) -> anyhow::Result<Allowed> {
    let Link::Ring(path) = cell.link else { bail!("{cell}: the bound is one of rings") };
    let ring = Ring { packed: path.is_packed(), in_order: path.is_in_order() };
    let lines = lines(cell.topology, cell.frame_bytes);
    let spacing = spacing(cell.driver, dpdk);
    // In a thread of its own: it is pinned.
    let run = || -> std::io::Result<Allowed> {
        let line_ns = distance::line_ns(driver_cpu, switch_cpu)?;
        let frames_per_second = bound::frames_per_second(ring, lines, spacing, driver_cpu, switch_cpu, TIME)?;
        Ok(Allowed { frames_per_second, line_ns })
    };
    let allowed = std::thread::scope(|scope| scope.spawn(run).join());
    Ok(allowed.map_err(|_| anyhow::anyhow!("the thread that measures the bound failed"))??)
}

/// What was measured at a round's end, for the results.
pub fn record(cell: &Cell, dpdk: Buffers, round: u32, before: &Allowed, after: &Allowed) -> BoundRecord {
    let lines = lines(cell.topology, cell.frame_bytes);
    BoundRecord {
        cell: *cell,
        round,
        lines_to_switch: lines.to_switch,
        lines_to_driver: lines.to_driver,
        lines_apart: spacing(cell.driver, dpdk).lines(),
        frames_per_second: after.frames_per_second,
        line_ns: [before.line_ns, after.line_ns],
    }
}
