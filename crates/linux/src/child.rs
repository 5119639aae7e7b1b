//! Child processes that end when their [`Child`] value is dropped, or when the thread that started them ends.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{self, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{
    Pid, PidfdFlags, Signal, getppid, kill_process_group, pidfd_open, pidfd_send_signal,
    set_parent_process_death_signal,
};

/// An environment variable of children: the process id of the run they belong to, for users and tests that look for
/// related processes.
pub const RUN: &str = "TAUTLINE_RUN";

/// How long a killed process may take to end. A process that is stuck in a driver does not end at all, so every
/// wait has a limit.
const DEATH_LIMIT: Duration = Duration::from_secs(10);

/// A child process. When this is dropped, the process is killed and waited for.
#[derive(Debug)]
pub struct Child {
    process: process::Child,
    /// The process's pidfd: readable once the process has ended.
    end: OwnedFd,
    scope: Scope,
    status: Option<ExitStatus>,
}

/// The processes that are killed at the child's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Process,
    Group,
}

impl Child {
    /// Starts a process. The kernel kills it when the calling thread ends.
    ///
    /// # Errors
    /// The program cannot be found or executed, or the system refuses another process or descriptor. `pidfd_open`
    /// takes Linux 5.3 or later.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        Self::start(command, Scope::Process)
    }

    /// Starts a process in a process group of its own. Ctrl-C at the terminal does not reach the group. When this
    /// value finds that the process has ended, it kills the rest of the group.
    ///
    /// # Errors
    /// The causes of [`Child::spawn`].
    pub fn spawn_group(command: &mut Command) -> io::Result<Self> {
        Self::start(command.process_group(0), Scope::Group)
    }

    fn start(command: &mut Command, scope: Scope) -> io::Result<Self> {
        end_with_parent(command);
        let mut process = command.spawn()?;
        match pidfd_open(pid(&process), PidfdFlags::empty()) {
            Ok(end) => Ok(Child { process, end, scope, status: None }),
            Err(error) => {
                let _ = process.kill();
                let _ = process.wait();
                Err(io::Error::other(format!("pidfd_open (Linux 5.3): {error}")))
            }
        }
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The process's standard input, if that is a pipe; only once.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.process.stdin.take()
    }

    /// The process's standard output, if that is a pipe; only once.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.process.stdout.take()
    }

    /// The process's standard error, if that is a pipe; only once.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.process.stderr.take()
    }

    /// Sends the process a signal.
    ///
    /// # Errors
    /// The process has ended and was waited for (`ESRCH`), or this process may not send it signals (`EPERM`).
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.end, signal)?)
    }

    /// The exit status, or `None` while the process runs.
    ///
    /// # Errors
    /// `poll` or `waitpid` is refused.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.wait_within(Duration::ZERO)
    }

    /// Waits for the end of the process. Returns `None` if the process still runs after the limit. The calling thread
    /// sleeps meanwhile: polling would disturb measurements.
    ///
    /// # Errors
    /// `poll` or `waitpid` is refused.
    pub fn wait_within(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() && ended_by(&self.end, Instant::now() + limit)? {
            // The child is not reaped yet, so its group's number cannot belong to another group.
            self.kill_group();
            self.status = self.process.try_wait()?;
        }
        Ok(self.status)
    }

    /// Kills the process, with its group if it has one, and waits up to 10 s for its end. Returns `None` if it has
    /// not ended by then.
    ///
    /// # Errors
    /// This process may no longer send the child signals (`EPERM`), or `poll` or `waitpid` is refused.
    pub fn kill(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            match self.scope {
                Scope::Process => self.process.kill()?,
                Scope::Group => self.kill_group(),
            }
        }
        self.wait_within(DEATH_LIMIT)
    }

    fn kill_group(&self) {
        if self.scope == Scope::Group {
            // Fails only where no process of the group is left.
            let _ = kill_process_group(pid(&self.process), Signal::KILL);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

fn pid(process: &process::Child) -> Pid {
    Pid::from_child(process)
}

fn ended_by(end: &OwnedFd, deadline: Instant) -> io::Result<bool> {
    let mut ended = [PollFd::new(end, PollFlags::IN)];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match poll(&mut ended, Some(&Timespec::try_from(left).unwrap_or(FOR_EVER))) {
            Ok(0) if left.is_zero() => return Ok(false),
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Stands for limits that are too long for a `timespec`.
const FOR_EVER: Timespec = Timespec { tv_sec: 1 << 40, tv_nsec: 0 };

/// Lets the kernel kill the command's process when the thread that starts it ends.
pub fn end_with_parent(command: &mut Command) {
    let parent = rustix::process::getpid();
    // SAFETY: the closure runs between fork and exec and makes only async-signal-safe calls (prctl, getppid); it
    // allocates nothing and takes no lock.
    unsafe { command.pre_exec(move || Ok(end_with(parent, Signal::KILL)?)) };
}

/// Moves the command's process into cgroups between fork and exec, in this order: each file is the `cgroup.procs` of
/// one cgroup, open for writing. The program then runs in the last cgroup from its first instruction.
pub fn enter_cgroups(command: &mut Command, cgroups: Vec<File>) {
    let enter = move || {
        for cgroup in &cgroups {
            // "0" is the writing process itself: cgroups(7).
            rustix::io::write(cgroup, b"0")?;
        }
        Ok(())
    };
    // SAFETY: the closure runs between fork and exec and makes only async-signal-safe calls (write); it allocates
    // nothing and takes no lock.
    unsafe { command.pre_exec(enter) };
}

/// Lets the kernel send this process a signal when its parent ends (prctl(2), PR_SET_PDEATHSIG). Must be called
/// again after every change of credentials, which clears the request.
///
/// # Errors
/// `SRCH` if the parent has ended already; otherwise the kernel's answer to `prctl`.
pub fn end_with(parent: Pid, signal: Signal) -> Result<(), Errno> {
    set_parent_process_death_signal(Some(signal))?;
    // The parent may have ended before the request.
    if getppid() == Some(parent) { Ok(()) } else { Err(Errno::SRCH) }
}

/// Lets the command's process inherit these descriptors under their own numbers. The caller must keep them open until
/// the process is started.
pub fn inherit(command: &mut Command, fds: &[BorrowedFd<'_>]) {
    let fds: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    // SAFETY: the closure runs between fork and exec, makes only the async-signal-safe call fcntl on descriptors
    // that the caller keeps open, and reads a vector that was allocated before the fork.
    unsafe {
        command.pre_exec(move || {
            for &fd in &fds {
                fcntl_setfd(BorrowedFd::borrow_raw(fd), FdFlags::empty())?;
            }
            Ok(())
        });
    }
}

impl AsFd for Child {
    /// Readable once the process has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Stdio;

    use super::*;

    const SOON: Duration = Duration::from_secs(60);

    fn shell(line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]).stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }

    /// Whether a process has ended, or waits to be reaped by its new parent.
    fn is_gone(id: &str) -> bool {
        fs::read_to_string(format!("/proc/{id}/stat"))
            .map_or(true, |stat| stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" Z")))
    }

    fn first_line(child: &mut Child) -> String {
        use std::io::BufRead;
        let mut line = String::new();
        io::BufReader::new(child.take_stdout().unwrap()).read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn soon(mut condition: impl FnMut() -> bool) -> bool {
        let deadline = Instant::now() + SOON;
        while !condition() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        condition()
    }

    #[test]
    fn the_exit_status_is_had_and_a_limit_is_kept() {
        let mut child = Child::spawn(&mut shell("exit 3")).unwrap();
        assert_eq!(child.wait_within(SOON).unwrap().unwrap().code(), Some(3));
        assert_eq!(child.try_wait().unwrap().unwrap().code(), Some(3), "also a second time");
        let mut child = Child::spawn(&mut shell("exec sleep 1000")).unwrap();
        assert_eq!(child.wait_within(Duration::from_millis(5)).unwrap(), None);
        child.signal(Signal::TERM).unwrap();
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(child.wait_within(SOON).unwrap().unwrap().signal(), Some(Signal::TERM.as_raw()));
    }

    #[test]
    fn a_dropped_child_ends_and_a_group_with_all_of_it() {
        let child = Child::spawn(&mut shell("exec sleep 1000")).unwrap();
        let id = child.id().to_string();
        drop(child);
        assert!(is_gone(&id));
        for line in ["sleep 1000 & echo $!; wait", "sleep 1000 & echo $!"] {
            let mut child = Child::spawn_group(&mut shell(line)).unwrap();
            let grandchild = first_line(&mut child);
            drop(child);
            assert!(soon(|| is_gone(&grandchild)), "{line}");
        }
    }

    #[test]
    fn what_is_left_of_a_group_ends_when_its_first_process_does() {
        let mut child = Child::spawn_group(&mut shell("sleep 1000 & echo $!")).unwrap();
        let grandchild = first_line(&mut child);
        assert!(child.wait_within(SOON).unwrap().unwrap().success());
        assert!(soon(|| is_gone(&grandchild)));
    }

    #[test]
    fn a_child_ends_with_the_thread_that_started_it() {
        let start = || {
            let child = Child::spawn(&mut shell("exec sleep 1000")).unwrap();
            let id = child.id().to_string();
            std::mem::forget(child);
            id
        };
        let id = std::thread::spawn(start).join().unwrap();
        assert!(soon(|| is_gone(&id)));
    }

    #[test]
    fn only_named_descriptors_are_inherited() {
        let (kept, closed) = (fs::File::open("/dev/null").unwrap(), fs::File::open("/dev/null").unwrap());
        let mut command = shell(&format!(
            "[ -e /proc/self/fd/{} ] && [ ! -e /proc/self/fd/{} ]",
            kept.as_raw_fd(),
            closed.as_raw_fd()
        ));
        inherit(&mut command, &[kept.as_fd()]);
        assert!(Child::spawn(&mut command).unwrap().wait_within(SOON).unwrap().unwrap().success());
    }
}
