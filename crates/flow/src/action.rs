//! The actions of a flow on a frame.
use std::net::IpAddr;
use std::sync::Arc;

use crate::{Field, Match};

/// Reserved ports (OpenFlow 1.5 §7.2.1), as the 16 bits that Open vSwitch uses.
pub mod port {
    #![allow(missing_docs, reason = "OpenFlow's names")]
    /// The first number that belongs to no port.
    pub const FIRST_RESERVED: u16 = 0xff00;
    pub const UNSET: u16 = 0xfff7;
    pub const IN_PORT: u16 = 0xfff8;
    pub const TABLE: u16 = 0xfff9;
    pub const NORMAL: u16 = 0xfffa;
    pub const FLOOD: u16 = 0xfffb;
    pub const ALL: u16 = 0xfffc;
    pub const CONTROLLER: u16 = 0xfffd;
    pub const LOCAL: u16 = 0xfffe;
    pub const ANY: u16 = 0xffff;
}

/// Some bits of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subfield {
    /// The field.
    pub field: Field,
    /// The lowest bit.
    pub start: u32,
    /// The number of bits.
    pub bits: u32,
}

impl Subfield {
    /// All bits of a field.
    pub fn whole(field: Field) -> Self {
        Self { field, start: 0, bits: field.bits() }
    }

    /// A value with this number of bits set, from bit 0.
    pub fn all_bits(self) -> u128 {
        u128::MAX >> (128 - self.bits)
    }

    /// The mask of these bits in the field.
    pub fn mask(self) -> u128 {
        self.all_bits() << self.start
    }
}

/// The reason why a frame goes to a controller (OpenFlow 1.5 §7.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "OpenFlow's names")]
pub enum Reason {
    NoMatch,
    Action,
    InvalidTtl,
    ActionSet,
    Group,
    PacketOut,
}

/// The action that sends a frame to a controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Controller {
    /// The largest number of the frame's bytes that the controller gets.
    pub max_bytes: u16,
    /// The controller's id.
    pub id: u16,
    /// The reason that the controller is given.
    pub reason: Reason,
    /// Bytes for the controller.
    pub userdata: Vec<u8>,
    /// Whether the frame waits until the controller lets it continue.
    pub pause: bool,
    /// The meter for these frames; 0 for none.
    pub meter: u32,
}

impl Default for Controller {
    fn default() -> Self {
        let userdata = Vec::new();
        Self { max_bytes: u16::MAX, id: 0, reason: Reason::Action, userdata, pause: false, meter: 0 }
    }
}

/// A zone of connection tracking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "a number, or bits of a field")]
pub enum Zone {
    Number(u16),
    Of(Subfield),
}

/// The address that is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each names its address")]
pub enum NatSide {
    Source,
    Destination,
}

/// Address translation of new connections. `side` is `None` for connections that have a translation already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Nat {
    /// The address that is translated.
    pub side: Option<NatSide>,
    /// The first and the last address.
    pub addresses: Option<(IpAddr, IpAddr)>,
    /// The first and the last port.
    pub ports: Option<(u16, u16)>,
    /// Whether the mapping outlives restarts.
    pub persistent: bool,
    /// Whether a hash chooses the port.
    pub hash: bool,
    /// Whether the port is chosen at random.
    pub random: bool,
}

/// Connection tracking.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ct {
    /// Whether the connection is kept.
    pub commit: bool,
    /// Whether a connection in the other direction is replaced.
    pub force: bool,
    /// The table in which the frame continues, with its connection's state.
    pub table: Option<u8>,
    /// The zone.
    pub zone: Zone,
    /// The protocol whose data connections are related, given by its control port: 21 is FTP, 69 TFTP.
    pub helper: u16,
    /// Address translation.
    pub nat: Option<Nat>,
    /// The actions that write the connection's mark and label.
    pub exec: Vec<Action>,
}

/// A part of a learned flow that is taken from the frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LearnSpec {
    /// The flow's match has this value in these bits.
    MatchValue(Subfield, u128),
    /// The first bits of the flow's match have the value of the frame's second bits.
    MatchField(Subfield, Subfield),
    /// The flow sets these bits to this value.
    LoadValue(u128, Subfield),
    /// The flow sets the second bits to the value of the frame's first bits.
    LoadField(Subfield, Subfield),
    /// The flow outputs to the port whose number is in these bits of the frame.
    Output(Subfield),
}

