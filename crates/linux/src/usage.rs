//! Resource usage of threads and processes: getrusage(2). `rustix` has no call for it.

use std::io;
use std::time::Duration;

/// Whose usage is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// The calling thread.
    Thread,
    /// All threads of this process.
    Process,
    /// The child processes that were waited for, and their own such children.
    Children,
}

/// Resources used since the start of the thread or process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user space and in the kernel.
    pub cpu_time: Duration,
    /// How often the thread or process went to sleep.
    pub voluntary_switches: u64,
    /// How often the thread or process was preempted.
    pub involuntary_switches: u64,
}

/// Resources used so far.
///
/// # Errors
/// The kernel refuses `getrusage`, for example by a seccomp filter.
pub fn usage(of: Of) -> io::Result<Usage> {
    let who = match of {
        Of::Thread => libc::RUSAGE_THREAD,
        Of::Process => libc::RUSAGE_SELF,
        Of::Children => libc::RUSAGE_CHILDREN,
    };
    // SAFETY: all zeros is a valid `rusage`: integers.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes the one structure, which lives through the call.
    if unsafe { libc::getrusage(who, &raw mut used) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    Ok(Usage {
        cpu_time: time(used.ru_utime) + time(used.ru_stime),
        voluntary_switches: used.ru_nvcsw as u64,
        involuntary_switches: used.ru_nivcsw as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_uses_time() {
        let before = usage(Of::Thread).unwrap();
        while usage(Of::Thread).unwrap().cpu_time < before.cpu_time + Duration::from_millis(2) {}
        assert!(usage(Of::Process).unwrap().cpu_time >= usage(Of::Thread).unwrap().cpu_time);
        let children = usage(Of::Children).unwrap();
        std::process::Command::new("true").status().unwrap();
        assert!(usage(Of::Children).unwrap().cpu_time >= children.cpu_time);
    }
}
