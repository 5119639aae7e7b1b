//! What a flow does with a frame.
use std::net::IpAddr;

use crate::{Field, Match};

/// Reserved ports (OpenFlow 1.5 §7.2.1), as the 16 bits that Open vSwitch uses.
pub mod port {
    #![allow(missing_docs, reason = "OpenFlow's names")]
    /// The first number that no port has.
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

/// Bits of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subfield {
    /// The field.
    pub field: Field,
    /// The lowest bit.
    pub start: u32,
    /// How many bits.
    pub bits: u32,
}

impl Subfield {
    /// All bits of a field.
    pub fn whole(field: Field) -> Self {
        Self { field, start: 0, bits: field.bits() }
    }

    /// A value with these bits set, at the lowest place.
    pub fn all_bits(self) -> u128 {
        u128::MAX >> (128 - self.bits)
    }

    /// The mask of these bits in the field.
    pub fn mask(self) -> u128 {
        self.all_bits() << self.start
    }
}

/// Why a frame goes to a controller (OpenFlow 1.5 §7.4.1).
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

/// To a controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Controller {
    /// The most bytes of the frame that it gets.
    pub max_bytes: u16,
    /// The controller's id.
    pub id: u16,
    /// What it is told as the reason.
    pub reason: Reason,
    /// Bytes for the controller.
    pub userdata: Vec<u8>,
    /// The frame waits until the controller says that it goes on.
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

/// Which address is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each names its address")]
pub enum NatSide {
    Source,
    Destination,
}

/// Address translation of new connections. `side` is `None` for connections that have one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Nat {
    /// Which address.
    pub side: Option<NatSide>,
    /// First and last address.
    pub addresses: Option<(IpAddr, IpAddr)>,
    /// First and last port.
    pub ports: Option<(u16, u16)>,
    /// The mapping outlives restarts.
    pub persistent: bool,
    /// The port is chosen by a hash.
    pub hash: bool,
    /// The port is chosen at random.
    pub random: bool,
}

/// Connection tracking.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ct {
    /// The connection is kept.
    pub commit: bool,
    /// One in the other direction is replaced.
    pub force: bool,
    /// The table in which the frame goes on, with its connection's state.
    pub table: Option<u8>,
    /// The zone.
    pub zone: Zone,
    /// The protocol whose data connections are related, by its control port: 21 is FTP, 69 TFTP.
    pub helper: u16,
    /// Address translation.
    pub nat: Option<Nat>,
    /// What is written into the connection's mark and label.
    pub exec: Vec<Action>,
}

/// What a learned flow has of the frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LearnSpec {
    /// Its match wants this value in these bits.
    MatchValue(Subfield, u128),
    /// Its match wants in the first bits what the second ones are in the frame.
    MatchField(Subfield, Subfield),
    /// It sets these bits to this value.
    LoadValue(u128, Subfield),
    /// It sets the second bits to what the first ones are in the frame.
    LoadField(Subfield, Subfield),
    /// It outputs to the port that these bits are in the frame.
    Output(Subfield),
}

/// A flow that a frame makes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Learn {
    /// Its table.
    pub table: u8,
    /// Its times.
    pub timeouts: Timeouts,
    /// Its idle and hard time after a FIN or RST, s; 0 for no change.
    pub fin_timeouts: (u16, u16),
    /// Its priority.
    pub priority: u16,
    /// Its cookie.
    pub cookie: u64,
    /// The controller is told of its end.
    pub send_removed: bool,
    /// It is deleted with the flow that learned it.
    pub delete_learned: bool,
    /// The most flows of this cookie in the table; 0 for any number.
    pub limit: u32,
    /// The bit that says whether there was room.
    pub result: Option<Subfield>,
    /// Its match and actions.
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

/// When a flow ends, s; 0 for never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Timeouts {
    /// After its last frame.
    pub idle: u16,
    /// After it was added.
    pub hard: u16,
}

/// The fields of a frame that a choice hashes (ovs-actions(7)).
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

