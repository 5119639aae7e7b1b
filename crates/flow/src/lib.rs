//! Flows in Open vSwitch's meaning: the fields of a frame, matches on them, actions, and their text form.
//!
//! | type | meaning |
//! |---|---|
//! | [`Key`] | the fields of one frame, at fixed places in 64-bit words |
//! | [`Field`] | one field: its names, its place in a key, and the notation of its values |
//! | [`Match`] | wanted values, with a mask of the bits that are compared |
//! | [`Action`] | one action or instruction |
//! | [`Flow`] | table, priority, match, actions and the controller's other settings of a flow |
//! | [`Group`], [`Meter`] | the objects that actions name by number |
//!
//! [`extract`] reads a key from the headers of a frame. The crate does no I/O and reads no clock.
//!
//! # Matches in text
//!
//! [`Match::parse`] reads the text form of `ovs-ofctl`, and a match is printed as `ovs-ofctl` prints it. Where
//! `ovs-ofctl` drops a part of a match and continues, this crate differs on purpose:
//!
//! - A field without its protocol (`nw_src=10.0.0.1` without `ip`) is an error. `ovs-ofctl` drops such a field.
//! - Bits that a field does not have (`nw_tos=33`, `vlan_vid=0x2000`) are an error. `ovs-ofctl` clears such bits.
//! - A field without a value (`reg0=`) is an error. `ovs-ofctl` reads such a field as `reg0=*`.
//! - The mask of `tun_gbp_flags` is printed. `ovs-ofctl` leaves the mask out.
//! - `ovs-ofctl` prints the packet type `eth` beside `recirc_id`. A match of this crate has no packet type.
//!
//! # Actions in text
//!
//! [`Action::parse_list`] and [`Flow::parse`] read the text form of `ovs-ofctl`; the printed form is the one of
//! `ovs-ofctl` for OpenFlow 1.5. [`Flow::check`] refuses actions that use fields which the match does not have. This
//! crate differs on purpose:
//!
//! - `dec_ttl()` sends the frame to no controller. `ovs-ofctl` reads it as `dec_ttl`, although Open vSwitch prints
//!   both.
//! - `mod_vlan_vid` and `mod_vlan_pcp` are kept, because they push a tag if the frame has none.
//! - A parenthesis without its partner is an error.
//! - `sample` accepts bits of a field as observation point, as Open vSwitch 3.4 and later do.
//!
//! The crate does not read `enqueue`, `multipath`, `delete_field`, and actions on NSH.
//!
//! # Not read in a match
//!
//! NSH, packet types, `tun_metadata8` and later, and names of ports other than the reserved ones are not
//! read.
//!
//! # Where to change what
//!
//! - To add a field: its row in `field.rs`; its place is free in `Key`, or `Key::WORDS` grows. Extraction in
//!   `extract.rs`; its place in the order of printing in `text/print.rs`.
//! - To add an action: `action.rs`; its text in `text/action`, its requirements on the match in `check.rs`.
#![forbid(unsafe_code)]

mod action;
mod check;
mod extract;
mod field;
mod group;
mod key;
mod matching;
mod text;

pub use action::{
    Action, Bundle, Controller, Ct, Flow, FlowFlags, HashFields, Learn, LearnSpec, Nat, NatSide, Observation,
    Reason, Sample, Subfield, Timeouts, Zone, port,
};
pub use check::Unfit;
pub use extract::{Layers, More, WINDOW_BYTES, extract, extract_with};
pub use field::{Field, Needs, Notation};
pub use group::{Band, BandKind, Bucket, Group, GroupKind, Meter, MeterUnit, Selection};
pub use key::Key;
pub use matching::{Match, protocol};
pub use text::ParseError;
