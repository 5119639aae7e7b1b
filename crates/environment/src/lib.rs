//! Host, container, VM and another machine as places to run the agent.
//!
//! An [`Environment`] is a value that starts the agent and hands back a [`Running`] with the [`Channel`] to
//! it. What was started ends, and what was made is removed, when the `Running` is dropped; should this
//! process itself be killed, the [`janitor`] does the same. A further environment is one more module beside
//! [`host`], [`container`], [`vm`] and [`remote`], and a line in [`spec`].

mod agent;
pub mod channel;
mod command;
pub mod container;
mod folder;
pub mod guest;
pub mod host;
pub mod janitor;
pub mod network;
pub mod openvswitch;
pub mod remote;
mod running;
mod spawn;
pub mod spec;
pub mod vm;

pub use agent::{Agent, Environment, Start};
pub use channel::{Channel, ChannelError};
pub use folder::Folder;
pub use janitor::Janitor;
pub use running::Running;
pub use spawn::spawn;
pub use spec::Spec;
