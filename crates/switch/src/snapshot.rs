//! The state of a switch, as text and as JSON.
use std::collections::BTreeMap;
use std::fmt;

use frame::{DropReason, Side};
use linux::interface::Interface;
use port::Port;
use serde::Serialize;
use virtio::net::MacAddress;
use virtio::{Features, NetFeatures};

use crate::{TableCounts, WorkerCounts};

/// All counters of a switch at one moment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Snapshot {
    /// Seconds since the start.
    pub seconds: f64,
    /// The ports in the order in which they were added.
    pub ports: Vec<PortSnapshot>,
    /// Learned addresses.
    pub table: TableCounts,
    /// The networks that there are, each with its part of the table.
    pub networks: Vec<NetworkSnapshot>,
    /// By worker.
    pub workers: Vec<WorkerCounts>,
}

/// Ports that reach each other.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NetworkSnapshot {
    /// The network's name; empty for ports that name none.
    pub name: String,
    /// The counts of the addresses learned in the network.
    pub table: TableCounts,
}

/// One port.
#[derive(Clone, Debug, Serialize)]
pub struct PortSnapshot {
    /// The port's name.
    pub name: String,
    /// The kind and state of the port.
    pub description: String,
    /// Whether the port is connected.
    pub link: Link,
    /// Features agreed on with its peer.
    pub features: Vec<String>,
    /// The features as a number, such as `0x0000000170000020`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feature_bits: Option<String>,
    /// The system's interface that it is, if it is one that is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<InterfaceSnapshot>,
    /// The system's interface by which the frames of a tunnel leave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<String>,
    /// The state of the session that checks the path to the other end of a tunnel (BFD).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub bfd: BTreeMap<&'static str, String>,
    /// Its part in a bond, if it is one of a bond.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bond: Option<BondSnapshot>,
    /// The number of addresses learned behind the port.
    pub addresses: u32,
    /// Queues, by pair.
    pub queues: Vec<QueueSnapshot>,
}

/// A port's part in its bond.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BondSnapshot {
    /// The name of the bond.
    pub name: String,
    /// How its ports share frames, in the words of Open vSwitch.
    pub mode: &'static str,
    /// Whether the port is up, so that frames can leave by it.
    pub is_enabled: bool,
    /// Whether it is the port on which frames for several stations are received.
    pub is_active: bool,
    /// For a port of a bond that balances: its recent load in bytes, by bucket of stations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub load: BTreeMap<u8, u64>,
}

/// Whether a port is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Link {
    /// One of its queues runs.
    pub is_up: bool,
    /// How often that has changed since the port was added.
    pub changes: u64,
}

/// A network interface of the system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InterfaceSnapshot {
    /// Its index.
    pub index: u32,
    /// Longest IP packet in bytes.
    pub mtu: u32,
    /// The interface's Ethernet address.
    pub mac: String,
    /// Whether the administrator has set the interface up.
    pub is_up: bool,
}

impl InterfaceSnapshot {
    /// The interface of this name in the process's network namespace, if it is there.
    fn of(name: &str) -> Option<Self> {
        let read = || -> std::io::Result<Self> {
            let interface = Interface::named(name)?;
            let (index, mtu, is_up) = (interface.index()?, interface.mtu()?, interface.is_up()?);
            Ok(InterfaceSnapshot { index, mtu, mac: MacAddress(interface.mac()?).to_string(), is_up })
        };
        read().ok()
    }
}

