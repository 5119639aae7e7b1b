//! Captures as a port, for debugging: frames are read from one file and written to another.
//!
//! A capture is read into memory before it is replayed, and its frames are sent from that memory. A recording has
//! nanoseconds, complete checksums and no frames to segment. Each burst is in the file as soon as it was accepted, so
//! nothing is left to write when the process ends. A write that fails ends the recording and is logged once. It
//! affects no other port.
mod claim;
mod header;
mod interface;
mod load;
mod obsolete;
mod options;
mod patience;
pub mod pcapng;
mod record;
mod replay;

#[cfg(test)]
mod tests;

use std::fs::{File, Metadata};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use frame::{PairCounters, QueueCounters, QueueError, Side};
use rustix::fs::OFlags;

pub use self::claim::FileClaim;
pub use self::options::{PcapOptions, Rounds, Timing};
use self::record::Record;
use self::replay::Replay;
use crate::{Port, PortContext, PortError, Token};

/// A capture to replay, a recording, or both, as a port of one queue pair.
#[derive(Debug)]
pub struct Pcap {
    options: PcapOptions,
    counters: PairCounters,
    replayed: Option<FileClaim>,
    recorded: Option<FileClaim>,
}

impl Pcap {
    /// A port with these options. No file is read or written yet. From now on no other port can record to the capture
    /// that this port will replay, whichever port is started first.
    pub fn new(options: PcapOptions) -> Self {
        // Errors are reported at the start.
        let replayed = options.replay.as_deref().and_then(|path| FileClaim::replay(path).ok());
        Pcap { options, counters: PairCounters::default(), replayed, recorded: None }
    }

    fn open_recording(&mut self, path: &Path) -> Result<Record, PortError> {
        let failed = |why: std::io::Error, remedy| {
            PortError::new(format!("record to {}", path.display()), why, remedy)
        };
        let unwritable =
            |why| failed(why, "name a file that this user may write, on a file system with room");
        let of = path.to_owned();
        let opened = patience::ask(move || open_to_record(&of));
        let (metadata, file) = opened.map_err(unwritable)?;
        let claim = FileClaim::record(&metadata).map_err(|why| failed(why, "name another file"))?;
        self.recorded = Some(claim);
        file.set_len(0).map_err(unwritable)?;
        let counters = Arc::clone(&self.counters.to_guest);
        Record::new(file, self.options.snapshot_bytes, counters).map_err(unwritable)
    }
}

/// Creates or opens the regular file of a recording. Other kinds are refused: in a folder where other users may
/// write, a symbolic link could lead to any file, and a pipe without a reader would block the worker.
fn open_to_record(path: &Path) -> std::io::Result<(Metadata, File)> {
    let other =
        |what: &str| std::io::Error::other(format!("it is {what}, and only a regular file is written to"));
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as libc::c_int)
        .open(path)
        .map_err(|error| match error.raw_os_error() {
            Some(libc::ELOOP) => other("a symbolic link"),
            Some(libc::ENXIO) => other("a pipe or socket"),
            _ => error,
        })?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(other("a pipe or device"));
    }
    Ok((metadata, file))
}

impl Port for Pcap {
    fn queue_pairs(&self) -> u16 {
        1
    }

    fn describe(&self) -> String {
        let replay = self.options.replay.as_ref().map(|path| format!("replay {}", path.display()));
        let record = self.options.record.as_ref().map(|path| format!("record to {}", path.display()));
        let both: Vec<String> = [replay, record].into_iter().flatten().collect();
        format!("pcap, {}", both.join(", "))
    }

    fn counters(&self, pair: u16, side: Side) -> Option<Arc<QueueCounters>> {
        (pair == 0).then(|| Arc::clone(self.counters.of(side)))
    }

    fn start(&mut self, context: &mut dyn PortContext) -> Result<(), PortError> {
        // The capture first: if it cannot be read, no recording is begun.
        let replay = match &self.options.replay {
            None => None,
            Some(path) => {
                let what = || format!("replay {}", path.display());
                let claim = FileClaim::replay(path)
                    .map_err(|error| PortError::new(what(), error, "name another file"));
                let capture = Arc::new(load::load(path)?);
                self.replayed = Some(claim?);
                for what in &capture.left_out {
                    context.log(&format_args!("{}: {what}", path.display()));
                }
                let counters = Arc::clone(&self.counters.from_guest);
                let replay = Replay::new(capture, self.options.rounds, self.options.timing, counters);
                Some(replay.map_err(|error| PortError::new(what(), error, "raise the limit of open files"))?)
            }
        };
        let record = self.options.record.clone().map(|path| self.open_recording(&path)).transpose()?;
        if let Some(replay) = replay {
            context.attach_source(0, Box::new(replay));
        }
        if let Some(record) = record {
            context.attach_sink(0, Box::new(record));
        }
        Ok(())
    }

    fn ready(&mut self, _token: Token, _board: &mut dyn PortContext) -> Result<(), PortError> {
        Ok(())
    }

    fn stopped(&mut self, _pair: u16, side: Side, why: QueueError, context: &mut dyn PortContext) {
        let what = self.describe();
        let remedy = match side {
            Side::FromGuest => "start the port again",
            Side::ToGuest => "what was recorded so far is whole; make room and start the port again",
        };
        context.log(&format_args!("{what}: stopped: {why}; {remedy}"));
    }

    fn end(&mut self, context: &mut dyn PortContext) {
        context.detach_source(0);
        context.detach_sink(0);
        (self.replayed, self.recorded) = (None, None);
    }
}
