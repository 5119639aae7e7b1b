//! OpenFlow: messages and their bytes, without I/O.
//!
//! The crate supports OpenFlow 1.5, which OVN uses, and 1.0, 1.3 and 1.4 with Nicira's extensions, which `ovs-ofctl`
//! and older controllers use. Matches, actions, groups and meters are those of the crate `flow`, so text and bytes have
//! one model.
//!
//! ```text
//!   bytes ──► Framer ──► Codec::decode ──► Message          Message ──► Codec::encode ──► bytes
//!              │              │  Failure ──► ErrorMessage, with the numbers of the version
//!              64 KiB         every length checked; a list takes at most 40 times the message's bytes
//! ```
//!
//! ```
//! use openflow::{Codec, Message, Version};
//!
//! let codec = Codec::new(Version::V15);
//! let bytes = codec.encode(7, &Message::EchoRequest(vec![1, 2]))?;
//! let received = codec.decode(&bytes)?;
//! assert_eq!((received.transaction, received.message), (7, Message::EchoRequest(vec![1, 2])));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is kept and what is not
//!
//! If a message of Open vSwitch or OVN is read and written again, its bytes are the same. A message of another sender
//! is written with the same meaning, but its bytes may differ:
//!
//! - Fields are written in Open vSwitch's order and with its headers; properties in the order of their numbers.
//! - The length in an output is kept for an output to a controller. For other ports it has no meaning and is not kept.
//! - Padding bytes are written as zeros.
//!
//! Unknown properties that a receiver may ignore according to the specification are kept. Anything else that is unknown
//! is refused with the error of the specification. Controllers use these errors to detect the capabilities of a switch.
//!
//! Not read: NSH, `enqueue`, `multipath`, `delete_field`, packet types, tunnel options beyond the
//! eighth and beyond 64 bits, queue descriptions, table status, forwarded requests, IPFIX statistics, OpenFlow 1.1, 1.2.
//!
//! # Where to change what
//!
//! - To add a field: its row in `oxm/table.rs`, its place in the order in `oxm/matching.rs`.
//! - To add an action: its number in `action/wire.rs`; `action/list.rs` finds the file that reads and writes it.
//! - To add an error: `failure.rs`, with its numbers in each version.
//! - To add a message: its number in `version.rs` (Nicira's in `experimenter.rs`), its variant in `message.rs`, a file
//!   for its family. Multipart messages: `multipart.rs`.
#![forbid(unsafe_code)]

mod action;
mod bundle;
mod bytes;
mod capabilities;
mod continuation;
mod ct_flush;
mod error;
mod experimenter;
mod failure;
mod flow_mod;
mod framer;
mod group;
mod hello;
mod instruction;
mod match10;
mod message;
mod meter;
mod multipart;
mod number;
mod oxm;
mod packet;
mod port;
mod property;
mod role;
mod statistics;
mod tlv;
mod version;

pub use action::reason_number;
pub use bundle::{BundleAdd, BundleControl, BundleFlags, BundleStep};
pub use continuation::Continuation;
pub use ct_flush::{CtFlush, Tuple};
pub use error::ErrorMessage;
pub use experimenter::Nicira;
pub use failure::{ErrorCode, Failure, NICIRA, ONF};
pub use flow_mod::{ANY_GROUP, ANY_TABLE, FlowCommand, FlowMod, FlowRemoved, RemovedReason};
pub use framer::{Framer, HEADER_BYTES};
pub use group::{ALL_GROUPS, GroupCommand, GroupMod};
pub use hello::{Config, Features, Hello};
pub use message::{EncodeError, Message, Received};
pub use meter::{ALL_METERS, MeterCommand, MeterMod};
pub use multipart::{
    Description, FlowRequest, FlowStatistics, GroupFeatures, GroupStatistics, MeterFeatures, MeterStatistics,
    MonitorEvent, MonitorFlags, MonitorFlow, MonitorRequest, MonitorUpdate, OldTable, PortStatistics,
    QueueStatistics, Reply, Request, TableDescription, TableFeatures, TableStatistics,
};
pub use packet::{PacketIn, PacketIn2, PacketOut};
pub use port::{Ethernet, Port, PortMod, PortReason, PortStatus, TableMod};
pub use property::RawProperty;
pub use role::{Async, Role, RoleMessage, RoleStatus, asynchronous};
pub use statistics::Counts;
pub use tlv::{TlvCommand, TlvMap, TlvMod, TlvTable};
pub use version::{Codec, Kind, Version};
