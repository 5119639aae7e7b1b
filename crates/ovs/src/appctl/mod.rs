//! Answers `ovs-appctl` (ovs-appctl(8)) and compatible programs: JSON-RPC on a socket that a pidfile names. Answers
//! have the format of Open vSwitch, which exporters parse.
//!
//! A client can use only a limited time and memory of the thread: a request of 64 KiB, one request a turn, a limited
//! number of clients at once.

mod bonds;
mod bridge;
mod clients;
mod commands;
mod connections;
mod coverage;
mod datapath;
mod fdb;
mod flows;
mod history;
mod limits;
mod pmd;
mod room;
mod socket;
mod tunnels;

pub use bridge::{Known, Served, ServedPort, SharedBridges};
pub use clients::answer;
pub use room::Room;
pub use socket::{Socket, SocketError};
