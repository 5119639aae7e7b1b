//! The ioctls of VDUSE, which no library wraps (linux/vduse.h).
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::ioctl::{Opcode, opcode};

use super::message::Position;
use super::new_device::{Name, NewDevice};

const GROUP: u8 = 0x81;
const NAME_BYTES: usize = 256;

/// The longest configuration space.
pub const CONFIG_BYTES: usize = 64;

/// The number of [`Device::inject`](super::Device::inject)'s call, for filters of system calls.
pub const INJECT: u32 = opcode::write::<u32>(GROUP, 0x17) as u32;

/// `struct vduse_dev_config` without its last field.
#[repr(C)]
struct Settings {
    name: [u8; NAME_BYTES],
    vendor_id: u32,
    device_id: u32,
    features: u64,
    queues: u32,
    queue_align: u32,
    /// Groups of queues, since version 1 of the interface.
    groups: u32,
    /// Address spaces, since version 1 of the interface. Linux 7.3 takes no device without one.
    address_spaces: u32,
    reserved: [u32; 11],
    config_bytes: u32,
}

#[repr(C)]
struct Create {
    settings: Settings,
    config: [u8; CONFIG_BYTES],
}

/// `struct vduse_iotlb_entry`.
#[repr(C)]
#[derive(Default)]
struct Entry {
    offset: u64,
    start: u64,
    last: u64,
    access: u8,
}

/// `struct vduse_vq_config`.
#[repr(C)]
struct QueueSize {
    index: u32,
    most: u16,
    reserved: [u16; 13],
}

/// `struct vduse_vq_info`.
#[repr(C)]
#[derive(Default)]
struct Info {
    index: u32,
    size: u32,
    descriptors: u64,
    driver: u64,
    device: u64,
    position: [u16; 4],
    ready: u8,
}

/// `struct vduse_vq_eventfd`.
#[repr(C)]
struct Kick {
    index: u32,
    fd: c_int,
}

/// A queue as the driver has set it up. Addresses are I/O virtual addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Number of descriptors.
    pub size: u32,
    /// Descriptor table (split) or descriptor ring (packed).
    pub descriptors: u64,
    /// Available ring (split) or driver event suppression (packed).
    pub driver: u64,
    /// Used ring (split) or device event suppression (packed).
    pub device: u64,
    /// The position at which the driver starts the queue. The kernel does not follow the device's progress.
    pub position: Position,
    /// Whether the driver has enabled the queue.
    pub is_ready: bool,
}

/// A range of I/O virtual addresses, and its place in the file that comes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryEntry {
    /// The first address.
    pub start: u64,
    /// The last address.
    pub last: u64,
    /// The offset of the first byte in the file.
    pub offset: u64,
    /// Whether the device may both read and write.
    pub is_writable: bool,
}

