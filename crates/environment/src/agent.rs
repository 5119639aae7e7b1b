//! The agent's binary and its arguments.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use measure::{EnvironmentKind, Failure};

use crate::janitor::Janitor;
use crate::running::Running;

/// The binary that is the agent, and the arguments that make it the agent: the same bytes in every environment.
#[derive(Clone, Debug)]
pub struct Agent {
    /// The path of a statically linked executable.
    pub binary: PathBuf,
    /// The arguments after the program's name.
    pub arguments: Vec<String>,
    /// More files that a workload needs; each environment gets them at the same paths.
    pub files: Vec<PathBuf>,
}

/// The arguments of a start that are not settings of the environment.
pub struct Start<'a> {
    /// The agent.
    pub agent: &'a Agent,
    /// The CPUs of the host that the agent may use.
    pub cpus: &'a [usize],
    /// The time within which the agent must answer.
    pub limit: Duration,
    /// The janitor, which cleans up if this process is killed.
    pub janitor: &'a Arc<Janitor>,
}

/// A place to run the agent.
pub trait Environment {
    /// The kind of this environment.
    fn kind(&self) -> EnvironmentKind;

    /// The name of what executes the agent's instructions: `native`, `kvm-vmx`, `tcg`, …
    fn accelerator(&self) -> &str;

    /// Whether the figures come from an emulated CPU: the host's CPU, or the guest's.
    fn is_emulated(&self) -> bool {
        kvm::is_emulated()
    }

    /// Facts to show beside the figures: versions, machine type, command.
    fn facts(&self) -> Vec<(String, String)>;

    /// Starts the agent. The first line that the channel gives is the agent's greeting.
    ///
    /// # Errors
    /// The environment cannot be made ready, or the agent's program cannot be started in it.
    fn start(&self, start: &Start<'_>) -> Result<Running, Failure>;
}
