//! The bound of a cell: the cache lines of its frames between the two cores, and nothing else.
use std::time::Duration;

use anyhow::bail;
use traffic::bound::{LinesPerFrame, Ring, frames_per_second};

use crate::cell::{Cell, Link, Topology};
use crate::records::BoundRecord;

/// Length of a turn.
const TIME: Duration = Duration::from_millis(25);

/// Net header in front of each frame.
const HEADER_BYTES: usize = 12;

/// Lines that hold net header and frame, once for each way that the frame goes.
pub fn lines(topology: Topology, frame_bytes: u16) -> LinesPerFrame {
    let lines = (HEADER_BYTES + usize::from(frame_bytes)).div_ceil(64);
    match topology {
        Topology::GuestToHost => LinesPerFrame { to_switch: lines, to_driver: 0 },
        Topology::HostToGuest => LinesPerFrame { to_switch: 0, to_driver: lines },
        Topology::Loop | Topology::Vm2vm => LinesPerFrame { to_switch: lines, to_driver: lines },
    }
}

/// Measures the bound of a cell between rings once: a turn of its own beside the systems', for what a line
/// costs changes from one moment to the next.
pub fn measure(cell: &Cell, (driver_cpu, switch_cpu): (usize, usize)) -> anyhow::Result<BoundRecord> {
    let Link::Ring(path) = cell.link else { bail!("{cell}: the bound is one of rings") };
    let ring = Ring { packed: path.is_packed(), in_order: path.is_in_order() };
    let lines = lines(cell.topology, cell.frame_bytes);
    // In a thread of its own: it is pinned.
    let run = || frames_per_second(ring, lines, driver_cpu, switch_cpu, TIME);
    let rate = std::thread::scope(|scope| scope.spawn(run).join());
    let rate = rate.map_err(|_| anyhow::anyhow!("the thread that measures the bound failed"))??;
    Ok(BoundRecord {
        cell: *cell,
        lines_to_switch: lines.to_switch,
        lines_to_driver: lines.to_driver,
        frames_per_second: rate,
    })
}
