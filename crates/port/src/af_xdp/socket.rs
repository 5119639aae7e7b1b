//! One queue of an interface: a socket, the memory of its frames, and its rings.
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use frame::OwnMemory;
use linux::xdp::prefer_busy_poll;
use rustix::io::Errno;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING,
    XDP_UMEM_PGOFF_FILL_RING, XdpOptionsFlags, XdpStatistics, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with, sockopt,
};

use super::ring::{ADDRESS_WORDS, Consumer, DESCRIPTOR_WORDS, Producer, Ring};
use super::unsent::Unsent;

/// Frames that one asking for more drives a queue for: the kernel's own weight (`NAPI_POLL_WEIGHT`).
const BUSY_POLL_FRAMES: u16 = 64;
/// A socket that was closed lets go of its queue a little later.
const BIND_TRIES: u32 = 20;
const BIND_PAUSE: Duration = Duration::from_millis(10);
/// Frames that the kernel sends in one call at least (`TX_BATCH_SIZE`), while nothing holds it up.
const KERNEL_BATCH: u32 = 32;
/// Frames that the interface drops and those behind do not wait for: each ends a call (EBUSY), which may have moved the
/// ring all the same.
const DROPPED_AT_ONCE: u32 = 64;

/// The interface and queue of a socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The interface's number.
    pub interface: u32,
    pub queue: u32,
}

/// The sizes of a queue's memory and rings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Entries of each ring.
    pub ring: u32,
    /// Bytes of a chunk: a frame and the room before it.
    pub chunk_bytes: u32,
}

/// What was tried, and what the system answered.
pub(super) type Refusal = (&'static str, std::io::Error);

/// A bound socket with everything that belongs to it. The first `ring` chunks of the memory are for frames from the
/// interface, and the same number after them for frames to it.
#[derive(Debug)]
pub(super) struct Queue {
    pub socket: Arc<Socket>,
    pub memory: Arc<OwnMemory>,
    pub sizes: Sizes,
    pub fill: Producer<ADDRESS_WORDS>,
    pub received: Consumer<DESCRIPTOR_WORDS>,
    pub to_send: Producer<DESCRIPTOR_WORDS>,
    pub completed: Consumer<ADDRESS_WORDS>,
}

/// The state that the threads of both directions share.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    to_send: Arc<Ring<DESCRIPTOR_WORDS>>,
    unsent: Unsent,
    busy_poll: bool,
}

impl Queue {
    /// Makes the socket, registers its memory, makes its rings and binds it to a queue of an interface.
    ///
    /// # Errors
    /// The step that was refused, and the system's answer: the kernel has no AF_XDP, this process may not open such
    /// a socket or pin so much memory, the queue is in use or does not exist, or the driver does not support
    /// `copying`.
    pub fn bind(
        place: Place,
        sizes: Sizes,
        copying: SocketAddrXdpFlags,
        busy_poll: bool,
    ) -> Result<Queue, Refusal> {
        let during = |what: &'static str| move |errno: Errno| (what, std::io::Error::from(errno));
        let fd = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)
            .map_err(during("open an AF_XDP socket"))?;
        let bytes = 2 * u64::from(sizes.ring) * u64::from(sizes.chunk_bytes);
        let memory = OwnMemory::new(c"tautline-af-xdp", bytes).map_err(|error| ("allocate frames", error))?;
        let registration = XdpUmemReg {
            // The kernel pins these pages: they stay valid for it whatever happens to the mapping.
            addr: memory.slice(0, bytes as usize).as_ptr() as u64,
            len: bytes,
            chunk_size: sizes.chunk_bytes,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        sockopt::set_xdp_umem_reg(&fd, registration).map_err(during("register the frames' memory"))?;
        let ring_sizes = [
            sockopt::set_xdp_umem_fill_ring_size,
            sockopt::set_xdp_umem_completion_ring_size,
            sockopt::set_xdp_rx_ring_size,
            sockopt::set_xdp_tx_ring_size,
        ];
        for set in ring_sizes {
            set(&fd, sizes.ring).map_err(during("make the rings"))?;
        }
        let offsets = sockopt::xdp_mmap_offsets(&fd).map_err(during("find the rings"))?;
        let mapped = |error| ("map the rings", error);
        let (socket, size) = (fd.as_fd(), sizes.ring);
        let fill = Ring::map(socket, XDP_UMEM_PGOFF_FILL_RING, offsets.fr, size).map_err(mapped)?;
        let completed =
            Ring::map(socket, XDP_UMEM_PGOFF_COMPLETION_RING, offsets.cr, size).map_err(mapped)?;
        let received = Ring::map(socket, XDP_PGOFF_RX_RING, offsets.rx, size).map_err(mapped)?;
        let to_send = Arc::new(Ring::map(socket, XDP_PGOFF_TX_RING, offsets.tx, size).map_err(mapped)?);
        if busy_poll {
            prefer_busy_poll(fd.as_fd(), BUSY_POLL_FRAMES).map_err(during("prefer busy polling"))?;
        }
        let mut fill = Producer::of(Arc::new(fill));
        for chunk in 0..u64::from(sizes.ring) {
            fill.put([chunk * u64::from(sizes.chunk_bytes)]);
        }
        fill.publish();
        let flags = copying | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        bind_when_free(fd.as_fd(), place, flags).map_err(during("bind to the queue"))?;
        let unsent = Unsent::new(fd.as_fd()).map_err(|error| ("make an eventfd and an epoll set", error))?;
        let socket = Socket { fd, to_send: Arc::clone(&to_send), unsent, busy_poll };
        Ok(Queue {
            socket: Arc::new(socket),
            memory: Arc::new(memory),
            sizes,
            fill,
            received: Consumer::of(received),
            to_send: Producer::of(to_send),
            completed: Consumer::of(completed),
        })
    }
}

