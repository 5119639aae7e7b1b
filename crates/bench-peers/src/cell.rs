//! The dimensions of the measurements: ring paths, topologies, systems, drivers. Each value has one name, which
//! options, results and tables share.
use std::fmt;

use clap::ValueEnum;
use peers::Pages;
use peers::testpmd::Vdev;
use serde::{Deserialize, Serialize};

/// The name of a value in options and results.
pub fn name(of: &impl ValueEnum) -> String {
    of.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The features that the driver asks for, which decide the code that moves the frames at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum RingPath {
    /// Split ring, nothing else.
    Split,
    /// Packed ring, buffers used in order.
    PackedInOrder,
    /// Packed ring, nothing else.
    Packed,
    /// Split ring, buffers used in order.
    SplitInOrder,
    /// Split ring, mergeable receive buffers.
    SplitMergeable,
    /// Packed ring, mergeable receive buffers.
    PackedMergeable,
    /// Packed ring in order, DPDK's driver with vector instructions (AVX-512).
    PackedVectorised,
    /// Split ring, DPDK's receive path with vector instructions.
    SplitVectorised,
}

impl RingPath {
    pub fn is_packed(self) -> bool {
        use RingPath::*;
        matches!(self, Packed | PackedMergeable | PackedInOrder | PackedVectorised)
    }

    fn is_mergeable(self) -> bool {
        matches!(self, RingPath::SplitMergeable | RingPath::PackedMergeable)
    }

    pub fn is_in_order(self) -> bool {
        matches!(self, RingPath::SplitInOrder | RingPath::PackedInOrder | RingPath::PackedVectorised)
    }

    /// Whether the path uses another driver of DPDK on the same kind of ring as another path.
    pub fn is_vectorised(self) -> bool {
        matches!(self, RingPath::SplitVectorised | RingPath::PackedVectorised)
    }

    /// DPDK's driver with these features.
    pub fn driver(self, vdev: Vdev) -> Vdev {
        vdev.packed(self.is_packed())
            .mergeable(self.is_mergeable())
            .in_order(self.is_in_order())
            .vectorized(self.is_vectorised())
    }

    /// This project's own driver with these features, as an argument of `tautline`: without offloads, like DPDK's
    /// driver.
    pub fn port(self, socket: &std::path::Path, entries: u16, pages: Pages) -> String {
        let on = |yes: bool| if yes { "on" } else { "off" };
        let [packed, mergeable, in_order] =
            [self.is_packed(), self.is_mergeable(), self.is_in_order()].map(on);
        let (socket, pages) = (socket.display(), if pages == Pages::Huge { "2M" } else { "small" });
        let size = format!("queue-size={entries},buffers={entries}");
        let features = format!("packed={packed},mergeable={mergeable},in-order={in_order},offloads=off");
        format!("virtio-user:{socket},{size},{features},pages={pages}")
    }
}

/// The path of the frames; there is one switch core in each topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// Two ports; the frames of each guest go to the other guest, in both directions at once.
    Vm2vm,
    /// One port; frames go back with their addresses changed.
    Loop,
    /// The guest sends, the host drops.
    GuestToHost,
    /// The host sends, the guest drops.
    HostToGuest,
}

impl Topology {
    /// The number of ports of the device.
    pub fn ports(self) -> usize {
        if self == Topology::Vm2vm { 2 } else { 1 }
    }
}

/// The system at the host's end of the rings: `tautline switch` with a wire between its two ports or with learned
/// addresses, testpmd with `net_vhost` ports, Open vSwitch with DPDK and learned addresses or a flow from port to
/// port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    TautlineWire,
    TautlineLearning,
    /// A `vhost-user:` port of this project without the switch: it sends, drops or reflects.
    TautlinePort,
    Testpmd,
    OvsLearning,
    OvsPortFlow,
    /// `tautline switch --flows`, with the flows of the run.
    TautlineFlows,
    /// Open vSwitch with DPDK and the flows of the run.
    OvsFlows,
    /// The kernel's bridge between two TAPs. The bridge has no rings and no core of its own, so it has cells of its
    /// own and does not take turns with the other systems.
    KernelBridge,
}

impl System {
    /// The systems of a run with flow tables, in the order in which they take turns.
    pub const BY_FLOWS: &[System] = &[System::TautlineFlows, System::OvsFlows];

    /// The systems that support a topology, in the order in which they take turns.
    pub fn of(topology: Topology) -> &'static [System] {
        match topology {
            Topology::Vm2vm => &[
                System::TautlineWire,
                System::Testpmd,
                System::TautlineLearning,
                System::OvsLearning,
                System::OvsPortFlow,
            ],
            _ => &[System::TautlinePort, System::Testpmd],
        }
    }

    /// The systems of other projects that do the same work, with which this system is compared.
    pub fn peers(self) -> &'static [System] {
        match self {
            System::TautlineWire => &[System::Testpmd, System::OvsPortFlow],
            System::TautlineLearning => &[System::OvsLearning],
            System::TautlinePort => &[System::Testpmd],
            System::TautlineFlows => &[System::OvsFlows],
            _ => &[],
        }
    }

    pub fn is_ovs(self) -> bool {
        matches!(self, System::OvsLearning | System::OvsPortFlow | System::OvsFlows)
    }
}

/// The program that drives the guest's end of the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum DriverKind {
    /// testpmd with `net_virtio_user` ports (`net_tap` if there are no rings); it does not touch payloads.
    Dpdk,
    /// The generator of this project; it writes and verifies every byte.
    Tautline,
}

impl DriverKind {
    pub fn title(self) -> &'static str {
        match self {
            DriverKind::Dpdk => "DPDK driver, payload not touched",
            DriverKind::Tautline => "Tautline generator, payload touched",
        }
    }
}

/// One cell of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cell {
    pub driver: DriverKind,
    pub topology: Topology,
    /// The ring path; `None` for TAPs, which have no rings that the two ends share.
    pub path: Option<RingPath>,
    /// The frame size as RFC 2544 counts it, with frame check sequence: 64 are 60 bytes in a buffer.
    pub frame_bytes: u16,
}

impl Cell {
    /// The driver's connection.
    pub fn ring(&self) -> String {
        self.path.as_ref().map_or_else(|| "TAP".to_owned(), name)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell { driver, topology, frame_bytes, .. } = self;
        write!(f, "{}, {}, {frame_bytes} B, {} driver", name(topology), self.ring(), name(driver))
    }
}

/// Whether frames of this size are among the smallest and the largest, which have all rounds, Open vSwitch, the bridge
/// and this project's generator.
pub fn is_headline(frame_bytes: u16) -> bool {
    matches!(frame_bytes, 64 | 1518)
}