/// A flow that a frame creates.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Learn {
    /// The flow's table.
    pub table: u8,
    /// The flow's time limits.
    pub timeouts: Timeouts,
    /// The flow's idle and hard time after a FIN or RST, in s; 0 makes no change.
    pub fin_timeouts: (u16, u16),
    /// The flow's priority.
    pub priority: u16,
    /// The flow's cookie.
    pub cookie: u64,
    /// Whether the controller is informed of the flow's end.
    pub send_removed: bool,
    /// Whether the flow is deleted with the flow that learned it.
    pub delete_learned: bool,
    /// The largest number of flows with this cookie in the table; 0 for any number.
    pub limit: u32,
    /// The bit that reports whether there was space for the flow.
    pub result: Option<Subfield>,
    /// The flow's match and actions.
    pub specs: Vec<LearnSpec>,
}

impl Default for Learn {
    fn default() -> Self {
        Self {
            table: 1,
            timeouts: Timeouts::default(),
            fin_timeouts: (0, 0),
            priority: Flow::DEFAULT_PRIORITY,
            cookie: 0,
            send_removed: false,
            delete_learned: false,
            limit: 0,
            result: None,
            specs: Vec::new(),
        }
    }
}

/// The time limits of a flow in s; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Timeouts {
    /// The time after the flow's last frame.
    pub idle: u16,
    /// The time after the flow was added.
    pub hard: u16,
}

/// The fields of a frame from which a choice computes its hash (ovs-actions(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names of ovs-actions(7)")]
pub enum HashFields {
    EthSrc,
    SymmetricL4,
    SymmetricL3L4,
    SymmetricL3L4Udp,
    SymmetricL3,
    NwSrc,
    NwDst,
}

/// A choice among the ports that are up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bundle {
    /// The fields from which the hash is computed.
    pub fields: HashFields,
    /// The initial value of the hash.
    pub basis: u16,
    /// Whether the port with the highest random weight is chosen; otherwise the first port that is up.
    pub by_weight: bool,
    /// The ports.
    pub members: Vec<u16>,
    /// The field to which the port is written; `None` sends the frame to the port.
    pub load: Option<Subfield>,
}

/// The observation point of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "a number, or bits of a field")]
pub enum Observation {
    Number(u32),
    Of(Subfield),
}

/// An action that samples frames for IPFIX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sample {
    /// The number of frames that are sampled, of 65,535.
    pub probability: u16,
    /// The number of the collectors that get the samples.
    pub collector_set: u32,
    /// The observation domain.
    pub domain: Observation,
    /// The observation point.
    pub point: Observation,
    /// The port that is sampled.
    pub port: Option<u16>,
    /// `Some(true)` samples the frame as it leaves, `Some(false)` as it arrives.
    pub egress: Option<bool>,
}

