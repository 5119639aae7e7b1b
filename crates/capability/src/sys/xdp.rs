//! The part of AF_XDP that is needed to send and receive one frame, in copy mode. The kernel describes AF_XDP in
//! Documentation/networking/af_xdp.rst.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use linux::xdp::{Attached, Redirect, XdpMode};
use rustix::io;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_FILL_RING,
    XdpDesc, XdpRingOffset, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{self, AddressFamily, SendFlags, SocketFlags, SocketType, socket_with, sockopt};

use super::mapping::Mapping;

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
    ///
    /// # Errors
    /// A system call is refused: the kernel has no AF_XDP, CAP_NET_RAW is missing, the limit on locked memory is too
    /// low, or there is no such interface or queue.
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

    /// Gives one frame to the interface; bytes beyond 4096, the size of a chunk, are cut off. Must be called only
    /// once.
    ///
    /// # Errors
    /// The `sendto` that makes the kernel read the ring is refused: the interface is down (ENETDOWN), or the kernel
    /// is out of buffers.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.umem.write(SEND_CHUNK as usize, &frame[..frame.len().min(CHUNK_BYTES)]);
        let mut entry = SEND_CHUNK.to_ne_bytes().to_vec();
        entry.extend((frame.len().min(CHUNK_BYTES) as u32).to_ne_bytes());
        entry.extend(0u32.to_ne_bytes());
        self.to_interface.publish(&entry);
        // An empty message, which makes the kernel look at the ring.
        net::send(&self.fd, &[], SendFlags::DONTWAIT).map(drop)
    }

    /// Gives the kernel the chunk for one future frame. Must be called only once.
    pub fn offer_chunk(&self) {
        self.fill.publish(&RECEIVE_CHUNK.to_ne_bytes());
    }

    /// The received frame; `None` if no frame was received.
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

/// Loads an XDP program that redirects the interface's frames to the socket. The program is attached in generic mode,
/// which every interface has, until the returned value is dropped.
///
/// # Errors
/// The kernel refuses the map, the program or its attachment: CAP_BPF or CAP_NET_ADMIN is missing, or the interface
/// already has an XDP program.
pub fn redirect(interface_index: u32, socket: &Socket) -> io::Result<Attached> {
    let redirect = Redirect::load(1)?;
    redirect.set(0, socket.fd.as_fd())?;
    redirect.attach(interface_index, XdpMode::Generic)
}