/// A choice among ports that are up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bundle {
    /// What is hashed.
    pub fields: HashFields,
    /// Where the hash begins.
    pub basis: u16,
    /// By the highest random weight; the first port that is up otherwise.
    pub by_weight: bool,
    /// The ports.
    pub members: Vec<u16>,
    /// The port is written here; the frame goes to it otherwise.
    pub load: Option<Subfield>,
}

/// The observation point of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "a number, or bits of a field")]
pub enum Observation {
    Number(u32),
    Of(Subfield),
}

/// Samples for IPFIX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sample {
    /// Of 65535 frames.
    pub probability: u16,
    /// Where samples are sent.
    pub collector_set: u32,
    /// The observation domain.
    pub domain: Observation,
    /// The observation point.
    pub point: Observation,
    /// The port that is sampled.
    pub port: Option<u16>,
    /// `Some(true)` as the frame comes out, `Some(false)` as it comes in.
    pub egress: Option<bool>,
}

/// One action, or one instruction of OpenFlow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// To a port by number. [`port::CONTROLLER`] is [`Action::Controller`].
    Output(u16),
    /// To a port, with the frame cut to so many bytes.
    OutputCut(u16, u32),
    /// To the port that these bits are.
    OutputField(Subfield),
    /// To a controller.
    Controller(Box<Controller>),
    /// Frames go to this queue of their ports.
    SetQueue(u32),
    /// Frames go to the queue that they went to at first.
    PopQueue,
    /// By a group.
    Group(u32),
    /// Frames beyond a meter's rate are dropped.
    Meter(u32),
    /// Also what another table, or this one for another input port, says.
    Resubmit {
        /// The input port; this frame's otherwise.
        port: Option<u16>,
        /// The table; this one otherwise.
        table: Option<u8>,
        /// Source and destination are those of the connection's first direction.
        original: bool,
    },
    /// Sets the bits that the mask has.
    SetField(Field, u128, u128),
    /// Copies bits from the first to the second.
    Move(Subfield, Subfield),
    /// Puts bits on the stack.
    Push(Subfield),
    /// Takes bits from the stack.
    Pop(Subfield),
    /// Puts a tag of this type in front.
    PushVlan(u16),
    /// Takes the outermost tag away.
    PopVlan,
    /// Sets the tag's number; puts a tag in front if there is none.
    ModVlanVid(u16),
    /// Sets the tag's priority; puts a tag in front if there is none.
    ModVlanPcp(u8),
    /// Counts the time to live down. At its end the controllers with these ids get the frame; 0 if there are none.
    DecTtl(Option<Vec<u16>>),
    /// Actions on a copy.
    Clone(Vec<Action>),
    /// Part of a match on several dimensions.
    Conjunction {
        /// What `conj_id` is if all dimensions match.
        id: u32,
        /// Which dimension, from 0.
        clause: u8,
        /// How many dimensions.
        of: u8,
    },
    /// Makes a flow.
    Learn(Box<Learn>),
    /// Bytes that nothing reads.
    Note(Vec<u8>),
    /// Connection tracking.
    Ct(Box<Ct>),
    /// Forgets the connection's state.
    CtClear,
    /// Whether the frame is longer than so many bytes.
    CheckPacketLarger(u16, Subfield),
    /// A choice among ports.
    Bundle(Box<Bundle>),
    /// Samples for IPFIX.
    Sample(Box<Sample>),
    /// Ends all actions.
    Exit,
    /// Adds to the action set.
    WriteActions(Vec<Action>),
    /// Empties the action set.
    ClearActions,
    /// Sets metadata where the mask has bits.
    WriteMetadata(u64, u64),
    /// Goes on in a later table.
    GotoTable(u8),
}

/// Words beside a flow's match that a frame does not see.
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
    /// Its table.
    pub table: u8,
    /// The flow with the highest priority counts.
    pub priority: u16,
    /// A number of the controller's.
    pub cookie: u64,
    /// When it ends.
    pub timeouts: Timeouts,
    /// The least important flow is evicted first.
    pub importance: u16,
    /// What else is said of it.
    pub flags: FlowFlags,
    /// Which frames.
    pub wanted: Match,
    /// What is done; drop if empty.
    pub actions: Vec<Action>,
}

impl Flow {
    /// The priority of flows that have no other.
    pub const DEFAULT_PRIORITY: u16 = 32768;
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
