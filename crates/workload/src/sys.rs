//! System calls that nix does not wrap, or wraps as unsafe: the only raw calls of this crate.

use nix::errno::Errno;

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
