//! Child processes. Forks child processes. The agent forks only while it has a single thread.

use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use linux::child::end_with;
use rustix::io::{self, Errno};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, waitpid};

/// A child process that is killed and waited for, at the latest when this value is dropped.
#[derive(Debug)]
pub(crate) struct Child {
    pid: Option<Pid>,
}

impl Child {
    /// Forks a child that runs `body` and ends with the code that it returns. The child dies with its parent.
    pub(crate) fn fork(body: impl FnOnce() -> i32) -> io::Result<Self> {
        let parent = getpid();
        // SAFETY: the agent has one thread whenever it forks, so that the child's copy of every lock is
        // free; the child leaves only through `exit_at_once`, so that nothing of the parent runs twice.
        match unsafe { fork() }? {
            Some(child) => Ok(Child { pid: Some(child) }),
            None => exit_at_once(catch_unwind(AssertUnwindSafe(|| {
                if end_with(parent, Signal::KILL).is_err() { LOST_PARENT } else { body() }
            }))),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Some(pid) = self.pid.take() {
            // Both can only fail if the child is gone already.
            let _ = kill_process(pid, Signal::KILL);
            let _ = wait_for(pid);
        }
    }
}

const PANICKED: i32 = 101;
const LOST_PARENT: i32 = 102;

fn exit_at_once(code: Result<i32, Box<dyn std::any::Any + Send>>) -> ! {
    // SAFETY: ends this process without running the parent's exit handlers or flushing its buffers.
    unsafe { libc::_exit(code.unwrap_or(PANICKED)) }
}

/// The child's number in the parent, none in the child.
///
/// # Safety
/// This process has one thread, and the child ends by `_exit` or execve.
unsafe fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: as the caller promises.
    match unsafe { libc::fork() } {
        // `fork` fails for want of processes or memory alone.
        ..0 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::AGAIN)),
        child => Ok(Pid::from_raw(child)),
    }
}

fn wait_for(pid: Pid) -> io::Result<WaitStatus> {
    loop {
        match waitpid(Some(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(status),
            Ok(None) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Forks a child that ends at once, and waits for it.
pub(crate) fn fork_and_exit() -> io::Result<WaitStatus> {
    // SAFETY: one thread, and the child does nothing but end, without the parent's exit handlers.
    match unsafe { fork() }? {
        Some(child) => wait_for(child),
        // SAFETY: as above.
        None => unsafe { libc::_exit(0) },
    }
}

/// Forks a child that executes a program with one argument and no environment, and waits for it.
pub(crate) fn fork_and_exec(program: &CStr, argument: &CStr) -> io::Result<WaitStatus> {
    let arguments = [program.as_ptr(), argument.as_ptr(), std::ptr::null()];
    let environment = [std::ptr::null()];
    // SAFETY: one thread, and the child does nothing but execute or end.
    match unsafe { fork() }? {
        Some(child) => wait_for(child),
        // SAFETY: both arrays end with a null pointer and hold pointers to texts that outlive the call; a
        // failing call returns, and the child ends.
        None => unsafe {
            libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr());
            libc::_exit(127)
        },
    }
}
