//! Connections of a switch with OpenFlow controllers, without I/O and without a clock.
//!
//! [`Controllers`] has the connections of one switch. It takes bytes and times, and returns bytes and deadlines. It
//! agrees on the version, answers echo requests, and checks whether a controller still answers. It keeps roles,
//! bundles, flow monitors, and the notifications that each controller wants. Requests to the switch go to a [`Switch`].
//!
//! ```text
//!   bytes, time ──► Controllers ──► Switch: changes, requests
//!                       │  ◄────── News, PacketFor: flows, ports and packets for controllers
//!   bytes, deadline ◄───┘
//! ```
//!
//! A controller must be treated as hostile. [`Limits`] limits the memory that a controller can make a switch use. While
//! answers wait, no bytes are read. Answers in parts are made when they are sent. A bundle is kept as the bytes of its
//! messages. If a controller does not read, notifications end its connection, and packets for it are dropped.
//!
//! Refusals and their errors are those of Open vSwitch 3.1, with two intended differences:
//!
//! - An error of a controller is not answered. Open vSwitch answers it with an error.
//! - A controller that does not read its notifications is disconnected. Open vSwitch pauses its flow monitors.
//!
//! # Where to change what
//!
//! - To change how a message of a controller is handled: `dispatch.rs`; the requests to the switch: `switch.rs`.
//! - To change the state of one connection: `connection.rs`; of all connections: `controllers.rs`.
//! - To change the limits: `limits.rs`.
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
