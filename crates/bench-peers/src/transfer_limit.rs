//! The cache-transfer limit of a cell: the cache lines of its frames between the two cores, and nothing else.
use std::time::Duration;

use anyhow::{Context, bail};
use peers::Pages;
use traffic::bound::{self, LinesPerFrame, Ring, Spacing};
use traffic::frames::FrameSize;

use crate::cell::{Cell, DriverKind, Link, Topology};
use crate::cpus::Pinned;
use crate::records::LimitRecord;

/// Length of a turn.
const TIME: Duration = Duration::from_millis(25);

/// Lines that hold the frame, once for each way that it goes. Drivers put the net header into the line before:
/// it stays as it is, and need not travel.
pub fn lines(topology: Topology, frame_bytes: u16) -> LinesPerFrame {
    let buffer = FrameSize::with_fcs(frame_bytes).map_or(0, |size| usize::from(size.in_buffer()));
    let lines = buffer.div_ceil(64);
    match topology {
        Topology::GuestToHost => LinesPerFrame { to_switch: lines, to_driver: 0 },
        Topology::HostToGuest => LinesPerFrame { to_switch: 0, to_driver: lines },
        Topology::Loop | Topology::Vm2vm => LinesPerFrame { to_switch: lines, to_driver: lines },
    }
}

/// The buffers are the driver's, so it says where they lie: the same lines are to be moved.
fn spacing(driver: DriverKind, dpdk: Pages) -> Spacing {
    match (driver, dpdk) {
        (DriverKind::Dpdk, Pages::Small) => Spacing::Pages,
        (DriverKind::Dpdk, Pages::Huge) | (DriverKind::Tautline, _) => Spacing::OddLines,
    }
}

/// Measures the cache-transfer limit of a cell between rings once: a turn of its own beside the systems', for what a line
/// costs changes from one moment to the next.
pub fn frames_per_second(
    cell: &Cell,
    dpdk: Pages,
    (driver_cpu, switch_cpu): (usize, usize),
) -> anyhow::Result<f64> {
    let Link::Ring(path) = cell.link else { bail!("{cell}: the cache-transfer limit is one of rings") };
    let ring = Ring { packed: path.is_packed(), in_order: path.is_in_order() };
    let lines = lines(cell.topology, cell.frame_bytes);
    let spacing = spacing(cell.driver, dpdk);
    // It stays on the driver's CPU otherwise.
    let _pinned = Pinned::to(driver_cpu)?;
    bound::frames_per_second(ring, lines, spacing, driver_cpu, switch_cpu, TIME)
        .context("measuring the cache-transfer limit")
}

/// What was measured, for the results.
pub fn record(cell: &Cell, dpdk: Pages, round: u32, frames_per_second: f64) -> LimitRecord {
    let lines = lines(cell.topology, cell.frame_bytes);
    LimitRecord {
        cell: *cell,
        round,
        lines_to_switch: lines.to_switch,
        lines_to_driver: lines.to_driver,
        lines_apart: spacing(cell.driver, dpdk).lines(),
        frames_per_second,
    }
}
