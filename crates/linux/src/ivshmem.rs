//! A guest's end of memory that it shares with its host: QEMU's `ivshmem` devices (QEMU,
//! docs/specs/ivshmem-spec.rst), as sysfs shows them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

const VENDOR: &str = "0x1af4";
const DEVICE: &str = "0x1110";
/// The file of its BAR 2, which is the shared memory.
const MEMORY: &str = "resource2";

/// The sysfs folder of the first ivshmem device.
///
/// # Errors
/// No PCI device is an ivshmem device, or sysfs is not mounted.
pub fn find() -> io::Result<PathBuf> {
    let is = |at: &Path, file: &str, value: &str| {
        fs::read_to_string(at.join(file)).is_ok_and(|text| text.trim() == value)
    };
    let devices = fs::read_dir("/sys/bus/pci/devices")?.flatten().map(|entry| entry.path());
    let mut found: Vec<_> =
        devices.filter(|at| is(at, "vendor", VENDOR) && is(at, "device", DEVICE)).collect();
    found.sort();
    let none = || io::Error::new(io::ErrorKind::NotFound, "no PCI device is an ivshmem");
    found.into_iter().next().ok_or_else(none)
}

/// The file of the device's memory (BAR 2), to be mapped. The device must be enabled: see [`open`].
///
/// # Errors
/// The file of the BAR cannot be opened, which needs root.
pub fn memory(at: &Path) -> io::Result<File> {
    let file = at.join(MEMORY);
    let opened = OpenOptions::new().read(true).write(true).open(&file);
    opened.map_err(|error| io::Error::new(error.kind(), format!("opening {}: {error}", file.display())))
}

/// Enables the first ivshmem device, which has no driver, and opens its memory.
///
/// # Errors
/// The causes of [`find`] and [`memory`], or the device cannot be enabled, which needs root.
pub fn open() -> io::Result<File> {
    let at = find()?;
    let enable = at.join("enable");
    fs::write(&enable, "1")
        .map_err(|error| io::Error::new(error.kind(), format!("writing {}: {error}", enable.display())))?;
    memory(&at)
}
