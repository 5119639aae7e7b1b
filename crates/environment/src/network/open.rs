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
    in_container: bool,
}

/// Who works for a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// The near end's process.
    Near,
    /// The far end's process.
    Far,
    /// `tautline switch`.
    Switch,
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
        let in_container = description.near == NearEnd::Container;
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
        Ok(OpenPath { near, far, path, in_container })
    }

    /// The processes that work for a flow. Once both agents have greeted.
    pub fn processes(&self) -> Vec<(Party, u32)> {
        let near = self.near.process_id();
        // The runtime stays between this process and the agent.
        let near = if self.in_container { linux::cpu_time::children(near) } else { vec![near] };
        let mut found: Vec<(Party, u32)> = near.into_iter().map(|process| (Party::Near, process)).collect();
        found.push((Party::Far, self.far.process_id()));
        found.extend(self.path.switch.as_ref().map(|switch| (Party::Switch, switch.process_id())));
        found
    }
}
