//! Bonds: several ports that are one link to another switch.
//!
//! A network knows a bond by one of its ports. Stations behind any port of the bond are learned behind this port, and a
//! flood has only this port as its target. [`Bonded`] lets each frame for it leave by one port of the bond. A station's
//! frames leave by one port as long as that port is up, so the other switch sees the station in one place.
use std::ops::Range;
use std::sync::Arc;

use frame::{DropReason, Frame, FrameBatch, HeadEdit, Metadata};
use virtio::net::MacAddress;

use crate::{
    Announced, Flooded, MacTable, Now, Output, PortId, PortVlans, Program, Reach, TablesId, WorkerFlows,
};

/// How the ports of a bond share its frames (ovs-vswitchd.conf.db(5), `bond_mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BondMode {
    /// One port carries all frames, and another one takes its place when it is down.
    #[default]
    ActiveBackup,
    /// All ports carry frames to the other switch, each frame by its source address. Frames for several stations are
    /// received on one port only.
    BalanceSlb,
}

impl BondMode {
    /// All modes.
    pub const ALL: [BondMode; 2] = [BondMode::ActiveBackup, BondMode::BalanceSlb];

    /// The mode's name in Open vSwitch.
    pub const fn name(self) -> &'static str {
        match self {
            BondMode::ActiveBackup => "active-backup",
            BondMode::BalanceSlb => "balance-slb",
        }
    }
}

/// By which ports the frames for a bond leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BondExits {
    /// The port by which the network knows the bond.
    pub port: PortId,
    /// The ports that carry frames.
    pub exits: Box<[PortId]>,
}

impl BondExits {
    /// The port by which the frames of a station leave. When a port goes or comes, only its own stations change.
    #[inline]
    fn of(&self, source: MacAddress) -> PortId {
        let weight = |exit: &&PortId| {
            let mixed = (source.to_u64() ^ u64::from(exit.0) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32
        };
        self.exits.iter().max_by_key(weight).copied().unwrap_or(self.port)
    }
}

/// A program of a network with bonds.
#[derive(Debug)]
pub struct Bonded {
    /// Decides about the frames of the port.
    pub inner: Box<dyn Program>,
    /// The bonds of the network.
    pub bonds: Arc<[BondExits]>,
    /// All ports of the network, those of its bonds included.
    pub reach: Arc<[PortId]>,
}

impl Program for Bonded {
    fn run(&self, batch: &FrameBatch, now: Now<'_>, output: &mut dyn Output) -> Flooded {
        self.inner.run(batch, now, &mut ByExits { output, batch, bonds: &self.bonds, edited: 0 })
    }

    fn reach(&self) -> Reach<'_> {
        Reach::Others(&self.reach)
    }

    fn announce(&self, address: MacAddress) -> Announced {
        self.inner.announce(address)
    }
}

/// Gives frames for a bond to one of its ports.
struct ByExits<'a> {
    output: &'a mut dyn Output,
    batch: &'a FrameBatch,
    bonds: &'a [BondExits],
    /// The first frame of the last edit.
    edited: u16,
}

impl ByExits<'_> {
    /// All frames that a program sends at once have the source address of the first.
    #[inline]
    fn exit(&self, to: PortId, first: u16) -> PortId {
        let bond = self.bonds.iter().find(|bond| bond.port == to);
        bond.map_or(to, |bond| bond.of(self.batch.frame(first.into()).source()))
    }
}

impl Output for ByExits<'_> {
    fn send(&mut self, to: PortId, frames: Range<u16>) -> bool {
        self.output.send(self.exit(to, frames.start), frames)
    }

    fn send_all(&mut self, _to: PortId) -> bool {
        false // the frames of a burst may leave by several ports
    }

    fn window(&mut self, frame: u16, bytes: usize) -> &[u8] {
        self.output.window(frame, bytes)
    }

    fn attach(&mut self, metadata: &Metadata) {
        self.output.attach(metadata);
    }

    fn edit(&mut self, frames: Range<u16>, edit: &HeadEdit<'_>) {
        self.edited = frames.start;
        self.output.edit(frames, edit);
    }

    fn send_edited(&mut self, to: PortId) -> bool {
        self.output.send_edited(self.exit(to, self.edited))
    }

    fn flows(&mut self, tables: TablesId) -> &mut Option<Box<WorkerFlows>> {
        self.output.flows(tables)
    }

    fn drop(&mut self, reason: DropReason, frames: u64) {
        self.output.drop(reason, frames);
    }
}

/// Which frames may come from a port of a bond that balances by source address. The other switch may send back what
/// left by one port of the bond on another one.
#[derive(Debug)]
pub struct BondGuard {
    /// The table of the network.
    pub table: Arc<MacTable>,
    /// The port by which the network knows the bond.
    pub port: PortId,
    /// Whether frames for several stations are received here.
    pub takes_groups: bool,
    /// The VLANs of the bond, if the network has VLANs.
    pub vlans: Option<PortVlans>,
}

impl BondGuard {
    /// Whether the frame did not come from this network itself.
    pub(crate) fn admits(&self, frame: &Frame<'_>) -> bool {
        if frame.destination().is_group() && !self.takes_groups {
            return false;
        }
        let vlan = self.vlans.as_ref().map_or(Some(0), |vlans| vlans.vlan_of(frame.snapshot()));
        // A frame of a wrong VLAN is refused as such.
        let Some(vlan) = vlan else { return true };
        self.table.lookup_in(vlan, frame.source()).is_none_or(|behind| behind == self.port)
    }
}

#[cfg(test)]
mod tests;
