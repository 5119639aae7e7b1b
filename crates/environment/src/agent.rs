//! The agent, and a place to run it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use measure::{EnvironmentKind, Failure};

use crate::janitor::Janitor;
use crate::running::Running;

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
    /// Cleans up if this process is killed.
    pub janitor: &'a Arc<Janitor>,
}

/// A place to run the agent.
pub trait Environment {
    /// Which kind of place.
    fn kind(&self) -> EnvironmentKind;

    /// What runs its instructions, `native`, `kvm-vmx`, `tcg`, …
    fn accelerator(&self) -> &str;

    /// Whether its figures are of an emulated CPU: this machine's, or that of a guest.
    fn is_emulated(&self) -> bool {
        kvm::is_emulated()
    }

    /// Facts to show beside its figures: versions, machine type, command.
    fn facts(&self) -> Vec<(String, String)>;

    /// Starts the agent. The first line that the channel gives is the agent's greeting.
    ///
    /// # Errors
    /// The environment cannot be made ready, or the agent's program cannot be started in it.
    fn start(&self, start: &Start<'_>) -> Result<Running, Failure>;
}
