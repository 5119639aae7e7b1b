//! The control protocol of a running switch: requests, answers, and a client.
//!
//! The protocol is a line of JSON each way over the Unix socket of `tautline switch --control`; a capture's file goes
//! along as a descriptor. `tautline ctl` is one user of this crate. The crate `daemon` has the switch's end.
//!
//! # Where to change what
//!
//! - To change what `tautline ctl` shows or does: `protocol.rs`; `crates/daemon/src/control_socket/` (the switch's
//!   end: `answer.rs`), `crates/tautline/src/ctl/` and `crates/tables/src/ctl.rs` (the user's); what a running switch can be asked: `View` in
//!   `crates/switch/src/control.rs`.
#![forbid(unsafe_code)]

mod bridge_description;
mod client;
mod connection_filter;
mod port_description;
pub mod protocol;

pub use bridge_description::{
    BridgeDescription, BridgeState, ControllerDescription, ControllerKeys, ControllerState,
};
pub use client::{Client, ClientError, Events};
pub use connection_filter::{ConnectionFilter, TupleFilter};
pub use port_description::{
    BOND_OPTIONS, NETWORK_OPTION, NUMBER_OPTION, OptionValue, PortDescription, VLAN_OPTIONS,
};
pub use protocol::{Direction, Event, EventKind, Request};
