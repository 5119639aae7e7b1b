//! Setting another thread's scheduling policy: a call that no library wraps.

use nix::errno::Errno;
use nix::libc;

use super::threads::Scheduling;

/// Sets a thread's policy and priority.
pub fn set(thread: i32, scheduling: Scheduling) -> nix::Result<()> {
    let parameters = libc::sched_param { sched_priority: scheduling.priority };
    // SAFETY: the kernel only reads the structure, which lives through the call.
    Errno::result(unsafe { libc::sched_setscheduler(thread, scheduling.policy, &parameters) }).map(drop)
}
