//! Frames that the kernel did not send at once. The thread that receives from the interface makes the kernel try
//! again. It may be another thread than the sender, and may be asleep.
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};

use rustix::event::epoll;
use vhost_device::EventFd;

/// Whether there are unsent frames. Threads of both directions use it.
#[derive(Debug)]
pub(super) struct Unsent {
    some: AtomicBool,
    /// The receiving thread wants to be woken.
    armed: AtomicBool,
    event: EventFd,
    /// Readable when the socket or the eventfd is.
    either: OwnedFd,
}

impl Unsent {
    /// No unsent frames, for a socket whose readiness wakes its reader too.
    ///
    /// # Errors
    /// `eventfd`, `epoll_create` or `epoll_ctl` is refused, for example at the open-files limit.
    pub fn new(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let event = EventFd::new()?;
        let either = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for fd in [socket, event.as_fd()] {
            epoll::add(&either, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        }
        Ok(Unsent { some: AtomicBool::new(false), armed: AtomicBool::new(false), event, either })
    }

    /// Sets whether there are unsent frames to the result of `is_some`. If another thread sets it meanwhile, it stays
    /// set.
    pub fn look(&self, is_some: impl FnOnce() -> bool) {
        self.clear();
        if is_some() {
            self.some.store(true, Ordering::Release);
            // Pairs with the fence in `arm`: `arm` sees the frames, or this thread sees that the other one sleeps.
            fence(Ordering::SeqCst);
            if self.armed.swap(false, Ordering::Relaxed) {
                self.event.notify();
            }
        }
    }

    /// Notes that no unsent frames are left.
    pub fn clear(&self) {
        // A swap: the thread that clears the flag sees what the other thread had put into the ring.
        self.some.swap(false, Ordering::AcqRel);
    }

    /// Whether there are unsent frames.
    #[inline]
    pub fn any(&self) -> bool {
        self.some.load(Ordering::Relaxed)
    }

    /// Asks to be woken when there are unsent frames. Returns whether there are unsent frames already.
    pub fn arm(&self) -> bool {
        self.armed.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.any()
    }

    /// Cancels the request of [`Unsent::arm`].
    pub fn disarm(&self) {
        self.armed.store(false, Ordering::Relaxed);
        self.event.drain();
    }

    /// Readable while a frame from the interface waits, and after [`Unsent::arm`] while frames are unsent.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.either.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_readable(fd: BorrowedFd<'_>) -> bool {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&at_once)).unwrap() > 0
    }

    #[test]
    fn who_sleeps_is_woken_by_frames_of_either_kind() {
        let socket = EventFd::new().unwrap();
        let unsent = Unsent::new(socket.as_fd()).unwrap();
        // No thread sleeps, so no signal is sent.
        unsent.look(|| true);
        assert!(unsent.any() && !is_readable(unsent.wake_fd()));
        assert!(unsent.arm(), "there are some already");
        unsent.disarm();
        unsent.clear();
        assert!(!unsent.arm());
        unsent.clear();
        assert!(!is_readable(unsent.wake_fd()));
        unsent.look(|| true);
        assert!(is_readable(unsent.wake_fd()));
        unsent.disarm();
        assert!(!is_readable(unsent.wake_fd()));
        socket.notify();
        assert!(is_readable(unsent.wake_fd()), "the socket's own");
    }

    #[test]
    fn what_another_thread_finds_meanwhile_stands() {
        let socket = EventFd::new().unwrap();
        let unsent = Unsent::new(socket.as_fd()).unwrap();
        // Between this thread's check and its flag, the other thread publishes frames that are not sent.
        unsent.look(|| {
            unsent.look(|| true);
            false
        });
        assert!(unsent.any());
        unsent.look(|| false);
        assert!(!unsent.any());
    }
}
