//! The requirements of AF_XDP sockets besides the socket itself: a program that redirects an interface's frames to
//! them, and an interface that accepts frames for every address. The kernel's documentation is
//! Documentation/networking/af_xdp.rst.
//!
//! Descriptors hold the program and its maps, so they are removed when the process ends, even if it is killed.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_long};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;

use rustix::io::{Errno, Result};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

mod btf;

/// Where the program of an interface runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In the interface's driver, before a socket buffer is made.
    Native,
    /// In the network stack, which every interface supports.
    Generic,
}

/// A program that passes the frames of an interface's queues to the queues' sockets. Frames of a queue without a
/// socket go to the network stack.
#[derive(Debug)]
pub struct Redirect {
    map: OwnedFd,
    program: OwnedFd,
}

/// A program attached to an interface, until this is dropped.
#[derive(Debug)]
pub struct Attached {
    _link: OwnedFd,
}

impl Redirect {
    /// Loads the program, for queues below `queues`.
    ///
    /// # Errors
    /// The process may not load programs (`CAP_BPF` and `CAP_NET_ADMIN`), there is no memory, or the kernel has no
    /// AF_XDP.
    pub fn load(queues: u32) -> Result<Self> {
        let map = socket_map(queues)?;
        // return bpf_redirect_map(&map, context->rx_queue_index, XDP_PASS);
        let text = [
            instruction(0x61, 2, 1, 16, 0), // r2 = *(u32 *)(r1 + 16), the queue's index
            instruction(0x18, 1, 1, 0, number(&map)), // r1 = the map, by its descriptor
            0,                              // the second half of that
            instruction(0xb7, 3, 0, 0, 2),  // r3 = XDP_PASS, for queues without a socket
            instruction(0x85, 0, 0, 0, 51), // call bpf_redirect_map
            instruction(0x95, 0, 0, 0, 0),  // return r0
        ];
        Ok(Redirect { program: program(&text, c"Apache-2.0", 0, 0)?, map })
    }

