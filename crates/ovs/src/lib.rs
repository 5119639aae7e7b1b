//! Takes the place of ovs-vswitchd: gives a switch the ports that an Open vSwitch database asks for, and writes the
//! results back into the database.
//!
//! ```text
//!   ovsdb-server ◄──► Session (ovsdb) ──► Cache ──► wanted: ports, and why others cannot be
//!                                                       │
//!                        columns: ofport, error, … ◄────┴────► control::Client ◄──► tautline switch
//! ```
//!
//! # Where to change what
//!
//! - To take another type of interface or another column: `wanted.rs`.
//! - To take another option of a tunnel: `tunnels.rs`.
//! - To take another column of a bridge: `bridges.rs`.
//! - To take another column of a zone: `zones.rs`.
//! - To take another column of a mirror: `mirrors.rs`.
//! - To write another column back: `columns.rs`; to change what is read of a port: `observed.rs`.
//! - To answer another command of `ovs-appctl`: `appctl/commands.rs`.
//! - To follow another column: `follow.rs`.
//! - To change how the database and the switch are connected: `runner.rs`; how a server is reached: `server.rs`.
#![forbid(unsafe_code)]

pub mod appctl;
mod bridges;
mod columns;
mod follow;
mod mirrors;
mod numbers;
mod observed;
mod rows;
mod runner;
mod server;
mod tunnels;
mod wanted;
mod zones;

pub use columns::report;
pub use follow::{LOCK, follow};
pub use mirrors::{Mirror, Mirrors};
pub use numbers::Numbers;
pub use observed::Observed;
pub use runner::{RunError, Settings, run};
pub use server::Server;
pub use tls::KeyFiles;
pub use wanted::{Interface, Place, Wanted, wanted};
