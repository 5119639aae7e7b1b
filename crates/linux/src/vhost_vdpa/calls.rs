//! The ioctls of vhost-vdpa, which no kept library wraps (linux/vhost.h).
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::ioctl::{Opcode, opcode};

const GROUP: u8 = 0xaf;

const FEATURES: u8 = 0x00;
const OWNER: u8 = 0x01;
const VRING_SIZE: u8 = 0x10;
const VRING_ADDRESSES: u8 = 0x11;
const VRING_BASE: u8 = 0x12;
const VRING_KICK: u8 = 0x20;
const VRING_CALL: u8 = 0x21;
const BACKEND_FEATURES_SET: u8 = 0x25;
const BACKEND_FEATURES_GET: u8 = 0x26;
const DEVICE_ID: u8 = 0x70;
const STATUS_GET: u8 = 0x71;
const STATUS_SET: u8 = 0x72;
const CONFIG_GET: u8 = 0x73;
const VRING_ENABLE: u8 = 0x75;
const VRING_LARGEST: u8 = 0x76;
const CONFIG_CALL: u8 = 0x77;
const ADDRESS_RANGE: u8 = 0x78;
const SUSPEND: u8 = 0x7d;

/// The longest part of the configuration space that is read.
pub(super) const CONFIG_BYTES: usize = 64;

/// `struct vhost_vring_state`.
#[repr(C)]
struct State {
    index: u32,
    number: u32,
}

/// `struct vhost_vring_file`.
#[repr(C)]
struct VringFile {
    index: u32,
    fd: c_int,
}

/// `struct vhost_vring_addr`.
#[repr(C)]
struct Addresses {
    index: u32,
    flags: u32,
    descriptors: u64,
    used: u64,
    available: u64,
    log: u64,
}

/// `struct vhost_vdpa_config` without its bytes.
#[repr(C)]
struct ConfigHead {
    offset: u32,
    bytes: u32,
}

#[repr(C)]
struct Config {
    head: ConfigHead,
    bytes: [u8; CONFIG_BYTES],
}

/// `struct vhost_vdpa_iova_range`.
#[repr(C)]
#[derive(Default)]
struct Range {
    first: u64,
    last: u64,
}

