//! vhost-vdpa: a vDPA device for a program, by `/dev/vhost-vdpa-N` (linux/vhost.h, linux/vhost_types.h).
//!
//! The program that has the file open owns the device: it maps memory for it, sets up queues and starts it. When the
//! file is closed, the kernel resets the device, and unmaps and unpins all memory.
mod calls;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

/// Bits of a device's status (VIRTIO 1.3 §2.1).
pub mod status {
    /// The driver has noticed the device.
    pub const ACKNOWLEDGE: u8 = 1;
    /// The driver can drive the device.
    pub const DRIVER: u8 = 1 << 1;
    /// The driver is ready, and the device runs.
    pub const DRIVER_OK: u8 = 1 << 2;
    /// Features are agreed on.
    pub const FEATURES_OK: u8 = 1 << 3;
    /// The device met an error, and does nothing until it is reset.
    pub const NEEDS_RESET: u8 = 1 << 6;
}

/// Features of the interface itself (`VHOST_BACKEND_F_…`).
pub mod interface {
    /// Memory is mapped by messages of the second form.
    pub const MEMORY_MESSAGES: u64 = 1 << 1;
    /// Several messages change memory at once.
    pub const BATCHES: u64 = 1 << 2;
    /// The device can be suspended: it stops, and keeps its queues' positions.
    pub const SUSPEND: u64 = 1 << 4;
    /// A reset of the device keeps its memory mapped.
    pub const MEMORY_PERSISTS: u64 = 1 << 8;
}

/// `VHOST_IOTLB_MSG_V2`.
const MESSAGE_TYPE: u32 = 2;
/// Bytes of `struct vhost_msg_v2`.
const MESSAGE_BYTES: usize = 72;

/// A change of the device's memory (`struct vhost_iotlb_msg`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryChange {
    /// Maps memory of this process at an I/O virtual address, for reading and writing. The kernel pins the pages.
    Map {
        /// The first I/O virtual address.
        iova: u64,
        /// Bytes, whole pages.
        bytes: u64,
        /// The first address in this process.
        address: u64,
    },
    /// Unmaps what is mapped in this range.
    Unmap {
        /// The first I/O virtual address.
        iova: u64,
        /// Bytes, whole pages.
        bytes: u64,
    },
    /// The changes that follow take effect together.
    Begin,
    /// The changes since [`MemoryChange::Begin`] take effect.
    End,
}

impl MemoryChange {
    fn bytes(self) -> [u8; MESSAGE_BYTES] {
        const READ_AND_WRITE: u8 = 3;
        let (iova, size, address, access, kind) = match self {
            MemoryChange::Map { iova, bytes, address } => (iova, bytes, address, READ_AND_WRITE, 2),
            MemoryChange::Unmap { iova, bytes } => (iova, bytes, 0, 0, 3),
            MemoryChange::Begin => (0, 0, 0, 0, 5),
            MemoryChange::End => (0, 0, 0, 0, 6),
        };
        let mut message = [0; MESSAGE_BYTES];
        message[..4].copy_from_slice(&MESSAGE_TYPE.to_ne_bytes());
        for (at, number) in [(8, iova), (16, size), (24, address)] {
            message[at..at + 8].copy_from_slice(&u64::to_ne_bytes(number));
        }
        (message[32], message[33]) = (access, kind);
        message
    }
}

/// The addresses of a queue's three parts. They are I/O virtual addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueAddresses {
    /// Descriptor table (split) or descriptor ring (packed).
    pub descriptors: u64,
    /// Available ring (split) or driver event suppression (packed).
    pub available: u64,
    /// Used ring (split) or device event suppression (packed).
    pub used: u64,
}

/// The I/O virtual addresses at which memory may be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    /// The first address.
    pub first: u64,
    /// The last address.
    pub last: u64,
}

/// An open device.
#[derive(Debug)]
pub struct Device {
    file: File,
    /// The device's folder, which the kernel removes when the device goes.
    folder: PathBuf,
}

