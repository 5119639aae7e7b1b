//! Bonds: several ports that are one link to another switch.
//!
//! A network knows a bond by one of its ports. Stations behind any port of the bond are learned behind this port, and a
//! flood has only this port as its target. [`Bonded`] lets each frame for it leave by one port of the bond. A station's
//! frames leave by one port as long as that port is up, so the other switch sees the station in one place.
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use frame::{DropReason, Frame, FrameBatch, HeadEdit, Metadata};
use virtio::net::MacAddress;

use crate::vlan::vlan_of;
use crate::{
    Announced, Flooded, Guard, MacTable, Now, Output, PortId, PortVlans, Program, Reach, TablesId,
    WorkerFlows,
};

/// How the ports of a bond share its frames (ovs-vswitchd.conf.db(5), `bond_mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BondMode {
    /// One port carries all frames, and another one takes its place when it is down.
    #[default]
    ActiveBackup,
    /// All ports carry frames to the other switch, each frame by its source address and VLAN. Frames for several
    /// stations are received on one port only.
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

/// Buckets of stations, as many as Open vSwitch has (`BOND_MASK`). All stations of a bucket leave by one port.
pub const BOND_BUCKETS: usize = 256;

/// The first bytes of a frame, with addresses, the outermost tag and the type behind the tag.
const HEAD_BYTES: usize = 18;

/// A random-looking number for each number (the finalizer of SplitMix64).
fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// The bucket of a station in a VLAN; 0 stands for no VLAN.
fn bucket(source: MacAddress, vlan: u16) -> usize {
    mixed(source.to_u64() ^ u64::from(vlan) << 48) as usize % BOND_BUCKETS
}

/// The bytes that have left a bond, by bucket.
#[derive(Debug)]
pub struct BondLoad([AtomicU64; BOND_BUCKETS]);

impl Default for BondLoad {
    fn default() -> Self {
        BondLoad([const { AtomicU64::new(0) }; BOND_BUCKETS])
    }
}

impl BondLoad {
    /// Two workers that count at the same time may lose one of the counts. Only the balance depends on them.
    #[inline]
    fn count(&self, bucket: usize, bytes: usize) {
        let count = &self.0[bucket];
        count.store(count.load(Ordering::Relaxed).wrapping_add(bytes as u64), Ordering::Relaxed);
    }

    /// The bytes since the last call, by bucket.
    pub fn take(&self) -> [u64; BOND_BUCKETS] {
        std::array::from_fn(|bucket| self.0[bucket].swap(0, Ordering::Relaxed))
    }
}

/// The ports by which buckets leave a bond that balances.
#[derive(Clone, Debug)]
pub struct Buckets {
    ports: Box<[PortId; BOND_BUCKETS]>,
    load: Arc<BondLoad>,
}

impl Buckets {
    /// Gives each bucket one of these ports: the one that `moved` has, or one chosen by the bucket's number. When a
    /// port goes or comes, only the buckets of that port change. `None` if there is no port.
    pub fn new(ports: &[PortId], moved: &BTreeMap<u8, PortId>, load: Arc<BondLoad>) -> Option<Self> {
        let mut chosen = Box::new([*ports.first()?; BOND_BUCKETS]);
        for (bucket, port) in (0..=u8::MAX).zip(chosen.iter_mut()) {
            let weight = |port: &&PortId| mixed(u64::from(bucket) << 16 | u64::from(port.0));
            let usual = ports.iter().max_by_key(weight).copied().unwrap_or(*port);
            *port = moved.get(&bucket).copied().filter(|moved| ports.contains(moved)).unwrap_or(usual);
        }
        Some(Buckets { ports: chosen, load })
    }

    /// The port of each bucket.
    pub fn ports(&self) -> &[PortId; BOND_BUCKETS] {
        &self.ports
    }

    /// The port by which frames of a station leave. Together the frames have this many bytes.
    #[inline]
    fn leave(&self, source: MacAddress, vlan: u16, bytes: usize) -> PortId {
        let bucket = bucket(source, vlan);
        self.load.count(bucket, bytes);
        self.ports[bucket]
    }
}

/// By which ports the frames for a bond leave.
#[derive(Clone, Debug)]
pub struct BondExits {
    /// The port by which the network knows the bond.
    pub port: PortId,
    /// The ports that carry frames.
    pub exits: Carriers,
}

/// The ports of a bond that carry frames.
#[derive(Clone, Debug)]
pub enum Carriers {
    /// All frames leave by this port.
    One(PortId),
    /// The frames of each station leave by the port of its bucket.
    ByStation(Buckets),
}

/// The bonds of a network, and its ports.
#[derive(Clone, Debug)]
pub struct BondedNetwork {
    /// The ports by which frames for the bonds leave.
    pub bonds: Arc<[BondExits]>,
    /// All ports of the network, including those of its bonds.
    pub ports: Arc<[PortId]>,
}

