//! The messages of a front-end that are still in effect. They bring a new session to the state of this one.
//!
//! A back-end that hands its connection over to another process hands these messages over too. The format is the
//! protocol itself, so the other process checks these messages like all others.
use std::collections::BTreeMap;

use crate::SharedFd;
use crate::codec::Message;
use crate::codec::frontend_request::FrontendRequest as Request;
use crate::codec::payload::{MemoryRegion, SingleRegion, VringState};

/// One message that was accepted.
#[derive(Debug)]
pub(super) struct Said {
    id: u32,
    payload: Vec<u8>,
    fds: Vec<SharedFd>,
    /// How often a region was added: QEMU before 8.0 adds each region once for every queue pair.
    times: u32,
}

impl Said {
    fn without_fds(request: &Request) -> Self {
        Said { id: request.id(), payload: request.payload(), fds: vec![], times: 1 }
    }

    /// Whether it has added this region, by its addresses and size.
    fn adds(&self, region: &MemoryRegion) -> bool {
        let key = |region: &MemoryRegion| (region.guest_address, region.user_address, region.size_bytes);
        matches!(Request::reread(self.id, &self.payload), Some(Request::AddMemReg(added)) if key(&added.0) == key(region))
    }

    fn repeated(&self) -> Message {
        Message::new(self.id, self.payload.clone(), self.fds.clone())
    }
}

/// The order in which messages are repeated. Rings come one after the other, each with its kick last, because the
/// kick starts the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Owner,
    ProtocolFeatures,
    Features,
    Mtu,
    Memory,
    Region(u64),
    Log,
    InFlight,
    Channel,
    Ring(u32, RingPlace),
    Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RingPlace {
    Size,
    Addresses,
    Base,
    Call,
    Error,
    Enable,
    Kick,
}

/// The effect of an accepted message.
#[derive(Debug)]
pub(super) enum Entry {
    Nothing,
    Said(Place, Said),
    Table(Said),
    Region(MemoryRegion, Said),
    RegionGone(MemoryRegion),
    Stopped(u32),
    Reset,
}

impl Entry {
    /// Extracts what must be remembered of a message, before its descriptors are passed to the code that acts on it.
    pub(super) fn of(request: &Request, message: &Message) -> Self {
        let said = || Said {
            id: message.header.id,
            payload: message.payload.clone(),
            fds: message.fds.clone(),
            times: 1,
        };
        let ring = |index: u32, place: RingPlace| Entry::Said(Place::Ring(index, place), said());
        match request {
            Request::SetOwner => Entry::Said(Place::Owner, said()),
            Request::SetProtocolFeatures(_) => Entry::Said(Place::ProtocolFeatures, said()),
            Request::SetFeatures(_) => Entry::Said(Place::Features, said()),
            Request::NetSetMtu(_) => Entry::Said(Place::Mtu, said()),
            Request::SetMemTable(_) => Entry::Table(said()),
            Request::AddMemReg(region) => Entry::Region(region.0, said()),
            Request::RemMemReg(region) => Entry::RegionGone(region.0),
            Request::SetLogBase(_) => Entry::Said(Place::Log, said()),
            Request::SetInflightFd(_) => Entry::Said(Place::InFlight, said()),
            Request::SetBackendReqFd => Entry::Said(Place::Channel, said()),
            Request::SetVringNum(state) => ring(state.index, RingPlace::Size),
            Request::SetVringAddr(address) => ring(address.index, RingPlace::Addresses),
            Request::SetVringBase(state) => ring(state.index, RingPlace::Base),
            Request::SetVringKick(vring) => ring(vring.index.into(), RingPlace::Kick),
            Request::SetVringCall(vring) => ring(vring.index.into(), RingPlace::Call),
            Request::SetVringErr(vring) => ring(vring.index.into(), RingPlace::Error),
            Request::SetVringEnable(state) => ring(state.index, RingPlace::Enable),
            Request::GetVringBase(state) => Entry::Stopped(state.index),
            Request::ResetDevice => Entry::Reset,
            Request::SetStatus(_) => Entry::Said(Place::Status, said()),
            _ => Entry::Nothing,
        }
    }
}

