use measure::Failure;

use super::card::LentCard;
use super::guest_path::GuestPath;
use super::{Card, End, NearEnd, Path, PathDescription, UserSpaceSwitch};
use crate::container::Container;
use crate::vm::{Accelerator, Settings, Vm};
use crate::{Environment, Folder, Running, Start};

/// A path with the agent at both ends. Dropping the path ends all of it, the two agents first.
pub struct OpenPath {
    /// The agent at the near end.
    pub near: Running,
    /// The agent at the far end.
    pub far: Running,
    path: Path,
    guest: bool,
    _folder: Option<Folder>,
    // Dropped after the guest that has the card.
    _card: Option<LentCard>,
}

/// The settings for near ends that do not run on the host itself.
#[derive(Clone, Copy, Default)]
pub struct Places<'a> {
    /// The container for a near end in a container.
    pub container: Option<&'a Container>,
    /// The settings for a near end in a guest.
    pub guest: Option<&'a Settings>,
    /// The card for a near end in a guest with an assigned card.
    pub card: Option<&'a Card>,
}

impl OpenPath {
    /// Builds the path that the description names and starts both agents.
    ///
    /// # Errors
    /// A part cannot be built or an agent cannot be started; the failure says why.
    pub fn open(
        description: &PathDescription,
        start: &Start<'_>,
        places: Places<'_>,
    ) -> Result<Self, Failure> {
        let layers = &description.layers;
        if let NearEnd::Guest(nic) = description.near {
            let settings = places.guest.ok_or_else(|| {
                Failure::new(
                    "starting the near end in a guest",
                    "there is no VM",
                    "install QEMU (`make setup` does)",
                )
            })?;
            let is_emulated = settings.accelerator == Some(Accelerator::Tcg);
            let GuestPath { path, nic, folder, card } =
                GuestPath::build(nic, layers, is_emulated, places.card, start)?;
            let near = Vm::with_nic(settings, nic, start)?.start(start)?;
            let far = path.start(End::Far, start.agent)?;
            return Ok(OpenPath { near, far, path, guest: true, _folder: folder, _card: card });
        }
        let path = Path::build(layers, start.agent)?;
        let near = match (description.near, places.container) {
            (NearEnd::Container, Some(container)) => container.joining(path.near.file())?.start(start)?,
            (NearEnd::Container, None) => {
                return Err(Failure::new(
                    "starting the near end in a container",
                    "there is no container runtime",
                    "install crun or runc (`make setup` does)",
                ));
            }
            _ => path.start(End::Near, start.agent)?,
        };
        let far = path.start(End::Far, start.agent)?;
        Ok(OpenPath { near, far, path, guest: false, _folder: None, _card: None })
    }

    /// The switch in user space between the ends, if the path has one.
    pub fn switch(&self) -> Option<&UserSpaceSwitch> {
        self.path.switch.as_ref()
    }

    /// Stops the processes of this path that would use the CPU while other paths are measured, or lets them continue.
    pub fn set_running(&self, runs: bool) {
        if let Some(UserSpaceSwitch::OvsDpdk(switch)) = &self.path.switch {
            switch.set_running(runs);
        }
    }

    /// The number of exits of the guest's vCPUs since its start; `None` if there is no guest, or if exits are not
    /// counted.
    pub fn exits(&mut self) -> Option<u64> {
        self.near.exits()
    }

    /// QEMU's process, if the near end is in a guest.
    pub fn qemu(&self) -> Option<u32> {
        self.guest.then(|| self.near.process_id())
    }
}
