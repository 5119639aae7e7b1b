//! Scheduling policies of threads: sched(7). `rustix` has no call for them, and musl has only stubs.

use std::io;

/// A scheduling policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// SCHED_OTHER, the ordinary policy.
    Normal,
    /// SCHED_FIFO, at a priority from 1 to 99.
    Fifo(i32),
    /// Another policy, by the kernel's number and its priority.
    Other(i32, i32),
}

/// Sets the calling thread's policy.
///
/// # Errors
/// The causes of [`set_of`].
pub fn set(policy: Policy) -> io::Result<()> {
    set_of(0, policy)
}

/// The calling thread's policy, as the kernel has it.
///
/// # Errors
/// The kernel refuses the query, for example by a seccomp filter.
pub fn current() -> io::Result<Policy> {
    of(0)
}

/// Sets a thread's policy. 0 is the calling thread.
///
/// # Errors
/// No such thread (`ESRCH`), a priority outside the policy's range (`EINVAL`), or no permission (`EPERM`): SCHED_FIFO
/// needs `CAP_SYS_NICE` or `RLIMIT_RTPRIO`, and with `CONFIG_RT_GROUP_SCHED` a real-time budget of the cgroup.
pub fn set_of(thread: i32, policy: Policy) -> io::Result<()> {
    let (policy, priority) = match policy {
        Policy::Normal => (libc::SCHED_OTHER, 0),
        Policy::Fifo(priority) => (libc::SCHED_FIFO, priority),
        Policy::Other(policy, priority) => (policy, priority),
    };
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the kernel only reads the structure, which lives through the call; 0 is the caller.
    result(unsafe { libc::syscall(libc::SYS_sched_setscheduler, thread, policy, &raw const parameters) })
        .map(drop)
}

/// Sets a thread to SCHED_FIFO at this priority. Threads that it starts do not inherit the policy.
///
/// # Errors
/// The causes of [`set_of`].
pub fn raise(thread: i32, priority: i32) -> io::Result<()> {
    set_of(thread, Policy::Other(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority))
}

/// A thread's policy, as the kernel has it. 0 is the calling thread.
///
/// # Errors
/// No such thread (`ESRCH`), or a negative id (`EINVAL`).
pub fn of(thread: i32) -> io::Result<Policy> {
    let mut parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: no memory is involved.
    let policy = result(unsafe { libc::syscall(libc::SYS_sched_getscheduler, thread) })?;
    // SAFETY: the kernel writes the one structure, which lives through the call.
    result(unsafe { libc::syscall(libc::SYS_sched_getparam, thread, &raw mut parameters) })?;
    Ok(match (policy as i32 & !libc::SCHED_RESET_ON_FORK, parameters.sched_priority) {
        (libc::SCHED_OTHER, _) => Policy::Normal,
        (libc::SCHED_FIFO, priority) => Policy::Fifo(priority),
        (policy, priority) => Policy::Other(policy, priority),
    })
}

fn result(returned: libc::c_long) -> io::Result<libc::c_long> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_is_what_was_set() {
        let set_and_read = || {
            for policy in [Policy::Fifo(3), Policy::Other(libc::SCHED_BATCH, 0), Policy::Normal] {
                match set(policy) {
                    Ok(()) => assert_eq!(current().unwrap(), policy),
                    // Real time needs a right.
                    Err(error) => {
                        assert_eq!(
                            (policy, error.kind()),
                            (Policy::Fifo(3), io::ErrorKind::PermissionDenied)
                        );
                    }
                }
            }
            assert_eq!(set(Policy::Fifo(100)).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        };
        std::thread::spawn(set_and_read).join().unwrap();
    }
}
