use measure::Failure;

use super::card::LentCard;
use super::guest_path::GuestPath;
use super::{Card, End, NearEnd, Path, PathDescription, UserSpaceSwitch};
use crate::container::Container;
use crate::vm::{Accelerator, Settings, Vm};
use crate::{Environment, Folder, Running, Start};

/// A path with the agent at both ends. Dropping it ends all of it, the ends first.
pub struct OpenPath {
    /// The agent at the near end.
    pub near: Running,
    /// The agent at the far end.
    pub far: Running,
    path: Path,
    guest: bool,
    _folder: Option<Folder>,
    // After the guest that has it.
    _card: Option<LentCard>,
}

/// What starts near ends that are not the host's.
#[derive(Clone, Copy, Default)]
pub struct Places<'a> {
    /// Of a near end in a container.
    pub container: Option<&'a Container>,
    /// Of a near end in a guest.
    pub guest: Option<&'a Settings>,
    /// Of a near end in a guest that has a card of its own.
    pub card: Option<&'a Card>,
}

impl OpenPath {
    /// Builds what the description says and starts both agents.
    ///
    /// # Errors
    /// What could not be built or started, and why.
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

    /// The switch in user space between the ends, where there is one.
    pub fn switch(&self) -> Option<&UserSpaceSwitch> {
        self.path.switch.as_ref()
    }

    /// Stops what would take the CPU from other paths though nothing goes over this one, or lets it go on.
    pub fn set_running(&self, runs: bool) {
        if let Some(UserSpaceSwitch::OvsDpdk(switch)) = &self.path.switch {
            switch.set_running(runs);
        }
    }

    /// Exits of the guest's vCPUs since its start; none where there is no guest, or nothing counts them.
    pub fn exits(&mut self) -> Option<u64> {
        self.near.exits()
    }

    /// QEMU's process, where the near end is in a guest.
    pub fn qemu(&self) -> Option<u32> {
        self.guest.then(|| self.near.process_id())
    }
}
