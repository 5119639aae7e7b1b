//! Child processes that die with this one, and inherit exactly the descriptors they are given. The only
//! `unsafe` of this crate: what has to happen between fork and exec.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// In the environment of every child: the process id of the run it belongs to, for people and tests that
/// look for what belongs together.
pub const RUN: &str = "TAUTLINE_RUN";

/// Lets the child be killed when the thread that started it ends, and takes it out of the terminal's
/// foreground group, so that Ctrl-C reaches this process alone, which then ends its children in order.
pub fn tie_to_parent(command: &mut Command) {
    command.process_group(0).env(RUN, std::process::id().to_string());
    let parent = std::process::id();
    // SAFETY: the closure runs between fork and exec and makes only async-signal-safe calls (prctl,
    // getppid, _exit); it allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            // The parent may have died before the prctl.
            if libc::getppid() as u32 != parent {
                libc::_exit(1);
            }
            Ok(())
        });
    }
}

/// Lets the child inherit these descriptors under their own numbers. The caller keeps them open until
/// the child is spawned.
pub fn inherit(command: &mut Command, fds: &[BorrowedFd<'_>]) {
    let fds: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    // SAFETY: the closure runs between fork and exec, makes only the async-signal-safe call fcntl, and
    // reads a vector that was allocated before the fork.
    unsafe {
        command.pre_exec(move || {
            for &fd in &fds {
                if libc::fcntl(fd, libc::F_SETFD, 0) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
}
