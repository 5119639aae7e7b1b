//! The kernel's vDPA bus: devices are added to it by generic netlink (linux/vdpa.h), and bound to drivers by sysfs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::generic_netlink::{Family, text};

const FAMILY: &str = "vdpa";
const VERSION: u8 = 1;
const DEVICE_NEW: u8 = 3;
const DEVICE_DELETE: u8 = 4;
const MANAGEMENT_DEVICE: u16 = 2;
const DEVICE_NAME: u16 = 4;

/// The folder of the bus.
const BUS: &str = "/sys/bus/vdpa";

/// What drives a device of the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// The kernel's own virtio drivers: a network device becomes a network interface.
    Kernel,
    /// `/dev/vhost-vdpa-N`, for a guest or another program.
    Vhost,
}

impl Driver {
    /// The name of the driver and of its module.
    pub fn module(self) -> &'static str {
        match self {
            Driver::Kernel => "virtio_vdpa",
            Driver::Vhost => "vhost_vdpa",
        }
    }
}

/// Adds a device of a management device to the bus. The call returns when the device's driver has started, which may
/// need answers of the process behind the device.
///
/// # Errors
/// The kernel has no vDPA (`ENOENT`), no such management device (`ENODEV`) or no such device (`EINVAL`), the device is
/// on the bus already (`EEXIST`), or the caller lacks `CAP_NET_ADMIN` (`EPERM`).
pub fn add(management_device: &str, name: &str) -> io::Result<()> {
    let attributes = [(MANAGEMENT_DEVICE, text(management_device)), (DEVICE_NAME, text(name))];
    call(DEVICE_NEW, &attributes)
}

/// Removes a device from the bus. The call returns when the device's driver has stopped, which may need answers of the
/// process behind the device.
///
/// # Errors
/// The kernel has no vDPA (`ENOENT`), no such device is on the bus (`ENODEV`), or the caller lacks `CAP_NET_ADMIN`
/// (`EPERM`).
pub fn remove(name: &str) -> io::Result<()> {
    call(DEVICE_DELETE, &[(DEVICE_NAME, text(name))])
}

fn call(command: u8, attributes: &[(u16, Vec<u8>)]) -> io::Result<()> {
    let attributes: Vec<_> = attributes.iter().map(|(kind, bytes)| (*kind, bytes.as_slice())).collect();
    Family::find(FAMILY)?.call(command, VERSION, &attributes).map(drop)
}

/// Whether a driver is loaded.
pub fn has_driver(driver: Driver) -> bool {
    Path::new(BUS).join("drivers").join(driver.module()).is_dir()
}

/// Gives a device of the bus to this driver, and takes it from another one. The call returns when the driver has
/// started.
///
/// # Errors
/// The driver is not loaded (`ENOENT`), or a file of sysfs cannot be written.
pub fn bind(name: &str, driver: Driver) -> io::Result<()> {
    let device = device(name);
    let now = fs::read_link(device.join("driver")).ok();
    let is_bound = now.as_ref().and_then(|link| link.file_name()).is_some_and(|now| now == driver.module());
    if is_bound {
        return Ok(());
    }
    let of_driver = Path::new(BUS).join("drivers").join(driver.module()).join("bind");
    if !of_driver.exists() {
        return Err(io::Error::from_raw_os_error(libc::ENOENT));
    }
    fs::write(device.join("driver_override"), driver.module())?;
    if now.is_some() {
        fs::write(device.join("driver/unbind"), name)?;
    }
    fs::write(of_driver, name)
}

/// What a driver has made of a device: the name of a network interface of this network namespace, or the path of a
/// character device.
pub fn made(name: &str) -> Option<String> {
    let entries = |folder: PathBuf| {
        let names = fs::read_dir(folder).into_iter().flatten().flatten();
        names.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
    };
    let device = device(name);
    entries(device.clone()).into_iter().find_map(|part| match part.as_str() {
        vhost if vhost.starts_with("vhost-vdpa") => Some(format!("/dev/{vhost}")),
        virtio if virtio.starts_with("virtio") => entries(device.join(virtio).join("net")).pop(),
        _ => None,
    })
}

/// Whether the device of this name on the bus is one that a process serves (VDUSE). `None`: no device has this name.
pub fn is_served_by_a_process(name: &str) -> Option<bool> {
    let path = fs::canonicalize(device(name)).ok()?;
    // The folder above is the device of the class `vduse` that the process has open.
    let class = path.parent().and_then(|above| fs::read_link(above.join("subsystem")).ok());
    Some(class.as_ref().and_then(|class| class.file_name()).is_some_and(|class| class == "vduse"))
}

fn device(name: &str) -> PathBuf {
    Path::new(BUS).join("devices").join(name)
}
