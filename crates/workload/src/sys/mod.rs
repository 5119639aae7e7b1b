//! System calls that nix does not wrap, or wraps as unsafe: the only raw calls of this crate.

mod area;
mod fork;
mod network;
mod signal;

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;

pub(crate) use area::{Area, Pages, map_touch_unmap};
pub(crate) use fork::{Child, fork_and_exec, fork_and_exit, kill_with_parent};
pub(crate) use network::bring_loopback_up;
pub(crate) use signal::{install_counter, signals_counted};

/// Puts the calling thread under SCHED_FIFO at a priority.
pub(crate) fn set_fifo(priority: i32) -> nix::Result<()> {
    set_scheduler(libc::SCHED_FIFO, priority)
}

/// Puts the calling thread back under the normal scheduler.
pub(crate) fn set_normal() -> nix::Result<()> {
    set_scheduler(libc::SCHED_OTHER, 0)
}

fn set_scheduler(policy: libc::c_int, priority: i32) -> nix::Result<()> {
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: the parameter is a live, initialised struct that the kernel only reads; 0 is the caller.
    Errno::result(unsafe { libc::sched_setscheduler(0, policy, &parameter) }).map(drop)
}

/// Duplicates a descriptor to the lowest free number from `least` on.
pub(crate) fn duplicate_from(fd: impl AsFd, least: i32) -> nix::Result<OwnedFd> {
    // SAFETY: the borrowed descriptor is open, and the call only makes a new one.
    let copy = unsafe { libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_DUPFD_CLOEXEC, least) };
    // SAFETY: the kernel just made this descriptor and nobody else owns it.
    Errno::result(copy).map(|copy| unsafe { OwnedFd::from_raw_fd(copy) })
}

/// The parent's process id, asked of the kernel each time.
#[inline(always)]
pub(crate) fn getppid() -> i64 {
    // SAFETY: a call without arguments that always succeeds.
    unsafe { libc::syscall(libc::SYS_getppid) as i64 }
}