/// Binds the socket. Tries again for a short time while the queue is busy: the kernel may still be releasing a
/// socket that was just closed.
fn bind_when_free(fd: BorrowedFd<'_>, place: Place, flags: SocketAddrXdpFlags) -> Result<(), Errno> {
    let address = SocketAddrXdp::new(flags, place.interface, place.queue);
    for _ in 0..BIND_TRIES {
        match bind(fd, &address) {
            Err(Errno::BUSY) => std::thread::sleep(BIND_PAUSE),
            other => return other,
        }
    }
    bind(fd, &address)
}

impl Socket {
    /// Makes the kernel send the frames in the ring, as far as it can now.
    pub fn send(&self) {
        self.unsent.look(|| self.tell_kernel());
    }

    /// Whether frames are left that a later call may send.
    fn tell_kernel(&self) -> bool {
        // Each call sends a batch, unless something holds it up, or ends at a frame that is dropped.
        let mut batches = self.to_send.waiting() / KERNEL_BATCH + 1;
        let mut dropped = DROPPED_AT_ONCE;
        while batches > 0 && dropped > 0 {
            let before = self.to_send.waiting();
            if before == 0 || !self.to_send.needs_wakeup() {
                break;
            }
            match send(&self.fd, &[], SendFlags::DONTWAIT) {
                Err(Errno::BUSY) => dropped -= 1,
                // A batch was sent; before Linux 6.17 the ring does not always show that.
                Err(Errno::AGAIN) => batches -= 1,
                Ok(_) | Err(Errno::NOBUFS) if self.to_send.waiting() == before => return true,
                Ok(_) | Err(Errno::NOBUFS) => batches -= 1,
                // An error that a later call cannot solve either is not tried again before the next frame.
                Err(_) => return false,
            }
        }
        self.to_send.waiting() > 0 && self.to_send.needs_wakeup()
    }

    /// Frames that the kernel did not send. While there are any, [`Socket::send`] must be called again.
    pub fn unsent(&self) -> &Unsent {
        &self.unsent
    }

    /// Makes the kernel process the queue and its buffers.
    #[cold]
    pub fn receive(&self) {
        let nothing: &mut [u8] = &mut [];
        // Errors of the interface are reported elsewhere.
        let _ = recv(&self.fd, nothing, RecvFlags::DONTWAIT);
    }

    /// Whether the receiving thread must first make the kernel poll the device.
    #[inline]
    pub fn busy_polls(&self) -> bool {
        self.busy_poll
    }

    /// Whether the card reads and writes the memory itself.
    pub fn is_zero_copy(&self) -> bool {
        sockopt::xdp_options(&self.fd)
            .is_ok_and(|options| options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY))
    }

    /// The kernel's counters of the socket.
    pub fn statistics(&self) -> Option<XdpStatistics> {
        sockopt::xdp_statistics(&self.fd).ok()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
