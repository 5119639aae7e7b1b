//! AF_XDP as far as one frame each way needs it, in copy mode. The kernel's description:
//! Documentation/networking/af_xdp.rst.

use std::ffi::{CStr, c_int, c_long, c_void};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use nix::errno::Errno;

use super::mapping::Mapping;
use super::{owned, owned_long};

const CHUNK_BYTES: usize = 4096;
const RING_ENTRIES: u32 = 4;
/// Chunk 0 is sent from, chunk 1 is received into.
const SEND_CHUNK: u64 = 0;
const RECEIVE_CHUNK: u64 = CHUNK_BYTES as u64;

/// A socket bound to one queue of an interface.
pub struct Socket {
    fd: OwnedFd,
    umem: Mapping,
    fill: Ring,
    to_interface: Ring,
    from_interface: Ring,
}

/// A ring shared with the kernel.
struct Ring {
    memory: Mapping,
    offsets: libc::xdp_ring_offset,
}

/// An entry of the rings of frames: `struct xdp_desc`.
#[repr(C)]
struct Descriptor {
    address: u64,
    length_bytes: u32,
    options: u32,
}

impl Socket {
    /// Makes the socket, registers its memory, and binds it to the interface's queue 0.
    pub fn bind(interface_index: u32) -> nix::Result<Self> {
        // SAFETY: no memory is involved; the result is a new descriptor.
        let fd = owned(unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
        let umem = Mapping::anonymous(2 * CHUNK_BYTES, 0)?;
        let registration = libc::xdp_umem_reg {
            addr: umem.address() as u64,
            len: umem.length_bytes() as u64,
            chunk_size: CHUNK_BYTES as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        // The kernel pins the registered pages itself: they stay valid for it whatever happens to the
        // mapping, and this side reaches them by volatile copies only.
        set_option(&fd, libc::XDP_UMEM_REG, &registration)?;
        for ring in
            [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING, libc::XDP_TX_RING]
        {
            set_option(&fd, ring, &RING_ENTRIES)?;
        }
        let offsets = ring_offsets(&fd)?;
        let ring = |offsets: libc::xdp_ring_offset, entry_bytes: usize, place: u64| {
            let length_bytes = offsets.desc as usize + RING_ENTRIES as usize * entry_bytes;
            let memory = Mapping::shared(length_bytes, fd.as_fd(), place.cast_signed())?;
            Ok::<_, Errno>(Ring { memory, offsets })
        };
        let fill = ring(offsets.fr, size_of::<u64>(), libc::XDP_UMEM_PGOFF_FILL_RING)?;
        let entry_bytes = size_of::<Descriptor>();
        let to_interface = ring(offsets.tx, entry_bytes, libc::XDP_PGOFF_TX_RING as u64)?;
        let from_interface = ring(offsets.rx, entry_bytes, libc::XDP_PGOFF_RX_RING as u64)?;
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: libc::XDP_COPY,
            sxdp_ifindex: interface_index,
            sxdp_queue_id: 0,
            sxdp_shared_umem_fd: 0,
        };
        let length = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the kernel reads `length` bytes of the address, which lives through the call.
        Errno::result(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) })?;
        Ok(Socket { fd, umem, fill, to_interface, from_interface })
    }

    /// Hands one frame of at most a chunk to the interface. To be called once.
    pub fn send(&self, frame: &[u8]) -> nix::Result<()> {
        self.umem.write(SEND_CHUNK as usize, &frame[..frame.len().min(CHUNK_BYTES)]);
        let mut entry = SEND_CHUNK.to_ne_bytes().to_vec();
        entry.extend((frame.len().min(CHUNK_BYTES) as u32).to_ne_bytes());
        entry.extend(0u32.to_ne_bytes());
        self.to_interface.publish(&entry);
        // SAFETY: an empty message: no memory is involved. It makes the kernel look at the ring.
        let sent = unsafe {
            libc::sendto(self.fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
        };
        Errno::result(sent).map(drop)
    }

    /// Gives the kernel the chunk for one frame to come. To be called once.
    pub fn offer_chunk(&self) {
        self.fill.publish(&RECEIVE_CHUNK.to_ne_bytes());
    }

    /// The frame that came, if one did.
    pub fn received(&self) -> Option<Vec<u8>> {
        let entry = self.from_interface.first(size_of::<Descriptor>())?;
        let address = u64::from_ne_bytes(entry[0..8].try_into().ok()?) as usize;
        let length_bytes = u32::from_ne_bytes(entry[8..12].try_into().ok()?) as usize;
        Some(self.umem.read(address, length_bytes))
    }
}

impl Ring {
    /// Writes the first entry and shows it to the kernel.
    fn publish(&self, entry: &[u8]) {
        self.memory.write(self.offsets.desc as usize, entry);
        // Release: the entry is written before the kernel, which acquires this index, can see it.
        self.memory.index(self.offsets.producer as usize).store(1, Ordering::Release);
    }

