//! Packets of BFD between the workers, which receive them, and the control side of a tunnel.
use std::io;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError, TryLockError};

use port::SharedFd;
use rustix::event::{EventfdFlags, eventfd};
use tunnels::bfd::Control;

/// The most packets between two looks of the control side.
pub(crate) const MAX_HEARD: usize = 16;

/// Packets that workers have received and the control side has not seen.
#[derive(Debug)]
pub(crate) struct Inbox {
    packets: Mutex<Vec<Control>>,
    waker: SharedFd,
}

impl Inbox {
    /// An empty inbox.
    ///
    /// # Errors
    /// `eventfd` is refused.
    pub fn new() -> io::Result<Self> {
        let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Inbox { packets: Mutex::new(Vec::with_capacity(MAX_HEARD)), waker: SharedFd::new(waker) })
    }

    /// Takes note of a packet. A packet that finds no room, or another thread at work, is lost: the other end sends another
    /// one soon.
    pub fn put(&self, packet: Control) {
        let mut packets = match self.packets.try_lock() {
            Ok(packets) => packets,
            Err(TryLockError::Poisoned(packets)) => packets.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if packets.len() == MAX_HEARD {
            return;
        }
        packets.push(packet);
        if packets.len() == 1 {
            // A full counter is readable too.
            let _ = rustix::io::write(self.waker.as_fd(), &1_u64.to_ne_bytes());
        }
    }

    /// Wakes the control side, as a descriptor that is readable.
    pub fn waker(&self) -> &SharedFd {
        &self.waker
    }

    /// Makes the descriptor unreadable. A packet that arrives meanwhile is taken by the next [`Inbox::take`].
    pub fn calm(&self) {
        let _ = rustix::io::read(self.waker.as_fd(), &mut [0; 8]);
    }

    /// All packets that wait.
    pub fn take(&self) -> Vec<Control> {
        self.packets.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }
}
