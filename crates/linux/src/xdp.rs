//! What AF_XDP sockets need beside themselves: a program that redirects an interface's frames to them, and an
//! interface that takes frames for every address. The kernel's description: Documentation/networking/af_xdp.rst.
//!
//! All of it is held by descriptors, so it goes with the process, however that ends.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_long};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::{Errno, Result};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Where an interface runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In its driver, before a socket buffer is made.
    Native,
    /// In the network stack: every interface can.
    Generic,
}

/// A program that gives the frames of an interface's queues to sockets, where there is one for a queue; the network
/// stack has the others.
#[derive(Debug)]
pub struct Redirect {
    map: OwnedFd,
    program: OwnedFd,
}

/// Such a program attached to an interface, until this is dropped.
#[derive(Debug)]
pub struct Attached {
    _link: OwnedFd,
}

impl Redirect {
    /// Loads it, for queues below this number.
    pub fn load(queues: u32) -> Result<Self> {
        const MAP_CREATE: c_int = 0;
        const PROG_LOAD: c_int = 5;
        const MAP_TYPE_XSKMAP: u64 = 17;
        const PROG_TYPE_XDP: u64 = 6;
        // Type and bytes of a key; bytes of a value and entries.
        let map =
            owned(bpf(MAP_CREATE, [pair(MAP_TYPE_XSKMAP, 4), pair(4, u64::from(queues)), 0, 0, 0, 0])?)?;
        // return bpf_redirect_map(&map, context->rx_queue_index, XDP_PASS);
        let program = [
            instruction(0x61, 2, 1, 16, 0), // r2 = *(u32 *)(r1 + 16), the queue's index
            instruction(0x18, 1, 1, 0, number(&map)), // r1 = the map, by its descriptor
            0,                              // the second half of that
            instruction(0xb7, 3, 0, 0, 2),  // r3 = XDP_PASS, for queues without a socket
            instruction(0x85, 0, 0, 0, 51), // call bpf_redirect_map
            instruction(0x95, 0, 0, 0, 0),  // return r0
        ];
        let licence: &CStr = c"Apache-2.0";
        let text = [
            pair(PROG_TYPE_XDP, program.len() as u64),
            program.as_ptr() as u64,
            licence.as_ptr() as u64,
            0,
            0,
            0,
        ];
        Ok(Redirect { program: owned(bpf(PROG_LOAD, text)?)?, map })
    }

    /// Frames of this queue go to this socket, which is bound to it.
    pub fn set(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<()> {
        const MAP_UPDATE_ELEM: c_int = 2;
        let value = socket.as_raw_fd().cast_unsigned();
        let update = [pair(number(&self.map), 0), &raw const queue as u64, &raw const value as u64, 0, 0, 0];
        bpf(MAP_UPDATE_ELEM, update).map(drop)
    }

    /// Attaches it to the interface with this number, in this mode.
    pub fn attach(&self, interface: u32, mode: XdpMode) -> Result<Attached> {
        const LINK_CREATE: c_int = 28;
        const ATTACH_XDP: u64 = 37;
        let flags = match mode {
            XdpMode::Generic => 1 << 1,
            XdpMode::Native => 1 << 2,
        };
        let target = pair(number(&self.program), u64::from(interface));
        let link = owned(bpf(LINK_CREATE, [target, pair(ATTACH_XDP, flags), 0, 0, 0, 0])?)?;
        Ok(Attached { _link: link })
    }
}

/// Lets an interface take frames for every address (`PACKET_MR_PROMISC`, packet(7)), until the socket is closed.
pub fn promiscuous(interface: u32) -> Result<OwnedFd> {
    // Without a protocol: it receives nothing itself.
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let request = libc::packet_mreq {
        mr_ifindex: interface.cast_signed(),
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)?;
    Ok(socket)
}

/// Whoever asks this socket for frames drives its interface's queue, which raises no interrupts meanwhile; at most
/// so many frames at a time (`SO_PREFER_BUSY_POLL`, `SO_BUSY_POLL_BUDGET`, socket(7)).
pub fn prefer_busy_poll(socket: BorrowedFd<'_>, budget_frames: u16) -> Result<()> {
    /// Microseconds that a blocking call would poll. Ours do not block: it only has to be more than none.
    const BUSY_POLL_US: c_int = 20;
    let set = |name, value: c_int| set_option(socket, libc::SOL_SOCKET, name, &value);
    set(libc::SO_PREFER_BUSY_POLL, 1)?;
    set(libc::SO_BUSY_POLL, BUSY_POLL_US)?;
    set(libc::SO_BUSY_POLL_BUDGET, c_int::from(budget_frames))
}

fn set_option<T: Copy>(socket: BorrowedFd<'_>, level: c_int, name: c_int, value: &T) -> Result<()> {
    // SAFETY: the kernel reads as many bytes as the value has, which is borrowed for this call.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    result(c_long::from(set)).map(drop)
}

/// Two neighbouring 32-bit fields of `union bpf_attr`.
fn pair(first: u64, second: u64) -> u64 {
    if cfg!(target_endian = "little") { first | second << 32 } else { first << 32 | second }
}

fn number(fd: &OwnedFd) -> u64 {
    fd.as_raw_fd() as u64
}

/// One instruction, as `struct bpf_insn` has it.
fn instruction(code: u64, target: u64, source: u64, offset: u64, immediate: u64) -> u64 {
    let registers = if cfg!(target_endian = "little") { target | source << 4 } else { target << 4 | source };
    let mut bytes = [0; 8];
    bytes[0] = code as u8;
    bytes[1] = registers as u8;
    bytes[2..4].copy_from_slice(&(offset as u16).to_ne_bytes());
    bytes[4..8].copy_from_slice(&(immediate as u32).to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// bpf(2). The kernel only reads what the attributes point to, in the commands used here.
fn bpf(command: c_int, attributes: [u64; 6]) -> Result<c_long> {
    // SAFETY: the kernel reads `size` bytes of the attributes. The pointers among them are to a key, a value, a
    // program of the stated length and a terminated text, which the callers, all in this module, keep alive through
    // the call; none of their commands writes to this process's memory.
    result(unsafe { libc::syscall(libc::SYS_bpf, command, &raw const attributes, size_of_val(&attributes)) })
}

fn result(returned: c_long) -> Result<c_long> {
    let error = || Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL);
    if returned < 0 { Err(error()) } else { Ok(returned) }
}

fn owned(fd: c_long) -> Result<OwnedFd> {
    let fd = result(fd)?;
    // SAFETY: the callers, all in this module, pass the result of a call that makes a new descriptor; nobody else
    // owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as c_int) })
}
