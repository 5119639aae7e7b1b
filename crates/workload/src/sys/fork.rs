//! Child processes. The agent forks only while it has a single thread.

use std::ffi::CStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpid, getppid};

/// A child process that is killed and waited for at the latest when this value goes.
#[derive(Debug)]
pub(crate) struct Child {
    pid: Option<Pid>,
}

impl Child {
    /// Forks a child that runs `body` and ends with the code that it returns. The child dies with its parent.
    pub(crate) fn fork(body: impl FnOnce() -> i32) -> nix::Result<Self> {
        let parent = getpid();
        // SAFETY: the agent has one thread whenever it forks, so that the child's copy of every lock is
        // free; the child leaves only through `exit_at_once`, so that nothing of the parent runs twice.
        match unsafe { fork() }? {
            ForkResult::Parent { child } => Ok(Child { pid: Some(child) }),
            ForkResult::Child => exit_at_once(catch_unwind(AssertUnwindSafe(|| {
                if die_with(parent).is_err() { LOST_PARENT } else { body() }
            }))),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Some(pid) = self.pid.take() {
            // Both can only fail if the child is gone already.
            let _ = kill(pid, Signal::SIGKILL);
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

/// Arranges for this process to be killed when its parent ends, and finds out whether that has happened.
fn die_with(parent: Pid) -> nix::Result<()> {
    set_pdeathsig(Signal::SIGKILL)?;
    if getppid() == parent { Ok(()) } else { Err(nix::errno::Errno::ESRCH) }
}

fn wait_for(pid: Pid) -> nix::Result<WaitStatus> {
    loop {
        match waitpid(pid, None) {
            Err(nix::errno::Errno::EINTR) => {}
            other => return other,
        }
    }
}

/// Forks a child that ends at once, and waits for it.
pub(crate) fn fork_and_exit() -> nix::Result<WaitStatus> {
    // SAFETY: one thread, and the child does nothing but end, without the parent's exit handlers.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => wait_for(child),
        // SAFETY: as above.
        ForkResult::Child => unsafe { libc::_exit(0) },
    }
}

/// Forks a child that executes a program with one argument and no environment, and waits for it.
pub(crate) fn fork_and_exec(program: &CStr, argument: &CStr) -> nix::Result<WaitStatus> {
    let arguments = [program.as_ptr(), argument.as_ptr(), std::ptr::null()];
    let environment = [std::ptr::null()];
    // SAFETY: one thread, and the child does nothing but execute or end.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => wait_for(child),
        // SAFETY: both arrays end with a null pointer and hold pointers to texts that outlive the call; a
        // failing call returns, and the child ends.
        ForkResult::Child => unsafe {
            libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr());
            libc::_exit(127)
        },
    }
}

/// Makes a command's process be killed when the agent ends.
pub(crate) fn kill_with_parent(command: &mut Command) {
    let parent = getpid();
    // SAFETY: the closure makes two system calls and allocates nothing, as is asked of code between fork
    // and exec.
    unsafe { command.pre_exec(move || die_with(parent).map_err(io::Error::from)) };
}
