//! CPUs that are taken from everything else, as an environment: the agent runs alone on them.

mod cgroup;

use std::process::Command;
use std::sync::Arc;

use linux::child;
use measure::{EnvironmentKind, Failure};

use crate::host::{Host, spawn_with_pipes};
use crate::{Environment, Running, Start};

pub use cgroup::Partition;

/// The agent on the CPUs of a [`Partition`], without a container or guest.
#[derive(Clone, Debug)]
pub struct Partitioned {
    partition: Arc<Partition>,
}

impl Partitioned {
    /// Takes the CPUs from everything else, until the last clone of this value is dropped.
    ///
    /// # Errors
    /// The causes of [`Partition::hold`].
    pub fn prove(cpus: &[usize], start: &Start<'_>) -> Result<Self, Failure> {
        Ok(Partitioned { partition: Partition::hold(cpus, start.janitor)? })
    }

    /// The CPUs.
    pub fn cpus(&self) -> &[usize] {
        self.partition.cpus()
    }
}

impl Environment for Partitioned {
    fn kind(&self) -> EnvironmentKind {
        EnvironmentKind::Partition
    }

    fn accelerator(&self) -> &str {
        Host.accelerator()
    }

    fn facts(&self) -> Vec<(String, String)> {
        vec![self.partition.fact()]
    }

    fn start(&self, start: &Start<'_>) -> Result<Running, Failure> {
        self.partition.verify()?;
        let mut command = Command::new(&start.agent.binary);
        command.args(&start.agent.arguments);
        child::enter_cgroups(&mut command, vec![self.partition.entrance()?]);
        let running = spawn_with_pipes(
            command,
            &format!("the agent on {}", self.partition),
            "check that the file exists and may be executed",
        )?;
        Ok(self.partition.outlives(running))
    }
}
