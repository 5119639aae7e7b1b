//! Flows in Open vSwitch's meaning: the fields of a frame, matches on them, and their text form.
//!
//! | type | what it is |
//! |---|---|
//! | [`Key`] | the fields of one frame, at fixed places in 64-bit words |
//! | [`Field`] | one field: its names, its place in a key, how its values are written |
//! | [`Match`] | wanted values under a mask of bits that count |
//!
//! [`extract`] reads a key from the headers of a frame. The crate opens nothing and reads no clock.
//!
//! # Matches in text
//!
//! [`Match::parse`] reads what `ovs-ofctl` reads, and a match is printed as `ovs-ofctl` prints it. They differ on purpose
//! where `ovs-ofctl` drops a part of a match and goes on:
//!
//! - A field without its protocol (`nw_src=10.0.0.1` without `ip`) is an error. `ovs-ofctl` drops the field.
//! - Bits that a field does not have (`nw_tos=33`, `vlan_vid=0x2000`) are an error. `ovs-ofctl` clears them.
//! - A field without a value (`reg0=`) is an error. `ovs-ofctl` reads it as `reg0=*`.
//! - The mask of `tun_gbp_flags` is printed. `ovs-ofctl` leaves it out.
//! - `ovs-ofctl` prints the packet type `eth` beside `recirc_id`. A match has no packet type here.
//!
//! Not read: MPLS labels, NSH, packet types, `tun_metadata8` and later, names of ports other than the reserved ones.
//!
//! # Where to change what
//!
//! - To add a field: its row in `field.rs`; its place is free in `Key`, or `Key::WORDS` grows. Extraction in
//!   `extract.rs`; its place in the order of printing in `text/print.rs`.
#![forbid(unsafe_code)]

mod extract;
mod field;
mod key;
mod matching;
mod text;

pub use extract::{Layers, WINDOW_BYTES, extract};
pub use field::{Field, Needs, Notation};
pub use key::Key;
pub use matching::{Match, protocol};
pub use text::ParseError;
