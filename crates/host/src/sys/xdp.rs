//! AF_XDP as far as one frame each way needs it, in copy mode. The kernel's description:
//! Documentation/networking/af_xdp.rst.

use std::ffi::{CStr, c_int};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use rustix::io;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_FILL_RING,
    XdpDesc, XdpRingOffset, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{self, AddressFamily, SendFlags, SocketFlags, SocketType, socket_with, sockopt};

use super::mapping::Mapping;
use super::{bpf, owned};

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
    offsets: XdpRingOffset,
}

impl Socket {
    /// Makes the socket, registers its memory, and binds it to the interface's queue 0.
    pub fn bind(interface_index: u32) -> io::Result<Self> {
        let fd = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        let umem = Mapping::anonymous(2 * CHUNK_BYTES)?;
        // The kernel pins the registered pages itself: they stay valid for it whatever happens to the
        // mapping, and this side reaches them by volatile copies only.
        let registration = XdpUmemReg {
            addr: umem.address() as u64,
            len: umem.length_bytes() as u64,
            chunk_size: CHUNK_BYTES as u32,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        sockopt::set_xdp_umem_reg(&fd, registration)?;
        sockopt::set_xdp_umem_fill_ring_size(&fd, RING_ENTRIES)?;
        sockopt::set_xdp_umem_completion_ring_size(&fd, RING_ENTRIES)?;
        sockopt::set_xdp_rx_ring_size(&fd, RING_ENTRIES)?;
        sockopt::set_xdp_tx_ring_size(&fd, RING_ENTRIES)?;
        let offsets = sockopt::xdp_mmap_offsets(&fd)?;
        let ring = |offsets: XdpRingOffset, entry_bytes: usize, page_offset: u64| {
            let length_bytes = offsets.desc as usize + RING_ENTRIES as usize * entry_bytes;
            let memory = Mapping::shared(length_bytes, fd.as_fd(), page_offset)?;
            io::Result::Ok(Ring { memory, offsets })
        };
        let fill = ring(offsets.fr, size_of::<u64>(), XDP_UMEM_PGOFF_FILL_RING)?;
        let to_interface = ring(offsets.tx, size_of::<XdpDesc>(), XDP_PGOFF_TX_RING)?;
        let from_interface = ring(offsets.rx, size_of::<XdpDesc>(), XDP_PGOFF_RX_RING)?;
        net::bind(&fd, &SocketAddrXdp::new(SocketAddrXdpFlags::XDP_COPY, interface_index, 0))?;
        Ok(Socket { fd, umem, fill, to_interface, from_interface })
    }

    /// Hands one frame of at most a chunk to the interface. To be called once.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.umem.write(SEND_CHUNK as usize, &frame[..frame.len().min(CHUNK_BYTES)]);
        let mut entry = SEND_CHUNK.to_ne_bytes().to_vec();
        entry.extend((frame.len().min(CHUNK_BYTES) as u32).to_ne_bytes());
        entry.extend(0u32.to_ne_bytes());
        self.to_interface.publish(&entry);
        // An empty message, which makes the kernel look at the ring.
        net::send(&self.fd, &[], SendFlags::DONTWAIT).map(drop)
    }

    /// Gives the kernel the chunk for one frame to come. To be called once.
    pub fn offer_chunk(&self) {
        self.fill.publish(&RECEIVE_CHUNK.to_ne_bytes());
    }

    /// The frame that came, if one did.
    pub fn received(&self) -> Option<Vec<u8>> {
        let entry = self.from_interface.first(size_of::<XdpDesc>())?;
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

/// An XDP program that gives the frames of an interface to a socket, attached until this is dropped.
pub struct Redirection {
    _descriptors: [OwnedFd; 3],
}

/// Loads and attaches the program, in the generic mode that every interface has.
pub fn redirect(interface_index: u32, socket: &Socket) -> io::Result<Redirection> {
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
    let map = owned(bpf(MAP_CREATE, [pair(MAP_TYPE_XSKMAP, 4), pair(4, 1), 0, 0, 0, 0])?)?;
    let (key, value) = (0u32, socket.fd.as_raw_fd().cast_unsigned());
    let update = [pair(number(&map), 0), &raw const key as u64, &raw const value as u64, 0, 0, 0];
    bpf(MAP_UPDATE_ELEM, update)?;

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
    let program = owned(bpf(PROG_LOAD, load)?)?;
    let target = pair(number(&program), u64::from(interface_index));
    let link = owned(bpf(LINK_CREATE, [target, pair(ATTACH_XDP, XDP_FLAGS_SKB_MODE), 0, 0, 0, 0])?)?;
    Ok(Redirection { _descriptors: [link, program, map] })
}