impl BondedNetwork {
    #[inline]
    fn bond(&self, port: PortId) -> Option<&Carriers> {
        self.bonds.iter().find(|bond| bond.port == port).map(|bond| &bond.exits)
    }

    /// The port by which a frame for `to` leaves; `head` has the first bytes of the frame.
    pub(crate) fn exit(&self, to: PortId, head: &[u8], bytes: usize) -> PortId {
        match self.bond(to) {
            None => to,
            Some(Carriers::One(port)) => *port,
            Some(Carriers::ByStation(buckets)) => buckets.leave(source_of(head), vlan_of(head), bytes),
        }
    }
}

fn source_of(head: &[u8]) -> MacAddress {
    MacAddress(head.get(6..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default())
}

/// The first bytes of a frame after an edit.
fn edited_head(snapshot: &[u8], edit: &HeadEdit<'_>) -> [u8; HEAD_BYTES] {
    let end = edit.at + edit.inserted.len();
    std::array::from_fn(|at| {
        let byte = if at < edit.at {
            snapshot.get(at)
        } else if at < end {
            edit.inserted.get(at - edit.at)
        } else {
            snapshot.get(at - edit.inserted.len() + edit.removed)
        };
        byte.copied().unwrap_or(0)
    })
}

/// A program of a network with bonds.
#[derive(Debug)]
pub struct Bonded {
    /// Decides about the frames of the port.
    pub inner: Box<dyn Program>,
    /// The bonds of the network.
    pub network: BondedNetwork,
}

impl Program for Bonded {
    fn run(&self, batch: &FrameBatch, now: Now<'_>, output: &mut dyn Output) -> Flooded {
        let edited = Edited { head: [0; HEAD_BYTES], bytes: 0 };
        self.inner.run(batch, now, &mut ByExits { output, batch, network: &self.network, edited })
    }

    fn reach(&self) -> Reach<'_> {
        Reach::Others(&self.network.ports)
    }

    fn announce(&self, address: MacAddress) -> Announced {
        self.inner.announce(address)
    }
}

/// The frames of the last edit.
struct Edited {
    /// The first bytes of each frame.
    head: [u8; HEAD_BYTES],
    /// The length of all frames together, without the edit.
    bytes: usize,
}

/// Gives frames for a bond to one of its ports.
struct ByExits<'a> {
    output: &'a mut dyn Output,
    batch: &'a FrameBatch,
    network: &'a BondedNetwork,
    edited: Edited,
}

impl ByExits<'_> {
    fn bytes(&self, frames: Range<u16>) -> usize {
        frames.map(|index| self.batch.frame(index.into()).len_bytes()).sum()
    }

    /// Frames of one source that leave as they came. A network without VLANs ignores their tags, a bond does not.
    fn send_by_station(&mut self, buckets: &Buckets, frames: Range<u16>) -> bool {
        let vlan = |index: u16| vlan_of(self.batch.frame(index.into()).snapshot());
        let (mut rest, mut is_sent, mut refused) = (frames, false, 0);
        while !rest.is_empty() {
            let of_first = vlan(rest.start);
            let same = (rest.start + 1..rest.end).take_while(|index| vlan(*index) == of_first).count() as u16;
            let frames = rest.start..rest.start + 1 + same;
            rest.start = frames.end;
            let source = self.batch.frame(frames.start.into()).source();
            let port = buckets.leave(source, of_first, self.bytes(frames.clone()));
            match self.output.send(port, frames.clone()) {
                true => is_sent = true,
                false => refused += frames.len() as u64,
            }
        }
        if is_sent && refused > 0 {
            self.output.drop(DropReason::NotConnected, refused);
        }
        is_sent
    }
}

impl Output for ByExits<'_> {
    fn send(&mut self, to: PortId, frames: Range<u16>) -> bool {
        let network = self.network;
        match network.bond(to) {
            None => self.output.send(to, frames),
            Some(Carriers::One(port)) => self.output.send(*port, frames),
            Some(Carriers::ByStation(buckets)) => self.send_by_station(buckets, frames),
        }
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
        let head = edited_head(self.batch.frame(frames.start.into()).snapshot(), edit);
        self.edited = Edited { head, bytes: self.bytes(frames.clone()) };
        self.output.edit(frames, edit);
    }

    fn send_edited(&mut self, to: PortId) -> bool {
        let exit = self.network.exit(to, &self.edited.head, self.edited.bytes);
        self.output.send_edited(exit)
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

impl Guard for BondGuard {
    /// Whether the frame did not come from this network itself.
    fn admits(&self, frame: &Frame<'_>) -> bool {
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
