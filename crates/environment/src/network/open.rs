use measure::Failure;

use super::{End, NearEnd, Path, PathDescription};
use crate::container::Container;
use crate::{Environment, Running, Start};

/// A path with the agent at both ends. Dropping it ends all of it, the ends first.
pub struct OpenPath {
    /// The agent at the near end.
    pub near: Running,
    /// The agent at the far end.
    pub far: Running,
    path: Path,
}

impl OpenPath {
    /// Builds what the description says and starts both agents. `container` is what a near end in a container is
    /// started by.
    ///
    /// # Errors
    /// What could not be built or started, and why.
    pub fn open(
        description: &PathDescription,
        start: &Start<'_>,
        container: Option<&Container>,
    ) -> Result<Self, Failure> {
        let path = Path::build(&description.layers, start.agent)?;
        let near = match (description.near, container) {
            (NearEnd::Host, _) => path.start(End::Near, start.agent)?,
            (NearEnd::Container, Some(container)) => container.joining(path.near.file())?.start(start)?,
            (NearEnd::Container, None) => {
                return Err(Failure::new(
                    "starting the near end in a container",
                    "there is no container runtime",
                    "install crun or runc (`make setup` does)",
                ));
            }
        };
        let far = path.start(End::Far, start.agent)?;
        Ok(OpenPath { near, far, path })
    }

    /// The process of the switch between the ends, where there is one.
    pub fn switch(&self) -> Option<u32> {
        self.path.switch.as_ref().map(|switch| switch.process_id())
    }
}
