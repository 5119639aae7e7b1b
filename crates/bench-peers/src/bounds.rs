//! The bound of a cell: the cache lines of its frames between the two cores, and nothing else.
use std::time::Duration;

use traffic::bound::{LinesPerFrame, frames_per_second};

use crate::cell::Topology;
use crate::records::BoundRecord;

/// Net header in front of each frame.
const HEADER_BYTES: usize = 12;

/// Lines that hold net header and frame, once for each way that the frame goes. Descriptors and used entries
/// are left out: four or more frames share one of their lines. The bound is so a little too high.
pub fn lines(topology: Topology, frame_bytes: u16) -> LinesPerFrame {
    let lines = (HEADER_BYTES + usize::from(frame_bytes)).div_ceil(64);
    match topology {
        Topology::GuestToHost => LinesPerFrame { to_switch: lines, to_driver: 0 },
        Topology::HostToGuest => LinesPerFrame { to_switch: 0, to_driver: lines },
        Topology::Loop | Topology::Vm2vm => LinesPerFrame { to_switch: lines, to_driver: lines },
    }
}

/// Measures the bounds of these cells, each once.
pub fn measure(
    topologies: &[Topology],
    sizes: &[u16],
    (driver_cpu, switch_cpu): (usize, usize),
    time: Duration,
) -> anyhow::Result<Vec<BoundRecord>> {
    let mut records: Vec<BoundRecord> = Vec::new();
    for &frame_bytes in sizes {
        for &topology in topologies {
            let LinesPerFrame { to_switch, to_driver } = lines(topology, frame_bytes);
            let known = |r: &BoundRecord| (r.frame_bytes, r.lines_to_switch, r.lines_to_driver);
            if records.iter().any(|record| known(record) == (frame_bytes, to_switch, to_driver)) {
                continue;
            }
            let lines = LinesPerFrame { to_switch, to_driver };
            // In a thread of its own: it is pinned.
            let run = || frames_per_second(lines, driver_cpu, switch_cpu, time);
            let rate = std::thread::scope(|scope| scope.spawn(run).join());
            let rate = rate.map_err(|_| anyhow::anyhow!("the thread that measures the bound failed"))??;
            records.push(BoundRecord {
                frame_bytes,
                lines_to_switch: to_switch,
                lines_to_driver: to_driver,
                frames_per_second: rate,
            });
        }
    }
    Ok(records)
}