    /// Loads a program that first restores a VLAN tag that this interface's driver keeps outside of the frame. It can
    /// be attached to this interface only, in native mode only.
    ///
    /// # Errors
    /// The causes of [`Redirect::load`], no such interface, or a driver without this metadata. `NOSYS` if the kernel
    /// does not know the function, which needs Linux 6.8 and BTF.
    pub fn load_keeping_tags(queues: u32, interface: u32) -> Result<Self> {
        const DEV_BOUND_ONLY: u64 = 1 << 6;
        let vlan_tag = vlan_tag_function().ok_or(Errno::NOSYS)?;
        let map = socket_map(queues)?;
        let map_number = number(&map);
        let text = [
            instruction(0xbf, 6, 1, 0, 0),                   // r6 = the context
            instruction(0x61, 2, 6, 16, 0),                  // r2 = *(u32 *)(r6 + 16), the queue's index
            instruction(0x63, 10, 2, -4, 0),                 // *(u32 *)(r10 - 4) = r2
            instruction(0xbf, 2, 10, 0, 0),                  // r2 = r10
            instruction(0x07, 2, 0, 0, -4),                  // r2 -= 4
            instruction(0x18, 1, 1, 0, map_number),          // r1 = the map, by its descriptor
            0,                                               // the second half of that
            instruction(0x85, 0, 0, 0, 1),                   // call bpf_map_lookup_elem
            instruction(0x55, 0, 0, 2, 0),                   // if r0 != 0 skip 2: there is a socket
            instruction(0xb7, 0, 0, 0, 2), // r0 = XDP_PASS: the stack has the frame, with the tag where it is
            instruction(0x95, 0, 0, 0, 0), // return r0
            instruction(0x7a, 10, 0, -16, 0), // *(u64 *)(r10 - 16) = 0
            instruction(0xbf, 1, 6, 0, 0), // r1 = the context
            instruction(0xbf, 2, 10, 0, 0), // r2 = r10
            instruction(0x07, 2, 0, 0, -16), // r2 -= 16: the tag's protocol, in network order
            instruction(0xbf, 3, 10, 0, 0), // r3 = r10
            instruction(0x07, 3, 0, 0, -12), // r3 -= 12: its control information, in the host's order
            instruction(0x85, 0, 2, 0, i64::from(vlan_tag)), // call bpf_xdp_metadata_rx_vlan_tag
            instruction(0x55, 0, 0, 22, 0), // if r0 != 0 skip to the redirection: there is no tag
            instruction(0x69, 7, 10, -16, 0), // r7 = *(u16 *)(r10 - 16)
            instruction(0x69, 8, 10, -12, 0), // r8 = *(u16 *)(r10 - 12)
            instruction(0xdc, 8, 0, 0, 16), // r8 = htobe16(r8)
            instruction(0xbf, 1, 6, 0, 0), // r1 = the context
            instruction(0xb7, 2, 0, 0, -4), // r2 = -4
            instruction(0x85, 0, 0, 0, 44), // call bpf_xdp_adjust_head
            instruction(0x55, 0, 0, 5, 0), // if r0 != 0 skip 5: no room, dropped
            instruction(0x61, 1, 6, 0, 0), // r1 = the frame's begin
            instruction(0x61, 2, 6, 4, 0), // r2 = the frame's end
            instruction(0xbf, 3, 1, 0, 0), // r3 = r1
            instruction(0x07, 3, 0, 0, 16), // r3 += 16
            instruction(0xbd, 3, 2, 2, 0), // if r3 <= r2 skip 2: both addresses and the tag are in it
            instruction(0xb7, 0, 0, 0, 1), // r0 = XDP_DROP
            instruction(0x95, 0, 0, 0, 0), // return r0
            instruction(0x61, 4, 1, 4, 0), // the addresses move to the new begin, word by word
            instruction(0x63, 1, 4, 0, 0),
            instruction(0x61, 4, 1, 8, 0),
            instruction(0x63, 1, 4, 4, 0),
            instruction(0x61, 4, 1, 12, 0),
            instruction(0x63, 1, 4, 8, 0),
            instruction(0x6b, 1, 7, 12, 0),         // *(u16 *)(r1 + 12) = r7
            instruction(0x6b, 1, 8, 14, 0),         // *(u16 *)(r1 + 14) = r8
            instruction(0x61, 2, 6, 16, 0),         // r2 = the queue's index
            instruction(0x18, 1, 1, 0, map_number), // r1 = the map, by its descriptor
            0,                                      // the second half of that
            instruction(0xb7, 3, 0, 0, 1),          // r3 = XDP_DROP, for a socket that has just gone
            instruction(0x85, 0, 0, 0, 51),         // call bpf_redirect_map
            instruction(0x95, 0, 0, 0, 0),          // return r0
        ];
        // The kernel lets none but programs under the GPL call its functions; MIT, which this crate is under, allows
        // that, and the kernel knows it by this text only.
        let program = program(&text, c"Dual MIT/GPL", DEV_BOUND_ONLY, interface)?;
        Ok(Redirect { program, map })
    }