/// One queue.
#[derive(Clone, Debug, Serialize)]
pub struct QueueSnapshot {
    /// Queue pair.
    pub pair: u16,
    /// Whether the queue carries frames from the guest; if not, frames to it.
    pub from_guest: bool,
    /// Frames passed on.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Kicks or calls sent to the peer.
    pub notifications: u64,
    /// Calls that the peer had suppressed.
    pub suppressed: u64,
    /// Kicks received.
    pub kicks: u64,
    /// Dropped frames by reason, the most frequent first.
    #[serde(serialize_with = "as_map")]
    pub drops: Vec<(&'static str, u64)>,
    /// The latest frame that was cut into pieces and for which the receiver had too few buffers: number of buffers
    /// and of pieces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_short: Option<(u32, u32)>,
}

fn as_map<S: serde::Serializer>(drops: &[(&'static str, u64)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(drops.iter().copied())
}

impl QueueSnapshot {
    fn direction(&self) -> &'static str {
        if self.from_guest { "from guest" } else { "to guest" }
    }

    /// The number of all dropped frames.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().map(|(_, frames)| frames).sum()
    }

    /// Figures of the latest drop for this reason, and what the user can do.
    pub fn detail(&self, reason: &str) -> Option<String> {
        let (buffers, pieces) = self.cut_short.filter(|_| reason == DropReason::CutShort.text())?;
        Some(format!(
            "receiver posted {buffers} buffers for a burst of {pieces}; give it longer queues (QEMU: \
             rx_queue_size=1024) or mergeable buffers (mrg_rxbuf=on, mergeable=on)"
        ))
    }
}

impl Snapshot {
    /// The number of all dropped frames.
    pub fn dropped(&self) -> u64 {
        self.ports.iter().flat_map(|port| &port.queues).map(QueueSnapshot::dropped).sum()
    }
}

impl Snapshot {
    /// Drops of all queues, most frames first.
    fn worst_drops(&self) -> Vec<(u64, &'static str, &PortSnapshot, &QueueSnapshot)> {
        let queues = self.ports.iter().flat_map(|port| port.queues.iter().map(move |queue| (port, queue)));
        let drops = queues.flat_map(|(port, queue)| {
            queue.drops.iter().map(move |(reason, frames)| (*frames, *reason, port, queue))
        });
        let mut drops: Vec<_> = drops.collect();
        drops.sort_by_key(|(frames, ..)| std::cmp::Reverse(*frames));
        drops
    }
}

pub(crate) fn port(
    name: &str,
    description: String,
    addresses: u32,
    link: Link,
    port: Option<&dyn Port>,
) -> PortSnapshot {
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
            suppressed: counts.suppressed,
            kicks: counts.kicks,
            drops: counts.drops.iter().map(|(reason, frames)| (reason.text(), *frames)).collect(),
            cut_short: counts.cut_short.map(|cut| (cut.buffers, cut.pieces)),
        })
    });
    let agreed = port.and_then(|port| port.features());
    let names = |features: Features| features.each().map(|one| NetFeatures(one).to_string()).collect();
    PortSnapshot {
        name: name.to_owned(),
        description,
        link,
        features: agreed.map_or_else(Vec::new, names),
        feature_bits: agreed.map(|features| format!("{:#018x}", features.bits())),
        interface: port.and_then(|port| port.interface()).and_then(InterfaceSnapshot::of),
        egress: port.and_then(|port| port.egress()),
        bfd: port.map(|port| port.session()).unwrap_or_default(),
        bond: None,
        addresses,
        queues: queues.collect(),
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (frames, reason, port, queue) in self.worst_drops() {
            let (direction, pair) = (queue.direction(), queue.pair);
            let detail = queue.detail(reason).map(|detail| format!(": {detail}")).unwrap_or_default();
            writeln!(f, "dropped {frames:>12}  {reason}  ({}, {direction} {pair}){detail}", port.name)?;
        }
        for port in &self.ports {
            writeln!(f, "{}: {}; {} addresses behind it", port.name, port.description, port.addresses)?;
            for queue in &port.queues {
                let direction = queue.direction();
                writeln!(
                    f,
                    "  {direction:<10} {:>3}  {:>14} frames  {:>18} bytes  {:>12} notifications",
                    queue.pair, queue.frames, queue.bytes, queue.notifications,
                )?;
            }
        }
        let table = &self.table;
        writeln!(
            f,
            "addresses: {} known, {} learned, {} moved ({} times refused), {} expired, {} evicted; {} frames over a \
             port's limit",
            table.addresses,
            table.learned,
            table.moved,
            table.moves_refused,
            table.expired,
            table.evicted,
            table.over_limit
        )?;
        for (index, worker) in self.workers.iter().enumerate() {
            let all = worker.busy_ns + worker.spinning_ns + worker.asleep_ns;
            let share = |ns: u64| 100.0 * ns as f64 / all.max(1) as f64;
            writeln!(
                f,
                "worker {index}: {:.1} % busy, {:.1} % empty polls, {:.1} % asleep; {} frames, {} flooded, {} sleeps",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_drops_come_first_and_programs_read_them_by_name() {
        let queue = |from_guest, drops: &[(&'static str, u64)]| QueueSnapshot {
            pair: 0,
            from_guest,
            frames: 5,
            bytes: 300,
            notifications: 0,
            suppressed: 0,
            kicks: 0,
            drops: drops.to_vec(),
            cut_short: (!from_guest).then_some((13, 23)),
        };
        let mut queues =
            vec![queue(true, &[("too long", 2)]), queue(false, &[("receiver full", 7), ("filtered", 1)])];
        queues[1].drops.push(("too few buffers for a cut frame", 1));
        let port = PortSnapshot {
            name: "vm1".to_owned(),
            description: "a test".to_owned(),
            link: Link::default(),
            features: Vec::new(),
            feature_bits: None,
            interface: None,
            egress: None,
            bfd: BTreeMap::new(),
            bond: None,
            addresses: 3,
            queues,
        };
        let snapshot = Snapshot { ports: vec![port], ..Snapshot::default() };
        let text = snapshot.to_string();
        let lines: Vec<&str> =
            text.lines().take(5).map(|line| line.trim_start_matches("dropped").trim()).collect();
        assert_eq!(
            lines,
            [
                "7  receiver full  (vm1, to guest 0)",
                "2  too long  (vm1, from guest 0)",
                "1  filtered  (vm1, to guest 0)",
                "1  too few buffers for a cut frame  (vm1, to guest 0): receiver posted 13 buffers for a burst of 23; \
                 give it longer queues (QEMU: rx_queue_size=1024) or mergeable buffers (mrg_rxbuf=on, mergeable=on)",
                "vm1: a test; 3 addresses behind it"
            ]
        );
        let json = serde_json::to_value(&snapshot).unwrap();
        assert_eq!(json["ports"][0]["queues"][1]["drops"]["receiver full"], 7);
        assert_eq!(snapshot.dropped(), 11);
    }
}
