//! Creates the kernel's device, or opens the one that a process before this one has left.
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use linux::vduse::{CONTROL, Control, Device, Name, NewDevice};
use rustix::io::Errno;

use crate::DeviceError;

/// A process that was killed has its device open until its memory is given back.
const PATIENCE: Duration = Duration::from_secs(2);

/// A device of the wanted name.
pub(super) enum Opened {
    /// The device was created now.
    New(Arc<Device>),
    /// A process before this one has left it.
    Former(Arc<Device>),
    /// The kernel has given it up, so that it must be removed first ([`Change::discard`](super::bus::Change::discard)).
    GivenUp,
}

/// The settings of a device.
pub(super) struct Wanted<'a> {
    pub name: &'a Name,
    pub device_id: u32,
    pub features: u64,
    pub queues: u16,
    pub queue_size: u16,
    pub config: &'a [u8],
}

/// Opens the device of this name, and creates it if there is none.
///
/// # Errors
/// The kernel has no VDUSE, the caller lacks `CAP_NET_ADMIN`, or another process serves the device.
pub(super) fn open(wanted: &Wanted<'_>) -> Result<Opened, DeviceError> {
    let control = control()?;
    if !create(&control, wanted)? {
        let device = open_device(wanted.name)?;
        return Ok(match device.features() {
            Ok(_) => Opened::Former(Arc::new(device)),
            Err(_) => Opened::GivenUp,
        });
    }
    let device = open_device(wanted.name)?;
    for index in 0..u32::from(wanted.queues) {
        device.set_queue_size(index, wanted.queue_size).map_err(|error| {
            let what = format!("set the size of queue {index} of vduse:{}", wanted.name);
            DeviceError::new(what, error, "see the kernel's log")
        })?;
    }
    Ok(Opened::New(Arc::new(device)))
}

fn control() -> Result<Control, DeviceError> {
    Control::open().map_err(|error| {
        let remedy = match error.kind() {
            io::ErrorKind::NotFound => {
                "load the kernel's module vduse, as root: modprobe vduse; it needs a kernel with CONFIG_VDPA_USER (Linux \
                 6.9 or later; in Debian 12 linux-image-6.12-amd64 of the security suite, in Ubuntu \
                 linux-modules-extra-VERSION); in a container, pass the folder /dev/vduse in"
            }
            io::ErrorKind::PermissionDenied => {
                "run the switch as root, or let its user open the files in /dev/vduse"
            }
            _ => "see the kernel's log",
        };
        DeviceError::new(format!("open {CONTROL}"), error, remedy)
    })
}

/// Creates a device; false if there is one of this name.
fn create(control: &Control, wanted: &Wanted<'_>) -> Result<bool, DeviceError> {
    let Wanted { name, device_id, features, queues, config, .. } = *wanted;
    match control.create(&NewDevice { name, device_id, features, queues: queues.into(), config }) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => {
            let remedy = match Errno::from_io_error(&error) {
                Some(Errno::PERM) => "run the switch as root, or with CAP_NET_ADMIN",
                _ => "this kernel takes no such device: network devices need Linux 6.9 or later",
            };
            Err(DeviceError::new(format!("create the VDUSE device {name}"), error, remedy))
        }
    }
}

fn open_device(name: &Name) -> Result<Device, DeviceError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let error = match Device::open(name) {
            Ok(device) => return Ok(device),
            Err(error) => error,
        };
        // devtmpfs or udev may still be making the file, and another process closing it.
        let passes = matches!(Errno::from_io_error(&error), Some(Errno::BUSY | Errno::NOENT));
        if !passes || Instant::now() > deadline {
            let remedy = match error.kind() {
                io::ErrorKind::ResourceBusy => {
                    "another process serves this device: end it, or choose another name"
                }
                io::ErrorKind::PermissionDenied => "run the switch as root, or let its user open the file",
                _ => {
                    "mount devtmpfs, or run udev, so that the file appears; in a container, pass /dev/vduse in"
                }
            };
            return Err(DeviceError::new(format!("open {}", Device::path(name).display()), error, remedy));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Removes a closed device that is not on the bus.
///
/// # Errors
/// The device is open in another process, or is on the bus.
pub(super) fn destroy(name: &Name) -> io::Result<()> {
    Control::open()?.destroy(name)
}