    /// Redirects frames of this queue to this socket, which must be bound to the queue.
    ///
    /// # Errors
    /// The queue is not below the number given at loading (`E2BIG`), or the socket is no AF_XDP socket
    /// (`EOPNOTSUPP`).
    pub fn set(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<()> {
        const MAP_UPDATE_ELEM: c_int = 2;
        let value = socket.as_raw_fd().cast_unsigned();
        let update =
            [pair(number(&self.map) as u64, 0), &raw const queue as u64, &raw const value as u64, 0, 0, 0];
        bpf(MAP_UPDATE_ELEM, update).map(drop)
    }

    /// Attaches the program to the interface with this index, in this mode.
    ///
    /// # Errors
    /// No such interface, a program attached to it already (`EBUSY`), a driver without XDP in native mode
    /// (`EOPNOTSUPP`), or no permission (`EPERM`). Links need Linux 5.9 or later.
    pub fn attach(&self, interface: u32, mode: XdpMode) -> Result<Attached> {
        const LINK_CREATE: c_int = 28;
        const ATTACH_XDP: u64 = 37;
        let flags = match mode {
            XdpMode::Generic => 1 << 1,
            XdpMode::Native => 1 << 2,
        };
        let target = pair(number(&self.program) as u64, u64::from(interface));
        let link = owned(bpf(LINK_CREATE, [target, pair(ATTACH_XDP, flags), 0, 0, 0, 0])?)?;
        Ok(Attached { _link: link })
    }
}

/// Makes an interface accept frames for every address (`PACKET_MR_PROMISC`, packet(7)), until the socket is closed.
///
/// # Errors
/// No such interface, or no permission for packet sockets (`CAP_NET_RAW`).
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

/// Makes the thread that reads this socket poll the interface's queue, at most `budget_frames` at a time. The queue
/// raises no interrupts then (`SO_PREFER_BUSY_POLL`, `SO_BUSY_POLL_BUDGET`, socket(7)).
///
/// # Errors
/// No permission (`CAP_NET_ADMIN`), or a kernel before Linux 5.11 (`ENOPROTOOPT`).
pub fn prefer_busy_poll(socket: BorrowedFd<'_>, budget_frames: u16) -> Result<()> {
    /// Microseconds that a blocking call would poll. Ours do not block: it only has to be more than none.
    const BUSY_POLL_US: c_int = 20;
    let set = |name, value: c_int| set_option(socket, libc::SOL_SOCKET, name, &value);
    set(libc::SO_PREFER_BUSY_POLL, 1)?;
    set(libc::SO_BUSY_POLL, BUSY_POLL_US)?;
    set(libc::SO_BUSY_POLL_BUDGET, c_int::from(budget_frames))
}

/// The number by which programs call `bpf_xdp_metadata_rx_vlan_tag`, if this kernel has it and says so (BTF).
fn vlan_tag_function() -> Option<u32> {
    static NUMBER: OnceLock<Option<u32>> = OnceLock::new();
    *NUMBER.get_or_init(|| {
        btf::function(&std::fs::read("/sys/kernel/btf/vmlinux").ok()?, "bpf_xdp_metadata_rx_vlan_tag")
    })
}

/// A map from queues below this number to sockets.
fn socket_map(queues: u32) -> Result<OwnedFd> {
    const MAP_CREATE: c_int = 0;
    const MAP_TYPE_XSKMAP: u64 = 17;
    // Type and bytes of a key; bytes of a value and entries.
    owned(bpf(MAP_CREATE, [pair(MAP_TYPE_XSKMAP, 4), pair(4, u64::from(queues)), 0, 0, 0, 0])?)
}

/// Loads an XDP program under this licence, with these flags, for this interface (0: for all).
fn program(text: &[u64], licence: &CStr, flags: u64, interface: u32) -> Result<OwnedFd> {
    const PROG_LOAD: c_int = 5;
    const PROG_TYPE_XDP: u64 = 6;
    let load = [
        pair(PROG_TYPE_XDP, text.len() as u64),
        text.as_ptr() as u64,
        licence.as_ptr() as u64,
        0, // no log
        0,
        pair(0, flags),
        0, // no name
        0,
        pair(u64::from(interface), 0),
    ];
    owned(bpf(PROG_LOAD, load)?)
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

fn number(fd: &OwnedFd) -> i64 {
    i64::from(fd.as_raw_fd())
}

/// One instruction, as `struct bpf_insn` has it.
fn instruction(code: u64, target: u64, source: u64, offset: i16, immediate: i64) -> u64 {
    let registers = if cfg!(target_endian = "little") { target | source << 4 } else { target << 4 | source };
    let mut bytes = [0; 8];
    bytes[0] = code as u8;
    bytes[1] = registers as u8;
    bytes[2..4].copy_from_slice(&offset.to_ne_bytes());
    bytes[4..8].copy_from_slice(&(immediate as i32).to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// bpf(2). The kernel only reads what the attributes point to, in the commands used here.
fn bpf<const WORDS: usize>(command: c_int, attributes: [u64; WORDS]) -> Result<c_long> {
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
    // SAFETY: the callers, all in this module, pass the result of a call that makes a new descriptor, which has no
    // other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as c_int) })
}
