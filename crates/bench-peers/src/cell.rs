//! What is measured: ring paths, topologies, systems.
use std::fmt;

use peers::Pages;
use peers::testpmd::Vdev;
use port::virtio_user::VirtioUserOptions;
use serde::{Deserialize, Serialize};

/// Which features the driver asks for, and thereby which code moves its frames at both ends.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum RingPath {
    /// Split ring, nothing else.
    Split,
    /// Split ring, mergeable receive buffers.
    SplitMergeable,
    /// Split ring, buffers used in order.
    SplitInOrder,
    /// Split ring, DPDK's receive path with vector instructions.
    SplitVectorised,
    /// Packed ring, nothing else.
    Packed,
    /// Packed ring, mergeable receive buffers.
    PackedMergeable,
    /// Packed ring, buffers used in order.
    PackedInOrder,
    /// Packed ring in order, DPDK's driver with vector instructions (AVX-512).
    PackedVectorised,
}

impl RingPath {
    pub const ALL: [RingPath; 8] = [
        RingPath::Split,
        RingPath::PackedInOrder,
        RingPath::Packed,
        RingPath::SplitInOrder,
        RingPath::SplitMergeable,
        RingPath::PackedMergeable,
        RingPath::PackedVectorised,
        RingPath::SplitVectorised,
    ];

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

    /// A property of DPDK's driver: on the ring it looks like another path.
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

    /// Our own driver with these features, and rings of so many entries.
    pub fn options(self, socket: &std::path::Path, entries: u16, pages: Pages) -> VirtioUserOptions {
        VirtioUserOptions {
            queue_size: entries,
            buffers: entries,
            packed: self.is_packed(),
            mergeable: self.is_mergeable(),
            in_order: self.is_in_order(),
            // As DPDK's driver has it.
            offloads: false,
            pages: match pages {
                Pages::Small => port::virtio_user::Pages::Small,
                Pages::Huge => port::virtio_user::Pages::Huge2M,
            },
            ..VirtioUserOptions::new(socket)
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            RingPath::Split => "split",
            RingPath::SplitMergeable => "split mergeable",
            RingPath::SplitInOrder => "split in-order",
            RingPath::SplitVectorised => "split vectorised",
            RingPath::Packed => "packed",
            RingPath::PackedMergeable => "packed mergeable",
            RingPath::PackedInOrder => "packed in-order",
            RingPath::PackedVectorised => "packed vectorised",
        }
    }
}

/// How a TAP's driver hands frames to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Tap {
    /// A system call for each frame.
    #[serde(rename = "tap")]
    SystemCalls,
    /// A virtqueue that the kernel's vhost-net serves.
    #[serde(rename = "tap-vhost-net")]
    VhostNet,
}

/// What is between a driver and a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Link {
    /// Virtqueues over vhost-user.
    Ring(RingPath),
    /// The kernel, which has no rings that the two share.
    Tap(Tap),
}

/// Where the frames go; one switch core in each.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// Two ports; what comes from one guest goes to the other, both ways at once.
    Vm2vm,
    /// One port; frames go back with their addresses changed.
    Loop,
    /// The guest sends, the host drops.
    GuestToHost,
    /// The host sends, the guest drops.
    HostToGuest,
}

impl Topology {
    pub const ALL: [Topology; 4] =
        [Topology::Vm2vm, Topology::Loop, Topology::GuestToHost, Topology::HostToGuest];

    pub fn name(self) -> &'static str {
        match self {
            Topology::GuestToHost => "guest to host",
            Topology::HostToGuest => "host to guest",
            Topology::Loop => "loop with MAC forwarding",
            Topology::Vm2vm => "VM2VM",
        }
    }

    /// Ports of the device.
    pub fn ports(self) -> usize {
        if self == Topology::Vm2vm { 2 } else { 1 }
    }
}