/// The messages that are in effect.
#[derive(Debug, Default)]
pub(super) struct Journal {
    said: BTreeMap<Place, Said>,
    regions: u64,
}

impl Journal {
    pub(super) fn record(&mut self, entry: Entry) {
        match entry {
            Entry::Nothing => {}
            Entry::Said(place, said) => _ = self.said.insert(place, said),
            Entry::Table(said) => {
                self.said.retain(|place, _| !matches!(place, Place::Region(_)));
                self.said.insert(Place::Memory, said);
            }
            Entry::Region(region, said) => match self.region(&region) {
                Some((_, there)) => there.times = there.times.saturating_add(1),
                None => self.add_region(said),
            },
            Entry::RegionGone(gone) => self.region_gone(&gone),
            Entry::Stopped(index) => _ = self.said.remove(&Place::Ring(index, RingPlace::Kick)),
            Entry::Reset => self.said.retain(|place, _| {
                use Place::{Features, InFlight, Log, Ring, Status};
                !matches!(place, Features | Log | InFlight | Status | Ring(..))
            }),
        }
    }

    /// Regions that were added more than once, with their counts. Their messages are repeated once.
    pub(super) fn counts(&self) -> impl Iterator<Item = (MemoryRegion, u32)> {
        self.said.values().filter(|said| said.times > 1).filter_map(|said| {
            match Request::reread(said.id, &said.payload) {
                Some(Request::AddMemReg(added)) => Some((added.0, said.times)),
                _ => None,
            }
        })
    }

    /// Sets how often an existing region was added.
    pub(super) fn set_count(&mut self, region: &MemoryRegion, times: u32) {
        if let Some((_, said)) = self.region(region) {
            said.times = times;
        }
    }

    /// Notes that a stopped ring continues at `base`.
    pub(super) fn stopped_at(&mut self, index: u32, base: u32) {
        let said = Said::without_fds(&Request::SetVringBase(VringState { index, num: base }));
        self.said.insert(Place::Ring(index, RingPlace::Base), said);
    }

    fn add_region(&mut self, said: Said) {
        self.regions += 1;
        self.said.insert(Place::Region(self.regions), said);
    }

    fn region(&mut self, region: &MemoryRegion) -> Option<(Place, &mut Said)> {
        let mut said = self.said.iter_mut().filter(|(place, _)| matches!(place, Place::Region(_)));
        said.find(|(_, said)| said.adds(region)).map(|(place, said)| (*place, said))
    }

    fn region_gone(&mut self, gone: &MemoryRegion) {
        match self.region(gone) {
            Some((_, there)) if there.times > 1 => there.times -= 1,
            Some((place, _)) => _ = self.said.remove(&place),
            // The region was in the table: its removal is repeated behind the table.
            None => self.add_region(Said::without_fds(&Request::RemMemReg(SingleRegion(*gone)))),
        }
    }

    /// The messages, in an order that a new session accepts. `bases` are the present positions of running rings.
    pub(super) fn messages(&self, bases: &BTreeMap<u32, u32>, enables: bool) -> Vec<Message> {
        let mut messages = Vec::new();
        for (place, said) in &self.said {
            match place {
                Place::Ring(index, RingPlace::Base) if bases.contains_key(index) => {}
                // Enabled all at once, for the feature was not agreed on.
                Place::Ring(_, RingPlace::Enable) if !enables => {}
                Place::Ring(index, RingPlace::Kick) => {
                    if let Some(&num) = bases.get(index) {
                        let base = Request::SetVringBase(VringState { index: *index, num });
                        messages.push(base.to_message(vec![]));
                    }
                    messages.push(said.repeated());
                }
                _ => messages.push(said.repeated()),
            }
        }
        messages
    }
}
