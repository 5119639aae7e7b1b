//! The bridge, as the switch behind OpenFlow sessions.

use std::sync::Arc;
use std::time::Duration;

use controllers::{Answer, Change, News, PacketFor, Rejected, Switch};
use flow::{Key, Learn, port};
use flow_tables::{Limits, PacketIn, Tables};
use openflow::{
    CtFlush, Description, Failure, Features, PacketIn2, PortReason, Reply, Request, TlvMap, TlvMod, TlvTable,
    Version,
};

use crate::flows::TABLES;
use crate::port::{BridgePort, PortCounts};
use crate::punted::{self, SentFrame};
use crate::state::State;
use crate::tunnel_options;

/// Bits of the capabilities of a switch (OpenFlow 1.5 §7.3.1): statistics of flows, tables, ports, groups and queues;
/// bundles.
const CAPABILITIES: u32 = 1 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 6;
const BUNDLES: u32 = 1 << 9;
/// OpenFlow 1.0: statistics of flows, tables, ports and queues; matches on addresses in ARP.
const CAPABILITIES_10: u32 = 1 | 1 << 1 | 1 << 2 | 1 << 6 | 1 << 7;
/// OpenFlow 1.0: all of its actions.
const ACTIONS_10: u32 = 0xfff;
/// The handling of fragments: the same as of other frames.
const NORMAL_FRAGMENTS: u16 = 0;
const DROP_FRAGMENTS: u16 = 1;

/// The facts by which controllers identify a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The bridge's number (datapath id).
    pub datapath_id: u64,
    /// The bridge's maker, hardware and software.
    pub description: Description,
}

/// A bridge: its flows, groups, meters and ports.
#[derive(Clone, Debug)]
pub struct Bridge {
    identity: Identity,
    /// A number that no other bridge has.
    number: u64,
    state: State,
    fragments: u16,
    options: Vec<TlvMap>,
    sent: Vec<SentFrame>,
    /// Zones whose connections the caller has to end; `None` stands for all zones.
    flushed: Vec<CtFlush>,
}

impl Bridge {
    /// A bridge without ports and flows. The bridge reads at most `max_tags` VLAN tags of a frame. `seed` is the start
    /// value of hashes and must be random.
    pub fn new(identity: Identity, max_tags: u8, seed: u64, limits: Limits) -> Self {
        Self {
            identity,
            number: punted::number(),
            state: State::new(max_tags, seed, limits),
            fragments: NORMAL_FRAGMENTS,
            options: Vec::new(),
            sent: Vec::new(),
            flushed: Vec::new(),
        }
    }

    /// The flows and groups.
    pub fn tables(&self) -> &Tables {
        &self.state.tables
    }

    /// The tunnel options that controllers have assigned to fields.
    pub fn tunnel_options(&self) -> &[TlvMap] {
        &self.options
    }

    /// Adds a port, or changes one with the same number.
    pub fn set_port(&mut self, number: u16, port: BridgePort, news: &mut News) {
        let ports = Arc::make_mut(&mut self.state.ports);
        let before = ports.get(&number).map(|before| (before.config, before.since));
        let reason = if before.is_some() { PortReason::Modify } else { PortReason::Add };
        // The settings of controllers and the age outlive a change of the link.
        let (config, since) = before.unwrap_or((port.config, port.since));
        let port = BridgePort { config, since, ..port };
        news.ports.push((reason, port.described(number)));
        ports.insert(number, port);
    }

    /// Sets the counts of a port, if it is there.
    pub fn set_counts(&mut self, number: u16, counts: PortCounts) {
        if let Some(port) = Arc::make_mut(&mut self.state.ports).get_mut(&number) {
            port.counts = counts;
        }
    }

    /// Removes a port.
    pub fn remove_port(&mut self, number: u16, news: &mut News) {
        if let Some(port) = Arc::make_mut(&mut self.state.ports).remove(&number) {
            news.ports.push((PortReason::Delete, port.described(number)));
        }
    }

    /// Deletes the flows whose idle or hard timeout has passed at `now`.
    pub fn expire(&mut self, now: Duration, news: &mut News) {
        self.state.expire(now, news);
    }

    /// A frame for controllers. `data` are the bytes that they get of the `full_bytes` bytes of the frame. `None` if the
    /// frame waits and its actions have no form in OpenFlow.
    pub fn packet_for(&self, packet: &PacketIn, data: Vec<u8>, full_bytes: usize) -> Option<PacketFor> {
        punted::packet_for(self.number, packet, data, full_bytes)
    }

    /// Adds the flow that a frame with these fields learns.
    pub fn learn(&mut self, learn: &Learn, key: &Key, now: Duration, news: &mut News) {
        self.state.learn(learn, key, now, news);
    }

