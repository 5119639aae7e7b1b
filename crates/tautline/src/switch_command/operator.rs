//! Signals: SIGINT, SIGTERM and SIGHUP end the switch, SIGUSR1 prints how it stands.
use std::fmt::Display;
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use switch::{Operator, Snapshot, View};

use super::non_blocking_writer::NonBlockingWriter;

/// Whoever sends signals to this process.
pub struct Signals {
    wake_read: UnixStream,
    end: Arc<AtomicBool>,
    show: Arc<AtomicBool>,
    json: bool,
    out: NonBlockingWriter,
    log: NonBlockingWriter,
}

impl Signals {
    /// From now on signals are heard here.
    pub fn catch(json: bool) -> std::io::Result<Self> {
        let (wake_read, wake_write) = UnixStream::pair()?;
        wake_read.set_nonblocking(true)?;
        wake_write.set_nonblocking(true)?;
        let (end, show) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        // The flag first: handlers run in the order in which they were registered.
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&end))?;
            signal_hook::low_level::pipe::register(signal, wake_write.try_clone()?)?;
        }
        signal_hook::flag::register(SIGUSR1, Arc::clone(&show))?;
        signal_hook::low_level::pipe::register(SIGUSR1, wake_write.try_clone()?)?;
        // A signal between the two registrations has set its flag and rung no wake_read.
        (&wake_write).write_all(&[0])?;
        let (out, log) = (NonBlockingWriter::stdout()?, NonBlockingWriter::stderr()?);
        Ok(Signals { wake_read, end, show, json, out, log })
    }
}

impl Signals {
    /// Puts out how a switch stands, unless earlier ones still wait to be read.
    fn show(&self, snapshot: &Snapshot) {
        match text(snapshot, self.json) {
            Ok(text) => self.out.put(|dropped| {
                if dropped > 0 {
                    let what = "snapshots were left out, for nobody read the standard output";
                    self.log.line(&format!("tautline: {dropped} {what}"));
                }
                text
            }),
            Err(error) => self.log.line(&format!("tautline: {error:#}")),
        }
    }

    /// The last snapshot; then all that waits is written, for as long as it is read.
    pub fn finish(&self, last: &Snapshot) -> anyhow::Result<()> {
        self.show(last);
        let shown = self.out.finish().context("writing to the standard output");
        // Nobody is left to tell.
        let _ = self.log.finish();
        shown
    }
}

impl Operator for Signals {
    fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake_read.as_fd()
    }

    fn handle_wake(&mut self, switch: &View<'_>) -> ControlFlow<()> {
        while matches!(self.wake_read.read(&mut [0; 64]), Ok(1..)) {}
        if self.show.swap(false, Ordering::Relaxed) {
            self.show(&switch.snapshot());
        }
        match self.end.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn log(&mut self, port: &str, message: &dyn Display) {
        self.log.line(&format!("{port}: {message}"));
    }
}

/// How a switch stands, for people or for programs (one line of JSON).
fn text(snapshot: &Snapshot, json: bool) -> anyhow::Result<String> {
    Ok(match json {
        true => serde_json::to_string(snapshot)? + "\n",
        false => snapshot.to_string(),
    })
}
