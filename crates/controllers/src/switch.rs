//! What controllers ask of a switch.

use std::time::Duration;

use flow::Flow;

use openflow::{
    Counts, CtFlush, Failure, Features, FlowMod, GroupMod, MeterMod, MonitorEvent, PacketIn2, PacketOut,
    Port, PortMod, PortReason, RemovedReason, Reply, Request, TableMod, TlvMod, TlvTable, Version,
};

/// A change that a controller asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each names what it changes")]
pub enum Change {
    Flow(Box<FlowMod>),
    Group(Box<GroupMod>),
    Meter(MeterMod),
    Port(PortMod),
    Table(TableMod),
    /// A frame of the controller's.
    Packet(Box<PacketOut>),
}

/// A change that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Which one of several, from 0.
    pub index: usize,
    /// Why.
    pub failure: Failure,
}

/// What happened to a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowNews {
    /// What happened.
    pub event: MonitorEvent,
    /// Why, if the flow has ended.
    pub reason: RemovedReason,
    /// The flow as it is now; as it was, if it has ended.
    pub flow: Flow,
    /// What it counted.
    pub counts: Counts,
}

/// What controllers are told of without having asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Some controller follows all changes of flows. Otherwise only flows count that have ended and say that a controller
    /// is to be told of it.
    pub all_flows: bool,
    /// Flows that are new, changed or ended, in this order.
    pub flows: Vec<FlowNews>,
    /// Ports that are new, changed or gone.
    pub ports: Vec<(PortReason, Port)>,
}

/// An answer in parts, which are made when they are sent. The elements of one part are not separated.
pub type Answer = Box<dyn Iterator<Item = Reply> + Send>;

/// What controllers ask of a switch. No method waits for anything.
pub trait Switch {
    /// What the switch can do, as a version tells it.
    fn features(&self, version: Version) -> Features;

    /// What becomes of fragments: the two low bits of a configuration.
    fn fragments(&self) -> u16;

    /// Sets what becomes of fragments. What cannot be stays as it is.
    fn set_fragments(&mut self, flags: u16);

    /// Makes all changes or none. A frame sees all or none of them.
    ///
    /// # Errors
    /// The first change that is refused.
    fn change(
        &mut self,
        changes: &mut dyn Iterator<Item = Change>,
        version: Version,
        now: Duration,
        news: &mut News,
    ) -> Result<(), Rejected>;

    /// Answers a request for statistics or descriptions. What is answered is the state of now, even if its last part is
    /// made later.
    ///
    /// # Errors
    /// The request is refused.
    fn answer(&self, request: &Request, version: Version, now: Duration) -> Result<Answer, Failure>;

    /// Lets a frame go on that waits for its controller.
    ///
    /// # Errors
    /// The frame is not of this switch.
    fn resume(&mut self, packet: &PacketIn2, now: Duration) -> Result<(), Failure>;

    /// Which tunnel options are which fields.
    fn tlv_table(&self) -> TlvTable;

    /// Changes which tunnel options are which fields.
    ///
    /// # Errors
    /// The change is refused.
    fn change_tlv_table(&mut self, change: &TlvMod) -> Result<(), Failure>;

    /// Ends tracked connections.
    ///
    /// # Errors
    /// The request is refused.
    fn flush_connections(&mut self, which: &CtFlush) -> Result<(), Failure>;
}