/// One action, or one instruction of OpenFlow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Outputs to a port, given by its number. [`port::CONTROLLER`] has an action of its own, [`Action::Controller`].
    Output(u16),
    /// Outputs to a port. The second number is the length for controllers (OpenFlow 1.5 §7.2.6.1): OpenFlow's action has
    /// such a number for all ports, controllers read it back, and it has no other effect.
    OutputSized(u16, u16),
    /// Outputs to a port, with the frame cut to this number of bytes.
    OutputCut(u16, u32),
    /// Outputs to the port whose number is in these bits.
    OutputField(Subfield),
    /// Sends frames to a controller.
    Controller(Box<Controller>),
    /// Sends frames to this queue of their ports.
    SetQueue(u32),
    /// Sends frames to the queue that was set at first.
    PopQueue,
    /// Executes a group.
    Group(u32),
    /// Drops frames beyond a meter's rate.
    Meter(u32),
    /// Also executes the actions of another table, or of this table for another input port.
    Resubmit {
        /// The input port; `None` keeps the frame's input port.
        port: Option<u16>,
        /// The table; `None` keeps the present table.
        table: Option<u8>,
        /// Whether source and destination are those of the connection's first direction.
        original: bool,
    },
    /// Sets the bits of a field that are set in the mask.
    SetField(Field, u128, u128),
    /// Sets [`Field::NwTtl`], [`Field::MplsTtl`], [`Field::MplsLabel`] or [`Field::MplsTc`] by the action that exists for
    /// this field alone. Bits that the field does not have are ignored.
    SetOwn(Field, u32),
    /// Copies bits from the first field to the second.
    Move(Subfield, Subfield),
    /// Pushes bits to the stack.
    Push(Subfield),
    /// Pops bits from the stack.
    Pop(Subfield),
    /// Adds an outermost tag of this type.
    PushVlan(u16),
    /// Removes the outermost tag.
    PopVlan,
    /// Sets the tag's VLAN number; adds a tag if there is none.
    ModVlanVid(u16),
    /// Sets the tag's priority; adds a tag if there is none.
    ModVlanPcp(u8),
    /// Adds an outermost label and makes this the frame's type: that of MPLS or of multicast MPLS.
    PushMpls(u16),
    /// Removes the outermost label and makes this the frame's type.
    PopMpls(u16),
    /// Decrements the time to live of the outermost label. When it ends, the controller with id 0 gets the frame.
    DecMplsTtl,
    /// Decrements the time to live. When the time to live ends, the controllers with these ids get the frame; without
    /// ids, the controller with id 0.
    DecTtl(Option<Vec<u16>>),
    /// Executes actions on a copy of the frame.
    Clone(Vec<Action>),
    /// One dimension of a conjunctive match.
    Conjunction {
        /// The value of `conj_id` if all dimensions match.
        id: u32,
        /// The number of this dimension, counted from 0.
        clause: u8,
        /// The number of dimensions.
        of: u8,
    },
    /// Shortens the idle and the hard time of the flow when a frame ends its TCP connection; 0 makes no change.
    FinTimeout(Timeouts),
    /// Adds a flow that is made from the frame.
    Learn(Arc<Learn>),
    /// Bytes without an effect.
    Note(Vec<u8>),
    /// Connection tracking.
    Ct(Box<Ct>),
    /// Removes the connection's state from the frame.
    CtClear,
    /// Writes whether the frame is longer than this number of bytes to a field.
    CheckPacketLarger(u16, Subfield),
    /// Chooses among ports.
    Bundle(Box<Bundle>),
    /// Samples frames for IPFIX.
    Sample(Box<Sample>),
    /// Ends all actions.
    Exit,
    /// Adds actions to the action set.
    WriteActions(Vec<Action>),
    /// Empties the action set.
    ClearActions,
    /// Sets the bits of the metadata that are set in the mask.
    WriteMetadata(u64, u64),
    /// Continues in a later table.
    GotoTable(u8),
}

impl Action {
    /// The port to which the action outputs whole frames, if the action names one.
    pub fn output_port(&self) -> Option<u16> {
        match self {
            Action::Output(port) | Action::OutputSized(port, _) => Some(*port),
            _ => None,
        }
    }

    /// Whether the action, or an action inside it, sends frames to the group with this number.
    pub fn uses_group(&self, group: u32) -> bool {
        match self {
            Action::Group(used) => *used == group,
            Action::Clone(inner) | Action::WriteActions(inner) => {
                inner.iter().any(|action| action.uses_group(group))
            }
            _ => false,
        }
    }
}

/// Flags of a flow that have no effect on its match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "OpenFlow's names")]
pub struct FlowFlags {
    pub send_removed: bool,
    pub check_overlap: bool,
    pub reset_counts: bool,
    pub no_packet_counts: bool,
    pub no_byte_counts: bool,
}

/// One flow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// The flow's table.
    pub table: u8,
    /// The priority; of all flows that match a frame, the one with the highest priority is used.
    pub priority: u16,
    /// A number that the controller chooses.
    pub cookie: u64,
    /// The time limits of the flow.
    pub timeouts: Timeouts,
    /// The importance; the least important flow is evicted first.
    pub importance: u16,
    /// The flags of the flow.
    pub flags: FlowFlags,
    /// The frames that the flow matches.
    pub wanted: Match,
    /// The actions; an empty list drops the frame.
    pub actions: Vec<Action>,
}

impl Flow {
    /// The priority of flows without a given priority.
    pub const DEFAULT_PRIORITY: u16 = 32768;

    /// Whether the flow only forwards by learned addresses, for ever.
    pub fn is_normal(&self) -> bool {
        self.timeouts == Timeouts::default()
            && matches!(&self.actions[..], [one] if one.output_port() == Some(port::NORMAL))
    }
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            table: 0,
            priority: Self::DEFAULT_PRIORITY,
            cookie: 0,
            timeouts: Timeouts::default(),
            importance: 0,
            flags: FlowFlags::default(),
            wanted: Match::ANY,
            actions: Vec::new(),
        }
    }
}
