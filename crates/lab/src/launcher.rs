//! What starts agents: the binary of this process, and the janitor that cleans up behind it.

use std::path::PathBuf;
use std::sync::Arc;

use environment::{Agent, Janitor};
use measure::Failure;

/// What starts agents.
pub struct Launcher {
    /// The binary of this process, run as an agent.
    pub agent: Agent,
    /// Removes what a process that was killed has left.
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
}

/// The file of this process: the agent is the same bytes everywhere.
fn own_binary() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::new("finding the binary of this process", error, "mount /proc"))
}
