//! Setting another thread's scheduling policy: a call that no library wraps.

use std::io;

use super::threads::Scheduling;

/// Sets a thread's policy and priority.
pub fn set(thread: i32, scheduling: Scheduling) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: scheduling.priority };
    // SAFETY: the kernel only reads the structure, which lives through the call.
    match unsafe { libc::sched_setscheduler(thread, scheduling.policy, &parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