impl Device {
    /// Opens a device, which is reset thereby, and becomes its owner.
    ///
    /// # Errors
    /// No device has this path (`ENOENT`), another program has it open (`EBUSY`), the caller may not open it
    /// (`EACCES`), or the file is no vhost-vdpa device (`ENOTTY`, `EINVAL`).
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let metadata = file.metadata()?;
        if !metadata.file_type().is_char_device() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no character device"));
        }
        let number = metadata.rdev();
        let folder = PathBuf::from(format!("/sys/dev/char/{}:{}", major(number), minor(number)));
        calls::set_owner(file.as_fd())?;
        Ok(Device { file, folder })
    }

    /// Whether the kernel still has the device. A device that goes waits until its file is closed.
    pub fn is_there(&self) -> bool {
        // Where /sys is not mounted, nothing is known.
        self.folder.exists() || !Path::new("/sys/dev/char").exists()
    }

    /// The kind of device (VIRTIO 1.3 §5): 1 is a network device.
    ///
    /// # Errors
    /// The call is refused.
    pub fn device_id(&self) -> io::Result<u32> {
        calls::device_id(self.as_fd())
    }

    /// The device's features.
    ///
    /// # Errors
    /// The call is refused.
    pub fn features(&self) -> io::Result<u64> {
        calls::features(self.as_fd())
    }

    /// Accepts features, once after each reset.
    ///
    /// # Errors
    /// The device does not have one of them (`EINVAL`), or features were accepted already (`EBUSY`).
    pub fn set_features(&self, features: u64) -> io::Result<()> {
        calls::set_features(self.as_fd(), features)
    }

    /// Features of the interface.
    ///
    /// # Errors
    /// The call is refused.
    pub fn interface_features(&self) -> io::Result<u64> {
        calls::backend_features(self.as_fd())
    }

    /// Accepts features of the interface, of those that [`Device::interface_features`] returns.
    ///
    /// # Errors
    /// The kernel does not have one of them (`EOPNOTSUPP`).
    pub fn set_interface_features(&self, features: u64) -> io::Result<()> {
        calls::set_backend_features(self.as_fd(), features)
    }

    /// The device's status: bits of [`status`].
    ///
    /// # Errors
    /// The call is refused.
    pub fn status(&self) -> io::Result<u8> {
        calls::status(self.as_fd())
    }

    /// Sets bits of the device's status, or resets the device: 0.
    ///
    /// # Errors
    /// A bit would be cleared (`EINVAL`), or an interrupt cannot be set up.
    pub fn set_status(&self, status: u8) -> io::Result<()> {
        calls::set_status(self.as_fd(), status)
    }

    /// The first bytes of the configuration space, at most 64.
    ///
    /// # Errors
    /// The configuration space is shorter (`E2BIG`).
    pub fn config(&self, bytes: usize) -> io::Result<Vec<u8>> {
        calls::config(self.as_fd(), bytes)
    }

    /// Sets the eventfd that the kernel signals when the device's configuration or status has changed.
    ///
    /// # Errors
    /// The descriptor is no eventfd (`EINVAL`).
    pub fn set_config_call(&self, call: Option<BorrowedFd<'_>>) -> io::Result<()> {
        calls::set_config_call(self.as_fd(), call)
    }

    /// The most descriptors of a queue.
    ///
    /// # Errors
    /// The call is refused.
    pub fn largest_queue(&self) -> io::Result<u16> {
        calls::largest_queue(self.as_fd())
    }

    /// The addresses at which memory may be mapped.
    ///
    /// # Errors
    /// The call is refused.
    pub fn address_range(&self) -> io::Result<AddressRange> {
        calls::address_range(self.as_fd()).map(|(first, last)| AddressRange { first, last })
    }

    /// Changes the device's memory.
    ///
    /// # Errors
    /// All with `EFAULT`: the limit of locked memory is reached, there is no memory, the memory has more pieces than the
    /// module's parameter `max_iotlb_entries`, something is mapped there already, or the address is out of range. `EINVAL`:
    /// the range is empty.
    pub fn change_memory(&self, change: MemoryChange) -> io::Result<()> {
        match rustix::io::write(&self.file, &change.bytes())? {
            MESSAGE_BYTES => Ok(()),
            short => Err(io::Error::other(format!("the kernel took {short} bytes of a message"))),
        }
    }

    /// Sets the number of descriptors of a queue.
    ///
    /// # Errors
    /// The device has no such queue (`ENOBUFS`), or the size is no power of two (`EINVAL`).
    pub fn set_queue_size(&self, index: u32, size: u16) -> io::Result<()> {
        calls::set_queue_size(self.as_fd(), index, size)
    }

    /// Sets the addresses of a queue.
    ///
    /// # Errors
    /// The device has no such queue (`ENOBUFS`), an address is not aligned, or the device runs (`EINVAL`).
    pub fn set_queue_addresses(&self, index: u32, addresses: QueueAddresses) -> io::Result<()> {
        let QueueAddresses { descriptors, available, used } = addresses;
        calls::set_queue_addresses(self.as_fd(), index, descriptors, available, used)
    }

    /// Sets the position at which a queue starts, as in the vhost-user message SET_VRING_BASE.
    ///
    /// # Errors
    /// The device starts queues at their beginning only (`EOPNOTSUPP`), or it has no such queue (`ENOBUFS`).
    pub fn set_queue_base(&self, index: u32, base: u32) -> io::Result<()> {
        calls::set_queue_base(self.as_fd(), index, base)
    }

    /// The position of a queue, as in the vhost-user message GET_VRING_BASE.
    ///
    /// # Errors
    /// The device does not know it (`EOPNOTSUPP`), or it has no such queue (`ENOBUFS`).
    pub fn queue_base(&self, index: u32) -> io::Result<u32> {
        calls::queue_base(self.as_fd(), index)
    }

    /// Enables a queue.
    ///
    /// # Errors
    /// The device has no such queue (`ENOBUFS`).
    pub fn enable_queue(&self, index: u32) -> io::Result<()> {
        calls::enable_queue(self.as_fd(), index)
    }

    /// Sets the eventfd by which the driver kicks a queue. The kernel waits for it.
    ///
    /// # Errors
    /// The descriptor is no eventfd (`EINVAL`), or the device has no such queue (`ENOBUFS`).
    pub fn set_kick(&self, index: u32, kick: Option<BorrowedFd<'_>>) -> io::Result<()> {
        calls::set_kick(self.as_fd(), index, kick)
    }

    /// Sets the eventfd that the kernel signals when the device has used buffers of a queue.
    ///
    /// # Errors
    /// The descriptor is no eventfd (`EINVAL`), or the device has no such queue (`ENOBUFS`).
    pub fn set_call(&self, index: u32, call: Option<BorrowedFd<'_>>) -> io::Result<()> {
        calls::set_call(self.as_fd(), index, call)
    }

    /// Stops the device, which keeps its queues' positions.
    ///
    /// # Errors
    /// The device cannot be suspended (`EOPNOTSUPP`).
    pub fn suspend(&self) -> io::Result<()> {
        calls::suspend(self.as_fd())
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_kernels_form() {
        let map = MemoryChange::Map { iova: 0x1000, bytes: 0x2000, address: 0x7f00_0000_3000 }.bytes();
        assert_eq!(map[..8], [2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(map[8..16], 0x1000u64.to_ne_bytes());
        assert_eq!(map[16..24], 0x2000u64.to_ne_bytes());
        assert_eq!(map[24..32], 0x7f00_0000_3000u64.to_ne_bytes());
        assert_eq!(map[32..34], [3, 2]);
        assert!(map[34..].iter().all(|byte| *byte == 0));
        assert_eq!(MemoryChange::Unmap { iova: 0, bytes: 1 }.bytes()[32..34], [0, 3]);
        assert_eq!([MemoryChange::Begin, MemoryChange::End].map(|change| change.bytes()[33]), [5, 6]);
    }

    #[test]
    fn a_file_that_is_no_device_is_refused() {
        assert_eq!(Device::open(Path::new("/dev/null")).unwrap_err().raw_os_error(), Some(libc::ENOTTY));
    }
}
