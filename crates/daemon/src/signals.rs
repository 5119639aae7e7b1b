//! Signals: SIGINT, SIGTERM and SIGHUP end the switch, SIGUSR1 prints its state. With a configuration file, SIGHUP
//! makes the switch read the file again.
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use switch::{Snapshot, View};

use crate::non_blocking_writer::NonBlockingWriter;

/// The schema of this version's snapshots.
const SCHEMA: &str = "tautline-switch/1";

/// The destinations of the switch's counters: the standard output, and a file.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Whether the standard output gets JSON.
    pub print_json: bool,
    /// The file.
    pub file: Option<CounterFile>,
}

/// A file that gets the counters.
#[derive(Clone, Debug)]
pub struct CounterFile {
    /// Its path.
    pub path: PathBuf,
    /// Whether the output gets JSON.
    pub is_json: bool,
}

/// The signals of this process, and where counters and log lines go.
pub struct Signals {
    wake_read: UnixStream,
    end: Arc<AtomicBool>,
    interrupted: Arc<AtomicBool>,
    show: Arc<AtomicBool>,
    /// SIGHUP came, and the switch has a configuration file to read again.
    reload: Arc<AtomicBool>,
    /// The text before each logged line: its priority, if a journal reads it.
    prefix: &'static str,
    outs: Vec<Out>,
    log: NonBlockingWriter,
}

/// Somewhere that counters go.
struct Out {
    writer: NonBlockingWriter,
    is_json: bool,
}

impl Signals {
    /// Installs the signal handlers, and opens the outputs of the counters.
    ///
    /// # Errors
    /// A handler, a descriptor or a thread is refused, or the file of the counters cannot be created.
    pub fn catch(counters: &Counters, reloads: bool) -> std::io::Result<Self> {
        let (wake_read, wake_write) = UnixStream::pair()?;
        wake_read.set_nonblocking(true)?;
        wake_write.set_nonblocking(true)?;
        let (end, interrupted, show, reload) = Default::default();
        // The flag first: handlers run in the order in which they were registered. SIGHUP last: once a process sees
        // that it is caught, all the others are caught too.
        signal_hook::flag::register(SIGUSR1, Arc::clone(&show))?;
        signal_hook::low_level::pipe::register(SIGUSR1, wake_write.try_clone()?)?;
        signal_hook::flag::register(SIGINT, Arc::clone(&interrupted))?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let flag = if signal == SIGHUP && reloads { &reload } else { &end };
            signal_hook::flag::register(signal, Arc::clone(flag))?;
            signal_hook::low_level::pipe::register(signal, wake_write.try_clone()?)?;
        }
        // A signal between the two registrations has set its flag, but not made `wake_read` readable.
        (&wake_write).write_all(&[0])?;
        let mut outs = vec![Out { writer: NonBlockingWriter::stdout()?, is_json: counters.print_json }];
        if let Some(CounterFile { path, is_json }) = &counters.file {
            let writer = NonBlockingWriter::file(std::fs::File::create(path)?)?;
            outs.push(Out { writer, is_json: *is_json });
        }
        Ok(Signals {
            wake_read,
            end,
            interrupted,
            show,
            reload,
            prefix: journal_prefix(),
            outs,
            log: NonBlockingWriter::stderr()?,
        })
    }
}

impl Signals {
    /// Writes a snapshot to each output, unless earlier ones still wait to be read.
    fn show(&self, snapshot: &Snapshot) {
        for out in &self.outs {
            match text(snapshot, out.is_json) {
                Ok(text) => out.writer.put(|dropped| {
                    if dropped > 0 {
                        let what = "snapshots were left out, because the standard output was not read";
                        self.log.line(&format!("tautline: {dropped} {what}"));
                    }
                    text
                }),
                Err(error) => self.log.line(&format!("tautline: {error}")),
            }
        }
    }

    /// Whether SIGINT has come. An orderly end of a service is asked for by SIGTERM.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Writes the last snapshot, and waits until all output is written, while it is read.
    ///
    /// # Errors
    /// A snapshot could not be written to the standard output or the file of `--output`.
    pub fn finish(&self, last: &Snapshot) -> std::io::Result<()> {
        self.show(last);
        let shown = self.outs.iter().try_for_each(|out| out.writer.finish());
        // The log itself failed: the error has no other output.
        let _ = self.log.finish();
        shown
    }
}

impl Signals {
    /// Becomes readable when a signal has come.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake_read.as_fd()
    }

    /// Returns what the received signals ask for. A snapshot is shown at once.
    pub fn take(&mut self, switch: &View<'_>) -> Told {
        while matches!(self.wake_read.read(&mut [0; 64]), Ok(1..)) {}
        if self.show.swap(false, Ordering::Relaxed) {
            self.show(&switch.snapshot());
        }
        match (self.end.load(Ordering::Relaxed), self.reload.swap(false, Ordering::Relaxed)) {
            (true, _) => Told::End,
            (false, true) => Told::Reload,
            (false, false) => Told::Nothing,
        }
    }

    /// Returns a function that logs a line from any thread.
    pub fn logger(&self) -> impl Fn(&str) + Send + 'static {
        let (prefix, log) = (self.prefix, self.log.clone());
        move |line| log.line(&format!("{prefix}{line}"))
    }

    /// Logs a line.
    pub fn log(&self, line: &str) {
        self.log.line(&format!("{}{line}", self.prefix));
    }
}

/// The requests of received signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Nothing,
    End,
    Reload,
}

/// systemd sets JOURNAL_STREAM for services; their log lines are notices (sd-daemon(3)).
fn journal_prefix() -> &'static str {
    if std::env::var_os("JOURNAL_STREAM").is_some() { "<5>" } else { "" }
}

/// A snapshot as a document.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    #[serde(flatten)]
    snapshot: &'a Snapshot,
}

/// The state of a switch, as text or as one line of JSON.
fn text(snapshot: &Snapshot, json: bool) -> serde_json::Result<String> {
    Ok(match json {
        true => serde_json::to_string(&Document { schema: SCHEMA, snapshot })? + "\n",
        false => snapshot.to_string(),
    })
}
