//! The guest's end of a doorbell: QEMU's `ivshmem-doorbell`, and the modules that give it to user space in the guest.

use std::path::{Path, PathBuf};

use measure::Failure;

use super::modules::{Module, Modules};
use super::settings::Machine;

/// The words on the guest's kernel command line that give VFIO an IOMMU.
pub const KERNEL_WORDS: &str = "intel_iommu=on ";

const DRIVERS: &[&str] = &["vfio_iommu_type1", "vfio_pci"];

/// A doorbell, and the guest's drivers for it.
#[derive(Clone, Debug)]
pub struct Doorbell {
    socket: PathBuf,
    modules: Vec<Module>,
}

impl Doorbell {
    /// The doorbell of a server that listens at `socket`, for a guest with this kernel and board.
    ///
    /// # Errors
    /// The board is not q35, the machine is not x86-64, or the kernel's modules are missing or cannot be read.
    pub fn new(socket: &Path, kernel: &Path, machine: Machine) -> Result<Self, Failure> {
        if !cfg!(target_arch = "x86_64") || machine != Machine::Q35 {
            return Err(Failure::new(
                "giving a guest an ivshmem doorbell",
                "its board has no IOMMU that QEMU emulates for it",
                "use the board q35, on x86-64",
            ));
        }
        let modules = Modules::of_image(kernel)?.with_dependencies(DRIVERS).map_err(|error| {
            let remedy = "check that its modules can be read";
            Failure::new(format!("reading the modules of {}", kernel.display()), error, remedy)
        })?;
        Ok(Doorbell { socket: socket.to_owned(), modules })
    }

    /// The modules, in the order in which the guest loads them.
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// For QEMU. QEMU's arguments. The IOMMU does not map interrupts: with KVM, interrupt mapping requires an
    /// interrupt controller that is partly in user space, and the doorbell's interrupts do not arrive there (QEMU
    /// 7.2).
    pub fn arguments(&self) -> [String; 6] {
        [
            "-device".into(),
            "intel-iommu,intremap=off".into(),
            "-chardev".into(),
            format!("socket,id=doorbell,path={}", self.socket.display()),
            "-device".into(),
            "ivshmem-doorbell,chardev=doorbell,vectors=1".into(),
        ]
    }
}
