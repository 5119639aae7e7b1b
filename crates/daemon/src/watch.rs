//! The epoll set of the switch's operator.
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// How often conditions are checked that no descriptor reports.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// Adds a descriptor to an epoll set, under this key.
///
/// # Errors
/// The set contains the descriptor already, the descriptor cannot be polled (a regular file), or the user's limit of
/// watches (`fs.epoll.max_user_watches`) is reached.
pub fn watch(epoll: &OwnedFd, fd: impl AsFd, key: u64, flags: epoll::EventFlags) -> io::Result<()> {
    Ok(epoll::add(epoll, fd, epoll::EventData::new_u64(key), flags)?)
}

/// A listening socket with an interval timer beside it. While the system has no descriptor or memory for one more
/// connection, the socket stays readable. The socket is then not watched until the timer expires.
pub struct Listening {
    timer: OwnedFd,
    /// Key of the socket.
    key: u64,
    is_paused: bool,
}

impl Listening {
    /// Adds a listening socket and a new timer to an epoll set.
    ///
    /// # Errors
    /// The kernel refuses a timer, or to watch the socket or the timer ([`watch`]).
    pub fn watch(epoll: &OwnedFd, listener: impl AsFd, key: u64, timer_key: u64) -> io::Result<Self> {
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        watch(epoll, listener, key, epoll::EventFlags::IN)?;
        watch(epoll, &timer, timer_key, epoll::EventFlags::IN)?;
        Ok(Listening { timer, key, is_paused: false })
    }

    /// Starts the timer, which then expires every second, or stops it.
    pub fn set_timer(&self, runs: bool) {
        if let Ok(time) = Timespec::try_from(if runs { INTERVAL } else { Duration::ZERO }) {
            let time = Itimerspec { it_interval: time, it_value: time };
            let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &time);
        }
    }

    /// The accepted connection, if any. If the system lacks descriptors or memory, the socket is not watched again
    /// before the timer expires.
    pub fn accepted<T>(
        &mut self,
        epoll: &OwnedFd,
        listener: impl AsFd,
        accepted: io::Result<T>,
    ) -> Option<T> {
        let lacks = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS];
        match accepted {
            Ok(socket) => Some(socket),
            Err(error) => {
                if Errno::from_io_error(&error).is_some_and(|errno| lacks.contains(&errno)) {
                    self.is_paused = self.set_flags(epoll, listener, epoll::EventFlags::empty());
                    self.set_timer(true);
                }
                None
            }
        }
    }

    /// Watches the socket again, because the timer has expired.
    pub fn look_again(&mut self, epoll: &OwnedFd, listener: impl AsFd) {
        // The timer's counter of expirations is read and not used.
        let _ = rustix::io::read(&self.timer, &mut [0; 8]);
        if self.is_paused {
            self.is_paused = !self.set_flags(epoll, listener, epoll::EventFlags::IN);
        }
    }

    fn set_flags(&self, epoll: &OwnedFd, listener: impl AsFd, flags: epoll::EventFlags) -> bool {
        epoll::modify(epoll, listener, epoll::EventData::new_u64(self.key), flags).is_ok()
    }
}

/// A timer that expires every second.
pub struct Ticker(OwnedFd);

impl Ticker {
    /// Starts a timer and adds it to an epoll set.
    ///
    /// # Errors
    /// The kernel refuses a timer, or to watch it ([`watch`]).
    pub fn watch(epoll: &OwnedFd, key: u64) -> io::Result<Self> {
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        watch(epoll, &timer, key, epoll::EventFlags::IN)?;
        let ticker = Ticker(timer);
        ticker.set(INTERVAL);
        Ok(ticker)
    }

    fn set(&self, first: Duration) {
        if let (Ok(it_interval), Ok(it_value)) = (Timespec::try_from(INTERVAL), Timespec::try_from(first)) {
            let time = Itimerspec { it_interval, it_value };
            let _ = timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &time);
        }
    }

    /// Makes the timer expire at once.
    pub fn soon(&self) {
        self.set(Duration::from_nanos(1));
    }

    /// Makes the timer expire after this time.
    pub fn after(&self, time: Duration) {
        self.set(time);
    }

    /// Takes note that the timer has expired.
    pub fn clear(&self) {
        // The number of expirations does not matter.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}