    /// The first entry, once the kernel has published it.
    fn first(&self, entry_bytes: usize) -> Option<Vec<u8>> {
        // Acquire: pairs with the kernel's release of this index after it wrote the entry.
        let produced = self.memory.index(self.offsets.producer as usize).load(Ordering::Acquire);
        (produced > 0).then(|| self.memory.read(self.offsets.desc as usize, entry_bytes))
    }
}

fn set_option<T>(fd: &OwnedFd, option: c_int, value: &T) -> nix::Result<()> {
    let (pointer, length) = ((&raw const *value).cast::<c_void>(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the kernel reads `length` bytes of the value, which lives through the call.
    Errno::result(unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, pointer, length) })
        .map(drop)
}

fn ring_offsets(fd: &OwnedFd) -> nix::Result<libc::xdp_mmap_offsets> {
    // SAFETY: plain C data, for which all zeroes is a valid value.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&offsets) as libc::socklen_t;
    let (pointer, option) = ((&raw mut offsets).cast::<c_void>(), libc::XDP_MMAP_OFFSETS);
    // SAFETY: the kernel writes at most `length` bytes to the structure, which lives through the call.
    Errno::result(unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, pointer, &raw mut length)
    })?;
    if (length as usize) < size_of_val(&offsets) {
        return Err(Errno::EPROTO); // a kernel before 5.4 lays the rings out differently
    }
    Ok(offsets)
}

/// An XDP program that gives the frames of an interface to a socket, attached until this is dropped.
pub struct Redirection {
    _descriptors: [OwnedFd; 3],
}

/// Loads and attaches the program, in the generic mode that every interface has.
pub fn redirect(interface_index: u32, socket: &Socket) -> nix::Result<Redirection> {
    const MAP_CREATE: c_int = 0;
    const MAP_UPDATE_ELEM: c_int = 2;
    const PROG_LOAD: c_int = 5;
    const LINK_CREATE: c_int = 28;
    const MAP_TYPE_XSKMAP: u64 = 17;
    const PROG_TYPE_XDP: u64 = 6;
    const ATTACH_XDP: u64 = 37;
    const XDP_FLAGS_SKB_MODE: u64 = 1 << 1;
    // Pairs of 32-bit fields of `union bpf_attr`, the first in the lower half.
    let pair = |first: u64, second: u64| -> u64 {
        if cfg!(target_endian = "little") { first | second << 32 } else { first << 32 | second }
    };
    let number = |fd: &OwnedFd| fd.as_raw_fd() as u64;

    // type and key size; value size and entries.
    let map = owned_long(bpf(MAP_CREATE, [pair(MAP_TYPE_XSKMAP, 4), pair(4, 1), 0, 0, 0, 0]))?;
    let (key, value) = (0u32, socket.fd.as_raw_fd().cast_unsigned());
    let update = [pair(number(&map), 0), &raw const key as u64, &raw const value as u64, 0, 0, 0];
    Errno::result(bpf(MAP_UPDATE_ELEM, update))?;

    let instruction = |code: u64, target: u64, source: u64, offset: u64, immediate: u64| -> u64 {
        let registers =
            if cfg!(target_endian = "little") { target | source << 4 } else { target << 4 | source };
        let mut bytes = [0; 8];
        bytes[0] = code as u8;
        bytes[1] = registers as u8;
        bytes[2..4].copy_from_slice(&(offset as u16).to_ne_bytes());
        bytes[4..8].copy_from_slice(&(immediate as u32).to_ne_bytes());
        u64::from_ne_bytes(bytes)
    };
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
    let load = [
        pair(PROG_TYPE_XDP, program.len() as u64),
        program.as_ptr() as u64,
        licence.as_ptr() as u64,
        0,
        0,
        0,
    ];
    let program = owned_long(bpf(PROG_LOAD, load))?;
    let target = pair(number(&program), u64::from(interface_index));
    let link = owned_long(bpf(LINK_CREATE, [target, pair(ATTACH_XDP, XDP_FLAGS_SKB_MODE), 0, 0, 0, 0]))?;
    Ok(Redirection { _descriptors: [link, program, map] })
}

/// bpf(2). The kernel only reads what the attributes point to, in the commands used here.
fn bpf(command: c_int, attributes: [u64; 6]) -> c_long {
    // SAFETY: the kernel reads `size` bytes of the attributes. The pointers among them are to a key, a
    // value, a program of the stated length and a terminated text, which the only caller, `redirect`,
    // keeps alive through the call; none of its commands writes to this process's memory.
    unsafe { libc::syscall(libc::SYS_bpf, command, &raw const attributes, size_of_val(&attributes)) }
}
