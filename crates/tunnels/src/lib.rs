//! Tunnels of Ethernet frames through an IP network: Geneve (RFC 8926), VXLAN (RFC 7348) and GRE (RFC 2784, RFC 2890).
//!
//! | type | meaning |
//! |---|---|
//! | [`Settings`] | what a tunnel port is told: its kind, its ends, its key |
//! | [`Outer`], [`Header`] | the headers in front of a frame, and their bytes |
//! | [`Received`] | the headers of a frame from the network, with every length checked |
//! | [`Fragment`], [`Joined`] | fragments of outer packets, and the headers of the whole |
//! | [`Marked`] | congestion marks that go from the outer headers to the inner ones |
//! | [`OptionMap`] | Geneve options as fields of tunnel metadata |
//! | [`Ends`] | which tunnel a received frame belongs to |
//! | [`Routes`] | the next hop to an address |
//! | [`Neighbours`] | the Ethernet addresses of next hops, which ARP and neighbor discovery find |
//!
//! The crate does no I/O and reads no clock: time is an argument. Headers are written and read without an allocation.
//!
//! # Bounded memory
//!
//! | what | limit |
//! |---|---|
//! | neighbours of one network | [`MAX_NEIGHBOURS`]; only addresses that this end asked for are kept |
//! | outer headers with options | [`MAX_HEADER_BYTES`] |
//!
//! # Where to change what
//!
//! - To add a kind of tunnel: `kind.rs`, its header in `outer.rs` and `received.rs`.
//! - What is written into outer headers: `outer.rs`; their checksums: `checksum.rs`.
#![forbid(unsafe_code)]

pub mod bfd;
mod checksum;
mod ecn;
mod ends;
mod fragment;
mod hash;
mod kind;
mod malformed;
mod messages;
mod neighbours;
mod options;
mod outer;
mod received;
mod routes;
mod settings;

pub use checksum::{Sum, pseudo_header};
pub use ecn::{LostMark, MARK, MAX_MARKED_BYTES, Marked, decapsulated, of_frame as mark_of_frame};
pub use ends::{Duplicate, Ends};
pub use fragment::{Fragment, Joined};
pub use hash::source_port;
pub use kind::Kind;
pub use malformed::Malformed;
pub use messages::{Message, heard, request};
pub use neighbours::{MAX_NEIGHBOURS, Neighbours};
pub use options::OptionMap;
pub use outer::{Header, MAX_HEADER_BYTES, Outer, PartialSum};
pub use received::Received;
pub use routes::{Hop, Route, Routes};
pub use settings::Settings;

/// An Ethernet address.
pub type Mac = [u8; 6];
