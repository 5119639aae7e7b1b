//! Starts agents: holds the binary of this process, and the janitor that removes what agents leave.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use environment::{Agent, Janitor, Start};
use measure::Failure;

/// How long a start may take until the agent answers: a stock kernel under emulation needs 2 to 10 s.
const START_LIMIT: Duration = Duration::from_secs(45);
/// How long a start may take under KVM on a CPU that is emulated itself: it takes 35 s where nothing else runs.
const EMULATED_START_LIMIT: Duration = Duration::from_secs(120);

/// Starts agents.
pub struct Launcher {
    /// The binary of this process, run as an agent.
    pub agent: Agent,
    /// Removes the things that a killed process has left.
    pub janitor: Arc<Janitor>,
}

impl Launcher {
    /// Starts the janitor. `files` are carried into each environment beside the agent.
    ///
    /// # Errors
    /// The binary of this process cannot be found or executed.
    pub fn new(files: Vec<PathBuf>) -> Result<Self, Failure> {
        let binary = own_binary()?;
        let janitor = Arc::new(Janitor::start(&binary)?);
        let agent = Agent { binary, arguments: vec![workload::agent::ARGUMENT.into()], files };
        Ok(Launcher { agent, janitor })
    }

    /// The arguments for starting an agent on these CPUs.
    pub fn start_on<'a>(&'a self, cpus: &'a [usize]) -> Start<'a> {
        let limit = if kvm::is_emulated() { EMULATED_START_LIMIT } else { START_LIMIT };
        Start { agent: &self.agent, cpus, limit, janitor: &self.janitor }
    }
}

/// The file of this process: the agent is the same bytes everywhere.
fn own_binary() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::new("finding the binary of this process", error, "mount /proc"))
}
