//! How a switch stands, for people and programs.
use std::fmt;

use port::{Port, Side};
use serde::Serialize;

use crate::{TableCounts, WorkerCounts};

/// All counters of a switch at one moment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Snapshot {
    /// Since the start.
    pub seconds: f64,
    /// In the order in which they were added.
    pub ports: Vec<PortSnapshot>,
    /// Learned addresses.
    pub table: TableCounts,
    /// By worker.
    pub workers: Vec<WorkerCounts>,
}

/// One port.
#[derive(Clone, Debug, Serialize)]
pub struct PortSnapshot {
    /// As its user calls it.
    pub name: String,
    /// What it is and how it stands.
    pub description: String,
    /// Addresses learned behind it.
    pub addresses: u32,
    /// Queues, by pair.
    pub queues: Vec<QueueSnapshot>,
}

/// One queue.
#[derive(Clone, Debug, Serialize)]
pub struct QueueSnapshot {
    /// Queue pair.
    pub pair: u16,
    /// Whether these are frames from the guest; else those to it.
    pub from_guest: bool,
    /// Frames passed on.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Kicks or calls sent to the peer.
    pub notifications: u64,
    /// Dropped frames by reason, largest first.
    pub drops: Vec<(&'static str, u64)>,
}

impl QueueSnapshot {
    /// All dropped frames.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().map(|(_, frames)| frames).sum()
    }
}

impl Snapshot {
    /// All dropped frames.
    pub fn dropped(&self) -> u64 {
        self.ports.iter().flat_map(|port| &port.queues).map(QueueSnapshot::dropped).sum()
    }
}

pub(crate) fn port(name: &str, description: String, addresses: u32, port: Option<&dyn Port>) -> PortSnapshot {
    let pairs = 0..port.map_or(0, |port| port.queue_pairs());
    let both = pairs.flat_map(|pair| [(pair, Side::FromGuest), (pair, Side::ToGuest)]);
    let queues = both.filter_map(|(pair, side)| {
        let counts = port?.counters(pair, side)?.counts();
        Some(QueueSnapshot {
            pair,
            from_guest: side == Side::FromGuest,
            frames: counts.frames,
            bytes: counts.bytes,
            notifications: counts.notifications,
            drops: counts.drops.iter().map(|(reason, frames)| (reason.text(), *frames)).collect(),
        })
    });
    PortSnapshot { name: name.to_owned(), description, addresses, queues: queues.collect() }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for port in &self.ports {
            writeln!(f, "{}: {}", port.name, port.description)?;
            for queue in &port.queues {
                let direction = if queue.from_guest { "from guest" } else { "to guest" };
                write!(
                    f,
                    "  {direction:<10} {:>3}  {:>14} frames  {:>18} bytes  {:>12} notifications",
                    queue.pair, queue.frames, queue.bytes, queue.notifications,
                )?;
                for (reason, frames) in &queue.drops {
                    write!(f, "\n      dropped {frames}: {reason}")?;
                }
                writeln!(f)?;
            }
        }
        let table = &self.table;
        writeln!(
            f,
            "addresses: {} known, {} learned, {} moved, {} expired, {} evicted; {} frames over a port's limit",
            table.addresses, table.learned, table.moved, table.expired, table.evicted, table.over_limit
        )?;
        for (index, worker) in self.workers.iter().enumerate() {
            let all = worker.busy_ns + worker.spinning_ns + worker.asleep_ns;
            let share = |ns: u64| 100.0 * ns as f64 / all.max(1) as f64;
            writeln!(
                f,
                "worker {index}: {:.1} % busy, {:.1} % polling in vain, {:.1} % asleep; {} frames, {} flooded, {} sleeps",
                share(worker.busy_ns),
                share(worker.spinning_ns),
                share(worker.asleep_ns),
                worker.frames,
                worker.flooded,
                worker.sleeps,
            )?;
        }
        Ok(())
    }
}
