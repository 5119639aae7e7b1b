//! Host, container and VM as places to run the agent.
//!
//! An [`Environment`] is a value that starts the agent and hands back a [`Running`] with the [`Channel`] to
//! it. What was started ends, and what was made is removed, when the `Running` is dropped; should this
//! process itself be killed, the [`janitor`] does the same. A fourth environment is one more module beside
//! [`host`], [`container`] and [`vm`], and a line in [`spec`].

pub mod channel;
pub mod container;
pub mod guest;
pub mod host;
pub mod janitor;
pub mod network;
mod running;
mod spawn;
pub mod spec;
pub mod vm;

use std::path::PathBuf;
use std::time::Duration;

use measure::{EnvironmentKind, Failure};

pub use channel::{Channel, ChannelError};
pub use janitor::Janitor;
pub use running::Running;
pub use spec::Spec;

/// The binary that is the agent, and the words that make it one: the same bytes in every environment.
#[derive(Clone, Debug)]
pub struct Agent {
    /// A statically linked executable.
    pub binary: PathBuf,
    /// The arguments after its name.
    pub arguments: Vec<String>,
    /// Further files that a workload needs, carried to the same path in every environment.
    pub files: Vec<PathBuf>,
}

/// What a start needs besides the environment's own settings.
pub struct Start<'a> {
    /// The agent.
    pub agent: &'a Agent,
    /// The CPUs of the host that the work may use.
    pub cpus: &'a [usize],
    /// How long until the agent must have answered.
    pub limit: Duration,
    /// Who cleans up should this process be killed.
    pub janitor: &'a std::sync::Arc<Janitor>,
}

/// A place to run the agent.
pub trait Environment {
    /// Which kind of place.
    fn kind(&self) -> EnvironmentKind;

    /// What runs its instructions, as rule 11 names it: `native`, `kvm-vmx`, `tcg`, …
    fn accelerator(&self) -> &str;

    /// Facts to show beside its figures: versions, machine type, command.
    fn facts(&self) -> Vec<(String, String)>;

    /// Starts the agent. The first line that the channel gives is the agent's greeting.
    fn start(&self, start: &Start<'_>) -> Result<Running, Failure>;
}