/// Makes a call with an argument in memory.
///
/// # Safety
/// The call must read and write at most one `T`.
unsafe fn call<T>(fd: BorrowedFd<'_>, call: Opcode, argument: &mut T) -> io::Result<()> {
    // SAFETY: the descriptor is open, the argument is live, and the caller promises that the call takes no more.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), call as _, std::ptr::from_mut(argument)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Reads a number of type `T`.
///
/// # Safety
/// The call must write one `T` of any value, and read nothing.
unsafe fn get<T: Default>(fd: BorrowedFd<'_>, number: u8) -> io::Result<T> {
    let mut value = T::default();
    // SAFETY: the caller promises that the call writes one `T`.
    unsafe { call(fd, opcode::read::<T>(GROUP, number), &mut value) }?;
    Ok(value)
}

fn set_state(fd: BorrowedFd<'_>, call_number: u8, index: u32, number: u32) -> io::Result<()> {
    let mut state = State { index, number };
    // SAFETY: all calls with this form of number read one `vhost_vring_state`.
    unsafe { call(fd, opcode::write::<State>(GROUP, call_number), &mut state) }
}

fn set_file(fd: BorrowedFd<'_>, number: u8, index: u32, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut file = VringFile { index, fd: file.map_or(-1, |file| file.as_raw_fd()) };
    // SAFETY: all calls with this form of number read one `vhost_vring_file`.
    unsafe { call(fd, opcode::write::<VringFile>(GROUP, number), &mut file) }
}

pub(super) fn set_owner(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: VHOST_SET_OWNER takes no argument.
    unsafe { call(fd, opcode::none(GROUP, OWNER), &mut ()) }
}

pub(super) fn features(fd: BorrowedFd<'_>) -> io::Result<u64> {
    // SAFETY: VHOST_GET_FEATURES writes one u64.
    unsafe { get(fd, FEATURES) }
}

pub(super) fn set_features(fd: BorrowedFd<'_>, mut features: u64) -> io::Result<()> {
    // SAFETY: VHOST_SET_FEATURES reads one u64.
    unsafe { call(fd, opcode::write::<u64>(GROUP, FEATURES), &mut features) }
}

pub(super) fn backend_features(fd: BorrowedFd<'_>) -> io::Result<u64> {
    // SAFETY: VHOST_GET_BACKEND_FEATURES writes one u64.
    unsafe { get(fd, BACKEND_FEATURES_GET) }
}

pub(super) fn set_backend_features(fd: BorrowedFd<'_>, mut features: u64) -> io::Result<()> {
    // SAFETY: VHOST_SET_BACKEND_FEATURES reads one u64.
    unsafe { call(fd, opcode::write::<u64>(GROUP, BACKEND_FEATURES_SET), &mut features) }
}

pub(super) fn device_id(fd: BorrowedFd<'_>) -> io::Result<u32> {
    // SAFETY: VHOST_VDPA_GET_DEVICE_ID writes one u32.
    unsafe { get(fd, DEVICE_ID) }
}

pub(super) fn status(fd: BorrowedFd<'_>) -> io::Result<u8> {
    // SAFETY: VHOST_VDPA_GET_STATUS writes one byte.
    unsafe { get(fd, STATUS_GET) }
}

pub(super) fn set_status(fd: BorrowedFd<'_>, mut status: u8) -> io::Result<()> {
    // SAFETY: VHOST_VDPA_SET_STATUS reads one byte.
    unsafe { call(fd, opcode::write::<u8>(GROUP, STATUS_SET), &mut status) }
}

pub(super) fn config(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<Vec<u8>> {
    let bytes = bytes.min(CONFIG_BYTES);
    let head = ConfigHead { offset: 0, bytes: bytes as u32 };
    let mut config = Config { head, bytes: [0; CONFIG_BYTES] };
    // SAFETY: VHOST_VDPA_GET_CONFIG reads the head, and writes as many bytes behind it as that says.
    unsafe { call(fd, opcode::read::<ConfigHead>(GROUP, CONFIG_GET), &mut config) }?;
    Ok(config.bytes[..bytes].to_vec())
}

pub(super) fn set_config_call(fd: BorrowedFd<'_>, call_fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut number: c_int = call_fd.map_or(-1, |call_fd| call_fd.as_raw_fd());
    // SAFETY: VHOST_VDPA_SET_CONFIG_CALL reads one int.
    unsafe { call(fd, opcode::write::<c_int>(GROUP, CONFIG_CALL), &mut number) }
}

pub(super) fn largest_queue(fd: BorrowedFd<'_>) -> io::Result<u16> {
    // SAFETY: VHOST_VDPA_GET_VRING_NUM writes one u16.
    unsafe { get(fd, VRING_LARGEST) }
}

pub(super) fn address_range(fd: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    // SAFETY: VHOST_VDPA_GET_IOVA_RANGE writes one `vhost_vdpa_iova_range`.
    let Range { first, last } = unsafe { get(fd, ADDRESS_RANGE) }?;
    Ok((first, last))
}

pub(super) fn set_queue_size(fd: BorrowedFd<'_>, index: u32, size: u16) -> io::Result<()> {
    set_state(fd, VRING_SIZE, index, size.into())
}

pub(super) fn set_queue_addresses(
    fd: BorrowedFd<'_>,
    index: u32,
    descriptors: u64,
    available: u64,
    used: u64,
) -> io::Result<()> {
    let mut addresses = Addresses { index, flags: 0, descriptors, used, available, log: 0 };
    // SAFETY: VHOST_SET_VRING_ADDR reads one `vhost_vring_addr`.
    unsafe { call(fd, opcode::write::<Addresses>(GROUP, VRING_ADDRESSES), &mut addresses) }
}

pub(super) fn set_queue_base(fd: BorrowedFd<'_>, index: u32, base: u32) -> io::Result<()> {
    set_state(fd, VRING_BASE, index, base)
}

pub(super) fn queue_base(fd: BorrowedFd<'_>, index: u32) -> io::Result<u32> {
    let mut state = State { index, number: 0 };
    // SAFETY: VHOST_GET_VRING_BASE reads and writes one `vhost_vring_state`.
    unsafe { call(fd, opcode::read_write::<State>(GROUP, VRING_BASE), &mut state) }?;
    Ok(state.number)
}

pub(super) fn enable_queue(fd: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    set_state(fd, VRING_ENABLE, index, 1)
}

pub(super) fn set_kick(fd: BorrowedFd<'_>, index: u32, kick: Option<BorrowedFd<'_>>) -> io::Result<()> {
    set_file(fd, VRING_KICK, index, kick)
}

pub(super) fn set_call(fd: BorrowedFd<'_>, index: u32, call: Option<BorrowedFd<'_>>) -> io::Result<()> {
    set_file(fd, VRING_CALL, index, call)
}

pub(super) fn suspend(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: VHOST_VDPA_SUSPEND takes no argument.
    unsafe { call(fd, opcode::none(GROUP, SUSPEND), &mut ()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes are part of the calls' numbers (linux/vhost.h).
    #[test]
    fn structures_have_the_kernels_sizes() {
        assert_eq!(size_of::<State>(), 8);
        assert_eq!(size_of::<VringFile>(), 8);
        assert_eq!(size_of::<Addresses>(), 40);
        assert_eq!(size_of::<ConfigHead>(), 8);
        assert_eq!(size_of::<Range>(), 16);
        assert_eq!(opcode::read::<ConfigHead>(GROUP, CONFIG_GET) as u32, 0x8008_af73);
    }
}
