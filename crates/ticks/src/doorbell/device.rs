//! The doorbell in a guest: a PCI device that `vfio-pci` passes to user space. Its memory is a BAR. Its interrupt is
//! an eventfd, which the kernel's handler of the MSI-X vector signals.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use linux::ivshmem;
use measure::Failure;
use vfio_ioctls::{VfioContainer, VfioDevice, VfioError};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

/// Linux, include/uapi/linux/vfio.h: `VFIO_PCI_CONFIG_REGION_INDEX`.
const CONFIGURATION: u32 = 7;
/// PCI: the command register, and its bits for memory and for messages of the device's own, which MSI-X are.
const COMMAND: u64 = 4;
const MEMORY_AND_MASTER: u16 = 0b110;

/// The opened device. Dropping it disables the interrupt.
pub struct Device {
    memory: File,
    interrupt: OwnedFd,
    _device: VfioDevice,
}

impl Device {
    /// Takes the first such device of this machine from its present driver to `vfio-pci`, and opens it.
    ///
    /// # Errors
    /// There is no such device, or the kernel does not pass it to user space.
    pub fn open() -> Result<Self, Failure> {
        let failed = |answer: String| {
            let remedy = "see that the guest has QEMU's ivshmem-doorbell, an IOMMU and the driver vfio-pci";
            Failure::new("taking the doorbell of this guest", answer, remedy)
        };
        let at = ivshmem::find().map_err(|error| failed(error.to_string()))?;
        bind(&at).map_err(|error| failed(format!("binding {} to vfio-pci: {error}", at.display())))?;
        let open = || -> Result<(VfioDevice, OwnedFd), VfioError> {
            let device = VfioDevice::new(&at, Arc::new(VfioContainer::new(None)?), false)?;
            let interrupt = EventFd::new(EFD_NONBLOCK).map_err(VfioError::OpenContainer)?;
            device.enable_msix(vec![&interrupt])?;
            // SAFETY: the descriptor is open, and its only owner gives it away.
            Ok((device, unsafe { OwnedFd::from_raw_fd(interrupt.into_raw_fd()) }))
        };
        let (device, interrupt) = open().map_err(|error| failed(error.to_string()))?;
        let mut command = [0; 2];
        device.region_read(CONFIGURATION, &mut command, COMMAND);
        let wanted = u16::from_le_bytes(command) | MEMORY_AND_MASTER;
        device.region_write(CONFIGURATION, &wanted.to_le_bytes(), COMMAND);
        device.region_read(CONFIGURATION, &mut command, COMMAND);
        if u16::from_le_bytes(command) & MEMORY_AND_MASTER != MEMORY_AND_MASTER {
            return Err(failed(format!("its command register stays {command:02x?}")));
        }
        let memory = ivshmem::memory(&at).map_err(|error| failed(error.to_string()))?;
        Ok(Device { memory, interrupt, _device: device })
    }

    /// The shared memory, to be mapped.
    pub fn memory(&self) -> &File {
        &self.memory
    }

    /// Readable when an interrupt has come.
    pub fn interrupt(&self) -> &OwnedFd {
        &self.interrupt
    }
}

/// Gives it to `vfio-pci`.
fn bind(at: &Path) -> io::Result<()> {
    const DRIVER: &str = "vfio-pci";
    let driver = |at: &Path| fs::read_link(at.join("driver")).ok();
    let is_bound = |at: &Path| driver(at).is_some_and(|driver| driver.ends_with(DRIVER));
    if is_bound(at) {
        return Ok(());
    }
    let name = at.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    fs::write(at.join("driver_override"), DRIVER)?;
    if driver(at).is_some() {
        fs::write(at.join("driver/unbind"), name)?;
    }
    fs::write("/sys/bus/pci/drivers_probe", name)?;
    if is_bound(at) {
        return Ok(());
    }
    let why = match (Path::new("/sys/bus/pci/drivers").join(DRIVER).exists(), at.join("iommu_group").exists())
    {
        (false, _) => "that driver is not loaded",
        (true, false) => "it is in no IOMMU group",
        (true, true) => "the driver refused it; see the kernel's log",
    };
    Err(io::Error::other(why))
}