    /// Takes the frames that controllers have sent to the bridge, or let continue, since the last call.
    pub fn take_sent(&mut self) -> Vec<SentFrame> {
        std::mem::take(&mut self.sent)
    }

    /// Reads at most this number of VLAN tags of each frame from now on.
    pub fn set_max_tags(&mut self, max_tags: u8) {
        self.state.tables.set_max_tags(max_tags);
    }

    /// Takes the selections of the tracked connections that controllers end.
    pub fn take_flushed(&mut self) -> Vec<CtFlush> {
        std::mem::take(&mut self.flushed)
    }

    fn make(
        &mut self,
        change: Change,
        version: Version,
        now: Duration,
        news: &mut News,
    ) -> Result<(), Failure> {
        match change {
            Change::Flow(change) => self.state.change_flows(&change, version, now, news),
            Change::Group(change) => self.state.change_groups(*change, version, now, news),
            Change::Meter(change) => self.state.change_meters(change, now, news),
            Change::Port(change) => self.state.change_port(&change, news),
            Change::Table(change) if change.config == 0 => Ok(()),
            Change::Table(_) => Err(Failure::TableModConfig),
            Change::Packet(packet) => {
                if packet.buffer.is_some() {
                    return Err(Failure::BufferUnknown);
                }
                let input = packet.input();
                if input >= port::FIRST_RESERVED
                    && input != port::LOCAL
                    && input != port::CONTROLLER
                    && input != port::ANY
                {
                    return Err(Failure::BadPort);
                }
                self.sent.push((*packet).into());
                Ok(())
            }
        }
    }
}

impl Switch for Bridge {
    fn features(&self, version: Version) -> Features {
        let old = version == Version::V10;
        let bundles = if version >= Version::V14 { BUNDLES } else { 0 };
        let ports = self.state.ports_in_order();
        Features {
            datapath_id: self.identity.datapath_id,
            buffers: 0,
            tables: TABLES,
            auxiliary: 0,
            capabilities: if old { CAPABILITIES_10 } else { CAPABILITIES | bundles },
            actions: if old { ACTIONS_10 } else { 0 },
            ports: ports.into_iter().map(|(number, port)| port.described(number)).collect(),
        }
    }

    fn fragments(&self) -> u16 {
        self.fragments
    }

    fn set_fragments(&mut self, flags: u16) {
        // Open vSwitch puts no fragments together either at this place; connection tracking does.
        if matches!(flags, NORMAL_FRAGMENTS | DROP_FRAGMENTS) {
            self.fragments = flags;
        }
    }

    fn change(
        &mut self,
        changes: &mut dyn Iterator<Item = Change>,
        version: Version,
        now: Duration,
        news: &mut News,
    ) -> Result<(), Rejected> {
        let Some(first) = changes.next() else { return Ok(()) };
        let second = changes.next();
        // A single change is made as a whole or not at all. Several changes need a copy of the former state.
        let before = second.is_some().then(|| self.state.clone());
        let (flows, ports, sent) = (news.flows.len(), news.ports.len(), self.sent.len());
        let all = std::iter::once(first).chain(second).chain(changes);
        for (index, change) in all.enumerate() {
            if let Err(failure) = self.make(change, version, now, news) {
                if let Some(before) = before {
                    self.state = before;
                }
                news.flows.truncate(flows);
                news.ports.truncate(ports);
                self.sent.truncate(sent);
                return Err(Rejected { index, failure });
            }
        }
        Ok(())
    }

    fn answer(&self, request: &Request, version: Version, now: Duration) -> Result<Answer, Failure> {
        match request {
            Request::Description => {
                let description = Box::new(self.identity.description.clone());
                Ok(Box::new(std::iter::once(Reply::Description(description))))
            }
            _ => self.state.answer(request, version, now),
        }
    }

    fn resume(&mut self, packet: &PacketIn2, _: Duration) -> Result<(), Failure> {
        let frame = punted::resumed(self.number, packet)?;
        self.sent.push(frame);
        Ok(())
    }

    fn tlv_table(&self) -> TlvTable {
        TlvTable {
            max_bytes: tunnel_options::MAX_BYTES,
            max_fields: tunnel_options::MAX_FIELDS,
            maps: self.options.clone(),
        }
    }

    fn change_tlv_table(&mut self, change: &TlvMod) -> Result<(), Failure> {
        self.options = tunnel_options::changed(&self.options, change)?;
        Ok(())
    }

    fn flush_connections(&mut self, which: &CtFlush) -> Result<(), Failure> {
        if !self.flushed.contains(which) {
            self.flushed.push(which.clone());
        }
        Ok(())
    }
}
