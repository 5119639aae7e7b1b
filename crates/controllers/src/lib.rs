//! Connections of a switch with OpenFlow controllers, without I/O and without a clock.
//!
//! [`Controllers`] has the connections of one switch: bytes and times go in, bytes and deadlines come out. It agrees on the
//! version, answers echoes, finds out whether a controller still answers, and keeps roles, bundles, flow monitors and what
//! each controller is told unasked. What controllers ask of the switch goes to a [`Switch`].
//!
//! ```text
//!   bytes, time ──► Controllers ──► Switch: changes, questions
//!                       │  ◄────── News, PacketFor: flows, ports and packets that controllers are told of
//!   bytes, deadline ◄───┘
//! ```
//!
//! A controller is hostile. [`Limits`] has the most that it can make a switch hold: while answers wait, nothing is read;
//! answers in parts are made as they are sent; a bundle is kept as the bytes of its messages; news and packets that a
//! controller does not read end its connection, or are dropped.
//!
//! What is refused, and with which error, is as in Open vSwitch 3.1. These differ on purpose:
//!
//! - An error of a controller is not answered. Open vSwitch answers it with an error.
//! - A controller that does not read its news is left. Open vSwitch pauses its flow monitors.
//!
//! # Where to change what
//!
//! - What becomes of a controller's message: `dispatch.rs`. What a switch has to do for it: `switch.rs`.
//! - What counts for one connection: `connection.rs`; for all of them: `controllers.rs`.
//! - What is limited: `limits.rs`.
#![forbid(unsafe_code)]

mod bundles;
mod connection;
mod controllers;
mod dispatch;
mod limits;
mod monitors;
mod output;
mod packet;
mod parts;
mod rate;
mod switch;
mod telling;

pub use connection::SessionError;
pub use controllers::{ConnectionId, Controllers};
pub use limits::{Limits, Settings};
pub use packet::PacketFor;
pub use switch::{Answer, Change, FlowNews, News, Rejected, Switch};
