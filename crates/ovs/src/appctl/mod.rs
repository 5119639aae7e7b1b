//! Answers `ovs-appctl` (ovs-appctl(8)) and the programs that ask as it does: JSON-RPC on a socket that a pidfile leads
//! to. Answers have the form that Open vSwitch gives them, which exporters parse.
//!
//! A client costs the thread a bounded time and memory: a request of 64 KiB, one request a turn, a limited number of clients at once.

mod bridge;
mod clients;
mod commands;
mod coverage;
mod datapath;
mod fdb;
mod room;
mod socket;

pub use bridge::{Served, ServedPort, SharedBridges};
pub use clients::answer;
pub use room::Room;
pub use socket::{Socket, SocketError};
