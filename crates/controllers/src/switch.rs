//! The requests of controllers to a switch.

use std::time::Duration;

use flow::Flow;

use openflow::{
    Counts, CtFlush, Failure, Features, FlowMod, GroupMod, MeterMod, MonitorEvent, PacketIn2, PacketOut,
    Port, PortMod, PortReason, RemovedReason, Reply, Request, TableMod, TlvMod, TlvTable, Version,
};

/// A change that a controller requests.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each names what it changes")]
pub enum Change {
    Flow(Box<FlowMod>),
    Group(Box<GroupMod>),
    Meter(MeterMod),
    Port(PortMod),
    Table(TableMod),
    /// A frame that the controller sends.
    Packet(Box<PacketOut>),
}

/// A change that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The index of the refused change, from 0.
    pub index: usize,
    /// The reason for the refusal.
    pub failure: Failure,
}

/// An event of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowNews {
    /// The kind of event.
    pub event: MonitorEvent,
    /// Why the flow has ended, if it has.
    pub reason: RemovedReason,
    /// The flow after the event; for a flow that has ended, its last state.
    pub flow: Flow,
    /// The flow's counts.
    pub counts: Counts,
}

/// Changes of which controllers are notified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Whether a controller monitors flows. If not, `flows` needs only the ended flows that request a notification of
    /// their end.
    pub all_flows: bool,
    /// The events of flows, in the order in which they happened.
    pub flows: Vec<FlowNews>,
    /// The ports that were added, changed or removed.
    pub ports: Vec<(PortReason, Port)>,
}

/// An answer in parts, each of which is made when it is sent. The elements of one part stay in one message.
pub type Answer = Box<dyn Iterator<Item = Reply> + Send>;

/// A switch that controllers control. No method blocks.
pub trait Switch {
    /// The features of the switch in a version.
    fn features(&self, version: Version) -> Features;

    /// The handling of fragments: the two low bits of a configuration's flags.
    fn fragments(&self) -> u16;

    /// Sets the handling of fragments. A value that the switch does not support changes nothing.
    fn set_fragments(&mut self, flags: u16);

    /// A controller has agreed on a version: the switch is controlled from now on. Programs of the management socket do not
    /// count.
    fn begin_control(&mut self, _now: Duration) {}

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

    /// Answers a request for statistics or descriptions. The answer contains the state at the time of the call,
    /// although its parts are made later.
    ///
    /// # Errors
    /// The request is refused.
    fn answer(&self, request: &Request, version: Version, now: Duration) -> Result<Answer, Failure>;

    /// Continues a frame that waits for its controller.
    ///
    /// # Errors
    /// The frame does not come from this switch.
    fn resume(&mut self, packet: &PacketIn2, now: Duration) -> Result<(), Failure>;

    /// The assignment of tunnel options to fields.
    fn tlv_table(&self) -> TlvTable;

    /// Changes the assignment of tunnel options to fields.
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
