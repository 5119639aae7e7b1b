//! Processes that end with the value that stands for them.

use std::io::Read;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Error;
use crate::requirements::Requirements;

/// Between two looks at something that does not announce itself.
pub(crate) const PAUSE: Duration = Duration::from_millis(5);

/// What a command left behind.
#[derive(Clone, Debug)]
pub struct Output {
    /// The exit status; 128 and the signal's number where a signal ended it.
    pub status: i32,
    /// What it wrote, with anything that is not UTF-8 replaced.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}

impl Output {
    /// Whether the exit status is 0.
    pub fn success(&self) -> bool {
        self.status == 0
    }

    /// The standard output of a command that must not fail.
    ///
    /// # Panics
    /// With all that was said, where the exit status is not 0.
    #[track_caller]
    pub fn expect_success(self) -> String {
        assert!(self.success(), "exit status {}\n{}\n{}", self.status, self.stdout, self.stderr);
        self.stdout
    }
}

/// Looks again and again until what is seen satisfies.
pub(crate) fn look_until<T: std::fmt::Debug>(
    limit: Duration,
    doing: impl Fn() -> String,
    mut look: impl FnMut() -> Result<T, Error>,
    enough: impl Fn(&T) -> bool,
) -> Result<T, Error> {
    let deadline = Instant::now() + limit;
    loop {
        let seen = look()?;
        if enough(&seen) {
            return Ok(seen);
        }
        if Instant::now() > deadline {
            return Err(Error::TimedOut { doing: doing(), limit, said: format!("{seen:?}") });
        }
        std::thread::sleep(PAUSE);
    }
}

/// Runs a command to its end, which is its killing when the limit has passed.
pub fn run(command: &mut Command, limit: Duration) -> Result<Output, Error> {
    let doing = format!("running {command:?}");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(Error::system(&doing))?;
    let stdout = drain(child.stdout.take().expect("piped"));
    let stderr = drain(child.stderr.take().expect("piped"));
    let deadline = Instant::now() + limit;
    let status = loop {
        match child.try_wait().map_err(Error::system(&doing))? {
            Some(status) => break Some(status),
            None if Instant::now() > deadline => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            None => std::thread::sleep(PAUSE),
        }
    };
    let Some(status) = status else {
        // Not joined: a grandchild may hold the pipes open.
        return Err(Error::TimedOut { doing, limit, said: String::new() });
    };
    let text = |thread: JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&thread.join().unwrap_or_default()).into_owned()
    };
    Ok(Output { status: exit_code(status), stdout: text(stdout), stderr: text(stderr) })
}

fn exit_code(status: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

fn drain(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        bytes
    })
}

/// The command that makes a process die with the thread that starts it, should this one be killed.
pub(crate) fn tied(program: &std::path::Path, needs: &mut Requirements) -> Command {
    let mut command = Command::new(needs.program("setpriv", "util-linux"));
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// A process and all that it has said. Killed when dropped.
///
/// What is waited for comes on standard output; the other stream is kept apart, so that it cannot come
/// between two characters of a prompt.
pub(crate) struct Process {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    log: Arc<Log>,
}

#[derive(Default)]
struct Log {
    text: Mutex<Said>,
    more: Condvar,
}

#[derive(Default)]
struct Said {
    text: [String; 2],
    /// Which pipes are still open.
    open: [bool; 2],
}

const OUT: usize = 0;
const ERR: usize = 1;

impl Said {
    fn all(&self) -> String {
        self.text.concat()
    }
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, Said> {
        self.text.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn follow(self: Arc<Self>, stream: usize, mut from: impl Read + Send + 'static) {
        self.lock().open[stream] = true;
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                let count = from.read(&mut buffer).unwrap_or(0);
                let mut said = self.lock();
                match count {
                    0 => said.open[stream] = false,
                    _ => said.text[stream].push_str(&String::from_utf8_lossy(&buffer[..count])),
                }
                self.more.notify_all();
                if count == 0 {
                    return;
                }
            }
        });
    }
}

impl Process {
    /// Starts it with pipes to and from it.
    pub(crate) fn start(name: impl Into<String>, command: &mut Command) -> Result<Self, Error> {
        let name = name.into();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(Error::system(format!("starting {command:?}")))?;
        let log = Arc::new(Log::default());
        log.clone().follow(OUT, child.stdout.take().expect("piped"));
        log.clone().follow(ERR, child.stderr.take().expect("piped"));
        Ok(Self { name, stdin: child.stdin.take(), child, log })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Everything said so far: standard output, then standard error.
    pub(crate) fn said(&self) -> String {
        self.log.lock().all()
    }

    /// The length of the standard output so far, bytes: where to look from for what comes next.
    pub(crate) fn mark(&self) -> usize {
        self.log.lock().text[OUT].len()
    }

    pub(crate) fn write(&mut self, text: &str) -> Result<(), Error> {
        use std::io::Write;
        let stdin = self.stdin.as_mut().expect("open until the end");
        stdin.write_all(text.as_bytes()).map_err(Error::system(format!("telling {} {text:?}", self.name)))
    }

    /// Waits until what came on standard output after `mark` ends the wait with a value.
    pub(crate) fn wait_for<T>(
        &self,
        what: &str,
        mark: usize,
        limit: Duration,
        mut found: impl FnMut(&str) -> Option<T>,
    ) -> Result<T, Error> {
        self.wait(what, limit, |said| found(&said[OUT][mark..]))
    }

    /// Waits until standard error ends the wait with a value.
    pub(crate) fn wait_for_log<T>(
        &self,
        what: &str,
        limit: Duration,
        mut found: impl FnMut(&str) -> Option<T>,
    ) -> Result<T, Error> {
        self.wait(what, limit, |said| found(&said[ERR]))
    }

    fn wait<T>(
        &self,
        what: &str,
        limit: Duration,
        mut found: impl FnMut(&[String; 2]) -> Option<T>,
    ) -> Result<T, Error> {
        let deadline = Instant::now() + limit;
        let mut said = self.log.lock();
        loop {
            if let Some(value) = found(&said.text) {
                return Ok(value);
            }
            let doing = || format!("waiting for {what} of {}", self.name);
            if said.open == [false; 2] {
                return Err(Error::refused(doing(), format!("it has ended: {}", tail(&said.all()))));
            }
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return Err(Error::TimedOut { doing: doing(), limit, said: tail(&said.all()) });
            };
            said = self.log.more.wait_timeout(said, left).unwrap_or_else(|p| p.into_inner()).0;
        }
    }

    /// How it ended, waited for a moment: for an error's text.
    pub(crate) fn ending(&self) -> String {
        // The child cannot be waited for through a shared reference; its last output can.
        let _ = self.wait_for("the end", 0, Duration::from_secs(5), |_| None::<()>);
        tail(&self.said())
    }

    /// Whether it runs still.
    pub(crate) fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Lets it end by itself within the limit; its exit status. Killed otherwise, which is an error.
    pub(crate) fn end(&mut self, limit: Duration) -> Result<i32, Error> {
        self.stdin = None;
        let deadline = Instant::now() + limit;
        loop {
            let doing = format!("ending {}", self.name);
            match self.child.try_wait().map_err(Error::system(&doing))? {
                Some(status) => return Ok(exit_code(status)),
                None if Instant::now() > deadline => {
                    return Err(Error::TimedOut { doing, limit, said: tail(&self.said()) });
                }
                None => std::thread::sleep(PAUSE),
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The last lines, for an error's text.
pub(crate) fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.trim().lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