/// What is at the host's end of the rings.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// `tautline switch --wire`.
    TautlineWire,
    /// `tautline switch`, addresses learned.
    TautlineLearning,
    /// A `vhost-user:` port of ours without the switch: sends, drops or reflects.
    TautlinePort,
    /// testpmd with `net_vhost` ports: what the others are held against.
    Testpmd,
    /// Open vSwitch with DPDK, addresses learned.
    OvsLearning,
    /// Open vSwitch with DPDK, a flow from port to port.
    OvsPortFlow,
    /// The kernel's bridge between two TAPs: what there is without any switch in user space. It has no rings and no core of its own, so it stands
    /// in cells of its own and takes no turns with the others.
    #[value(skip)]
    KernelBridge,
}

impl System {
    /// Those that have a say in a topology, in the order in which they take turns.
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

    /// The peers that do the same work: those it is held against.
    pub fn peers(self) -> &'static [System] {
        match self {
            System::TautlineWire => &[System::Testpmd, System::OvsPortFlow],
            System::TautlineLearning => &[System::OvsLearning],
            System::TautlinePort => &[System::Testpmd],
            _ => &[],
        }
    }

    pub fn is_ours(self) -> bool {
        matches!(self, System::TautlineWire | System::TautlineLearning | System::TautlinePort)
    }

    pub fn is_ovs(self) -> bool {
        matches!(self, System::OvsLearning | System::OvsPortFlow)
    }

    pub fn name(self) -> &'static str {
        match self {
            System::TautlineWire => "tautline switch, wire",
            System::TautlineLearning => "tautline switch, learning",
            System::TautlinePort => "tautline port",
            System::Testpmd => "DPDK testpmd",
            System::OvsLearning => "OVS-DPDK, learning",
            System::OvsPortFlow => "OVS-DPDK, port flow",
            System::KernelBridge => "kernel bridge",
        }
    }
}

/// Who drives the guest's end of the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriverKind {
    /// testpmd with `net_virtio_user` ports (`net_tap` where there are no rings); it does not touch payloads.
    Dpdk,
    /// The generator of this project; it writes and verifies every byte.
    Tautline,
}

impl DriverKind {
    pub fn name(self) -> &'static str {
        match self {
            DriverKind::Dpdk => "DPDK driver, payload not touched",
            DriverKind::Tautline => "Tautline generator, payload touched",
        }
    }
}

/// One cell of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Cell {
    pub driver: DriverKind,
    pub topology: Topology,
    #[serde(rename = "path")]
    pub link: Link,
    /// As RFC 2544 counts it, with frame check sequence: 64 are 60 bytes in a buffer.
    pub frame_bytes: u16,
}

impl Cell {
    /// How the driver is connected.
    pub fn link_name(&self) -> &'static str {
        match (self.link, self.driver) {
            (Link::Ring(path), _) => path.name(),
            (Link::Tap(Tap::SystemCalls), DriverKind::Dpdk) => "TAP, net_tap",
            (Link::Tap(Tap::SystemCalls), DriverKind::Tautline) => "TAP, tap: port",
            (Link::Tap(Tap::VhostNet), _) => "TAP, vhost-net",
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {} B", self.topology.name(), self.link_name(), self.frame_bytes)
    }
}

/// Whether frames of this size are among the smallest and the largest, which have all rounds, Open vSwitch, the bridge
/// and our generator.
pub fn is_headline(frame_bytes: u16) -> bool {
    matches!(frame_bytes, 64 | 1518)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_between_driver_and_system_has_a_name() {
        let cell = |driver, link| Cell { driver, topology: Topology::Vm2vm, link, frame_bytes: 64 };
        let tap = |driver, tap| cell(driver, Link::Tap(tap));
        for (cell, name, word) in [
            (
                cell(DriverKind::Dpdk, Link::Ring(RingPath::PackedInOrder)),
                "packed in-order",
                "packed-in-order",
            ),
            (tap(DriverKind::Dpdk, Tap::SystemCalls), "TAP, net_tap", "tap"),
            (tap(DriverKind::Tautline, Tap::SystemCalls), "TAP, tap: port", "tap"),
            (tap(DriverKind::Dpdk, Tap::VhostNet), "TAP, vhost-net", "tap-vhost-net"),
        ] {
            assert_eq!(cell.link_name(), name);
            let json = serde_json::to_value(cell).unwrap();
            assert_eq!(json["path"], word);
            assert_eq!(serde_json::from_value::<Cell>(json).unwrap(), cell);
        }
    }
}
