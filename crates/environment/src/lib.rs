//! Host, container, VM, isolated CPUs and another machine as places to run the agent.
//!
//! An [`Environment`] is a value that starts the agent and returns a [`Running`] with the [`Channel`] to the agent.
//! Dropping the `Running` ends the processes that were started and removes the files that were made; if this process
//! itself is killed, the [`janitor`] does the same. A further environment is one more module beside [`host`],
//! [`container`], [`partition`], [`vm`] and [`remote`], and a line in [`spec`].
//!
//! # Where to change what
//!
//! - To add a network path, or a layer of one: `network/`: `layer.rs` and `path.rs` build it, `description.rs`
//!   lists it.
//! - To add an environment: one module beside `host.rs`, one arm in `spec.rs`.
//! - To change how CPUs are taken from everything else: `partition/`.
//! - To change how another machine is reached, or which peers may use its agent: `remote/`.
//! - To add a path to the group `net`: `network/description.rs` lists them; `layer.rs` and `path.rs` between two
//!   namespaces, `guest_nic.rs` and `guest_path.rs` into a guest.

mod agent;
pub mod channel;
mod command;
pub mod container;
mod cpuset;
mod folder;
pub mod guest;
pub mod host;
pub mod janitor;
pub mod network;
pub mod openvswitch;
pub mod partition;
pub mod remote;
mod running;
mod spawn;
pub mod spec;
mod undo;
pub mod vm;

pub use agent::{Agent, Environment, Start};
pub use channel::{Channel, ChannelError};
pub use folder::Folder;
pub use janitor::Janitor;
pub use running::Running;
pub use spawn::spawn;
pub use spec::{Proven, Spec};