/// Makes a call with an argument in memory, and returns the call's result.
///
/// # Safety
/// The call must read and write at most one `T`.
unsafe fn call<T>(fd: BorrowedFd<'_>, call: Opcode, argument: &mut T) -> io::Result<c_int> {
    // SAFETY: the descriptor is open, the argument is live, and the caller promises that the call takes no more.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), call as _, std::ptr::from_mut(argument)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

pub(super) fn set_version(control: BorrowedFd<'_>, mut version: u64) -> io::Result<()> {
    // SAFETY: VDUSE_SET_API_VERSION reads one u64.
    unsafe { call(control, opcode::write::<u64>(GROUP, 0x01), &mut version) }.map(drop)
}

fn name_bytes(name: &Name) -> [u8; NAME_BYTES] {
    let mut bytes = [0; NAME_BYTES];
    // A name has 64 bytes at the most, so the last byte stays zero.
    bytes.iter_mut().zip(name.as_str().bytes()).for_each(|(to, from)| *to = from);
    bytes
}

/// Creates a device with one group of queues and one address space, or, in version 0 of the interface, without either.
pub(super) fn create(control: BorrowedFd<'_>, version: u64, device: &NewDevice<'_>) -> io::Result<()> {
    let too_long = || io::Error::new(io::ErrorKind::InvalidInput, "the configuration space is too long");
    let mut config = [0; CONFIG_BYTES];
    config.get_mut(..device.config.len()).ok_or_else(too_long)?.copy_from_slice(device.config);
    let settings = Settings {
        name: name_bytes(device.name),
        vendor_id: 0x1af4,
        device_id: device.device_id,
        features: device.features,
        queues: device.queues,
        queue_align: 4096,
        groups: u32::from(version > 0),
        address_spaces: u32::from(version > 0),
        reserved: [0; 11],
        config_bytes: device.config.len() as u32,
    };
    // SAFETY: VDUSE_CREATE_DEV reads one `vduse_dev_config` and as many bytes behind it as that says.
    unsafe { call(control, opcode::write::<Settings>(GROUP, 0x02), &mut Create { settings, config }) }
        .map(drop)
}

pub(super) fn destroy(control: BorrowedFd<'_>, name: &Name) -> io::Result<()> {
    let opcode = opcode::write::<[u8; NAME_BYTES]>(GROUP, 0x03);
    // SAFETY: VDUSE_DESTROY_DEV reads 256 bytes.
    unsafe { call(control, opcode, &mut name_bytes(name)) }.map(drop)
}

pub(super) fn memory(device: BorrowedFd<'_>, start: u64) -> io::Result<Option<(MemoryEntry, OwnedFd)>> {
    let mut entry = Entry { start, last: u64::MAX, ..Entry::default() };
    // SAFETY: VDUSE_IOTLB_GET_FD reads and writes one `vduse_iotlb_entry`.
    let fd = match unsafe { call(device, opcode::read_write::<Entry>(GROUP, 0x10), &mut entry) } {
        // SAFETY: the call returned a new descriptor, which nothing else owns.
        Ok(fd) => unsafe { OwnedFd::from_raw_fd(fd) },
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(None),
        Err(error) => return Err(error),
    };
    let Entry { offset, start, last, access } = entry;
    Ok(Some((MemoryEntry { start, last, offset, is_writable: access & 3 == 3 }, fd)))
}

pub(super) fn features(device: BorrowedFd<'_>) -> io::Result<u64> {
    let mut features = 0;
    // SAFETY: VDUSE_DEV_GET_FEATURES writes one u64.
    unsafe { call(device, opcode::read::<u64>(GROUP, 0x11), &mut features) }?;
    Ok(features)
}

pub(super) fn set_queue_size(device: BorrowedFd<'_>, index: u32, most: u16) -> io::Result<()> {
    let mut size = QueueSize { index, most, reserved: [0; 13] };
    // SAFETY: VDUSE_VQ_SETUP reads one `vduse_vq_config`.
    unsafe { call(device, opcode::write::<QueueSize>(GROUP, 0x14), &mut size) }.map(drop)
}

pub(super) fn queue(device: BorrowedFd<'_>, index: u32, is_packed: bool) -> io::Result<Queue> {
    let mut info = Info { index, ..Info::default() };
    // SAFETY: VDUSE_VQ_GET_INFO reads and writes one `vduse_vq_info`.
    unsafe { call(device, opcode::read_write::<Info>(GROUP, 0x15), &mut info) }?;
    let Info { size, descriptors, driver, device, position, ready, .. } = info;
    let position = Position::of_words(position, is_packed);
    Ok(Queue { size, descriptors, driver, device, position, is_ready: ready != 0 })
}

pub(super) fn set_kick(device: BorrowedFd<'_>, index: u32, kick: BorrowedFd<'_>) -> io::Result<()> {
    let mut kick = Kick { index, fd: kick.as_raw_fd() };
    // SAFETY: VDUSE_VQ_SETUP_KICKFD reads one `vduse_vq_eventfd`.
    unsafe { call(device, opcode::write::<Kick>(GROUP, 0x16), &mut kick) }.map(drop)
}

pub(super) fn inject(device: BorrowedFd<'_>, mut index: u32) -> io::Result<()> {
    // SAFETY: VDUSE_VQ_INJECT_IRQ reads one u32.
    unsafe { call(device, INJECT as Opcode, &mut index) }.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes are part of the calls' numbers (linux/vduse.h).
    #[test]
    fn structures_have_the_kernels_sizes() {
        assert_eq!(size_of::<Settings>(), 336);
        assert_eq!(size_of::<Entry>(), 32);
        assert_eq!(size_of::<QueueSize>(), 32);
        assert_eq!(size_of::<Info>(), 48);
        assert_eq!(size_of::<Kick>(), 8);
        assert_eq!(INJECT, 0x4004_8117);
    }
}
