//! VDUSE: devices that a process presents to its kernel (Documentation/userspace-api/vduse.rst, linux/vduse.h).
//!
//! A process creates a device by `/dev/vduse/control` ([`Control`]) and serves it by `/dev/vduse/NAME` ([`Device`]).
//! The device gets a driver when it is added to the vDPA bus (module [`vdpa`](crate::vdpa)).
mod calls;
mod message;
mod new_device;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

pub use calls::{CONFIG_BYTES, INJECT, MemoryEntry, Queue};
pub use message::{Position, Reply, Request, RequestKind};
pub use new_device::{Name, NewDevice};

/// The folder of the devices.
const FOLDER: &str = "/dev/vduse";

/// The path of the device through which devices are created.
pub const CONTROL: &str = "/dev/vduse/control";

/// `/dev/vduse/control`.
#[derive(Debug)]
pub struct Control {
    file: File,
    version: u64,
}

impl Control {
    /// Opens the control device and selects version 0 of the interface, which all kernels have.
    ///
    /// # Errors
    /// The kernel has no VDUSE (`ENOENT`), the caller may not open the device, or the version is refused.
    pub fn open() -> io::Result<Self> {
        Self::open_version(0)
    }

    /// Opens the control device and selects a version of the interface.
    ///
    /// # Errors
    /// The causes of [`Control::open`]; a version that the kernel does not have is `EINVAL`.
    pub fn open_version(version: u64) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(CONTROL)?;
        calls::set_version(file.as_fd(), version)?;
        Ok(Control { file, version })
    }

    /// Creates a device. The device exists until it is destroyed, also without a process.
    ///
    /// # Errors
    /// A device of this name exists (`EEXIST`), the caller lacks `CAP_NET_ADMIN` (`EPERM`), the kernel does not allow
    /// the kind of device or one of its features (`EINVAL`), or the configuration is longer than [`CONFIG_BYTES`].
    pub fn create(&self, device: &NewDevice<'_>) -> io::Result<()> {
        calls::create(self.file.as_fd(), self.version, device)
    }

    /// Destroys a device.
    ///
    /// # Errors
    /// No device has this name (`EINVAL`), or the device is open or on the vDPA bus (`EBUSY`).
    pub fn destroy(&self, name: &Name) -> io::Result<()> {
        calls::destroy(self.file.as_fd(), name)
    }
}

/// An open device. One open file at a time is possible.
#[derive(Debug)]
pub struct Device(OwnedFd);

impl Device {
    /// The path of a device.
    pub fn path(name: &Name) -> PathBuf {
        Path::new(FOLDER).join(name.as_str())
    }

    /// Opens a device.
    ///
    /// # Errors
    /// No device has this name (`ENOENT`), another process has it open (`EBUSY`), or the caller may not open it.
    pub fn open(name: &Name) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags((OFlags::NONBLOCK | OFlags::CLOEXEC).bits() as i32);
        options.open(Self::path(name)).map(|file| Device(file.into()))
    }

    /// A device that another process has opened.
    pub fn adopt(fd: OwnedFd) -> Self {
        Device(fd)
    }

    /// The features that the driver has accepted.
    ///
    /// # Errors
    /// The kernel has given the device up, because a request was not answered in time (`EPERM`).
    pub fn features(&self) -> io::Result<u64> {
        calls::features(self.as_fd())
    }

    /// Sets the most descriptors of a queue. All queues need this before the device is added to the bus.
    ///
    /// # Errors
    /// The device has no such queue, or the kernel has given the device up.
    pub fn set_queue_size(&self, index: u32, most: u16) -> io::Result<()> {
        calls::set_queue_size(self.as_fd(), index, most)
    }

    /// The settings of a queue that the driver has made.
    ///
    /// # Errors
    /// The device has no such queue, or the kernel has given the device up.
    pub fn queue(&self, index: u32, is_packed: bool) -> io::Result<Queue> {
        calls::queue(self.as_fd(), index, is_packed)
    }

    /// Sets the eventfd that the kernel signals when the driver kicks the queue.
    ///
    /// # Errors
    /// The device has no such queue, the descriptor is no eventfd, or the kernel has given the device up.
    pub fn set_kick(&self, index: u32, kick: BorrowedFd<'_>) -> io::Result<()> {
        calls::set_kick(self.as_fd(), index, kick)
    }

    /// Interrupts the driver of a queue.
    ///
    /// # Errors
    /// The device has no such queue, the driver is not ready (DRIVER_OK), or the kernel has given the device up.
    pub fn inject(&self, index: u32) -> io::Result<()> {
        Self::inject_into(self.as_fd(), index)
    }

    /// Interrupts the driver of a queue of the device behind a descriptor.
    ///
    /// # Errors
    /// The causes of [`Device::inject`], or the descriptor is no VDUSE device (`ENOTTY`).
    pub fn inject_into(device: BorrowedFd<'_>, index: u32) -> io::Result<()> {
        calls::inject(device, index)
    }

    /// The first range of memory that lies at or above `start`, with the file to map; `None` if there is none.
    ///
    /// # Errors
    /// The open-files limit is reached, or the kernel has given the device up.
    pub fn memory(&self, start: u64) -> io::Result<Option<(MemoryEntry, OwnedFd)>> {
        calls::memory(self.as_fd(), start)
    }

    /// The next request of the kernel, if one waits.
    ///
    /// # Errors
    /// The read is refused, or shorter than a request.
    pub fn request(&self) -> io::Result<Option<Request>> {
        let mut bytes = [0; message::BYTES];
        match rustix::io::read(&self.0, &mut bytes) {
            Ok(message::BYTES) => Ok(Some(Request::parse(&bytes))),
            Ok(short) => Err(io::Error::other(format!("a request of {short} bytes"))),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Answers a request.
    ///
    /// # Errors
    /// The kernel no longer waits for the answer (`ENOENT`).
    pub fn reply(&self, request: Request, reply: Reply) -> io::Result<()> {
        rustix::io::write(&self.0, &reply.bytes(request)).map(drop).map_err(io::Error::from)
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
