//! Writes frames of a port to a file, in a separate thread: neither the control thread nor a worker waits for a disk.
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread::JoinHandle;
use std::time::Duration;

use control::protocol::{Outcome, SCHEMA};
use frame::{Frame, QueueCounters, Side, Source};
use port::pcap::{FileClaim, pcapng};
use serde_json::json;
use switch::{Copied, CopiesId};

use super::passed_file::PassedFile;
use crate::frame_filter::{Filter, HEADER_BYTES};
use crate::sandbox;

/// Pause after a poll that found no frame: shorter than a ring takes to fill at a million frames a second.
const PAUSE: Duration = Duration::from_micros(500);

/// Frames of one queue at a time.
const BURST: usize = 256;

/// The selection of captured frames.
pub struct Options {
    /// The number of frames after which the capture ends.
    pub count: Option<u64>,
    /// The number of bytes of each frame that are written.
    pub snaplen: u32,
    /// Which frames are written; none for all.
    pub filter: Option<Filter>,
}

/// A capture that was begun.
pub struct Capture {
    pub copies: CopiesId,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Capture {
    /// Starts a thread that writes the frames to the file. At its end the thread writes the outcome to `tell`.
    ///
    /// # Errors
    /// The thread cannot be started. An error of the file is the capture's outcome instead.
    pub fn start(
        copies: CopiesId,
        copied: Receiver<Copied>,
        options: Options,
        file: PassedFile,
        mut tell: UnixStream,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let run = move || {
            let outcome = match claimed(file) {
                Err(error) => Outcome::Error(error.to_string()),
                Ok((file, _claim)) => {
                    sandbox::confine_writer();
                    match record(&copied, &options, file, &stopped) {
                        Ok(Recorded { captured, dropped, port_is_gone }) => Outcome::Ok(json!({
                            "schema": SCHEMA,
                            "captured": captured,
                            "dropped": dropped,
                            "port_is_gone": port_is_gone,
                        })),
                        Err(error) => Outcome::Error(format!(
                            "writing the capture: {error}; see that the disk has room"
                        )),
                    }
                }
            };
            // The client may be gone.
            let _ = tell.write_all(&outcome.line());
        };
        let thread = std::thread::Builder::new().name("capture".to_owned()).spawn(run)?;
        Ok(Capture { copies, stop, thread })
    }

    /// Makes the capture end once all copies so far are written.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub fn runs(&self) -> bool {
        !self.thread.is_finished()
    }
}

/// Claims and truncates the file, if it is a regular one. Its file system may block the calling thread.
fn claimed(file: PassedFile) -> io::Result<(File, FileClaim)> {
    let file = File::from(file.into_fd());
    let metadata = file.metadata()?;
    // A pipe without a reader would block the thread for ever.
    if !metadata.is_file() {
        return Err(io::Error::other("a capture goes to a regular file"));
    }
    let used = |error| io::Error::other(format!("writing the capture: {error}; name another file"));
    let claim = FileClaim::record(&metadata).map_err(used)?;
    file.set_len(0)?;
    Ok((file, claim))
}

/// One queue, and its interface in the file.
struct Queue {
    pair: u16,
    side: Side,
    interface: u32,
    source: port::in_memory::InMemorySource,
    counters: Arc<QueueCounters>,
    /// Copies that the earlier rings dropped.
    dropped: u64,
}

impl Queue {
    /// Copies that found no room.
    fn dropped(&self) -> u64 {
        self.dropped + self.counters.counts().dropped()
    }
}

/// The result of a capture.
#[derive(Debug, PartialEq)]
struct Recorded {
    captured: u64,
    /// Frames that found no room.
    dropped: u64,
    /// Whether the port was removed, or the switch ended, before the end of the capture.
    port_is_gone: bool,
}

/// The file, and the counts of its frames.
struct Recording<'a> {
    options: &'a Options,
    out: BufWriter<File>,
    queues: Vec<Queue>,
    captured: u64,
    /// A record on its way.
    bytes: Vec<u8>,
    /// The first bytes of a frame.
    start: Vec<u8>,
}

impl<'a> Recording<'a> {
    fn new(options: &'a Options, file: File) -> io::Result<Self> {
        let mut out = BufWriter::with_capacity(1 << 20, file);
        let mut bytes = Vec::new();
        pcapng::section(&mut bytes);
        out.write_all(&bytes)?;
        let start = Vec::with_capacity(HEADER_BYTES);
        Ok(Recording { options, out, queues: Vec::new(), captured: 0, bytes, start })
    }

    fn is_done(&self) -> bool {
        self.options.count.is_some_and(|count| self.captured >= count)
    }

    /// Adds a queue, or replaces the ring of a queue that is already recorded: the former ring gets no more copies.
    fn add(&mut self, copied: Copied) -> io::Result<()> {
        let Copied { pair, side, source, counters } = copied;
        if let Some(at) = self.queues.iter().position(|queue| (queue.pair, queue.side) == (pair, side)) {
            while self.take(at)? {}
            let queue = &mut self.queues[at];
            queue.dropped = queue.dropped();
            (queue.source, queue.counters) = (source, counters);
            return Ok(());
        }
        let interface = self.queues.len() as u32;
        self.bytes.clear();
        let direction = if side == Side::FromGuest { "from guest" } else { "to guest" };
        let name = format!("{direction}, queue pair {pair}");
        pcapng::interface(&mut self.bytes, &name, self.options.snaplen);
        self.out.write_all(&self.bytes)?;
        self.queues.push(Queue { pair, side, interface, source, counters, dropped: 0 });
        Ok(())
    }

    /// Writes some copies of a queue; whether there were any.
    fn take(&mut self, at: usize) -> io::Result<bool> {
        let queue = &mut self.queues[at];
        self.bytes.clear();
        let left = self.options.count.map_or(usize::MAX, |count| (count - self.captured) as usize);
        let batch = queue.source.rx_burst(BURST.min(left)).map_err(io::Error::other)?;
        for frame in batch.frames() {
            let filter = self.options.filter.as_ref();
            if filter.is_some_and(|filter| !matches(filter, &frame, &mut self.start)) {
                continue;
            }
            self.captured += 1;
            let from_guest = queue.side == Side::FromGuest;
            pcapng::frame(&mut self.bytes, queue.interface, &frame, from_guest, self.options.snaplen);
        }
        let moved = !batch.is_empty();
        queue.source.release();
        self.out.write_all(&self.bytes)?;
        Ok(moved)
    }

    fn end(mut self, port_is_gone: bool) -> io::Result<Recorded> {
        self.bytes.clear();
        for queue in &self.queues {
            pcapng::statistics(&mut self.bytes, queue.interface, queue.dropped());
        }
        self.out.write_all(&self.bytes)?;
        self.out.flush()?;
        Ok(Recorded {
            captured: self.captured,
            dropped: self.queues.iter().map(Queue::dropped).sum(),
            port_is_gone: port_is_gone && !self.is_done(),
        })
    }
}

fn record(
    copied: &Receiver<Copied>,
    options: &Options,
    file: File,
    stop: &AtomicBool,
) -> io::Result<Recorded> {
    let mut recording = Recording::new(options, file)?;
    let mut port_is_gone = false;
    while !recording.is_done() {
        // The flag is read first: the thread that ends the capture sets the flag before it drops the other end.
        let disconnected = loop {
            match copied.try_recv() {
                Ok(copied) => recording.add(copied)?,
                Err(why) => break why == TryRecvError::Disconnected,
            }
        };
        let is_told = stop.load(Ordering::Relaxed);
        port_is_gone = disconnected && !is_told;
        let mut moved = false;
        for at in 0..recording.queues.len() {
            moved |= recording.take(at)?;
            if recording.is_done() {
                break;
            }
        }
        if !moved {
            if disconnected || is_told {
                break;
            }
            // A reader of the file sees whole records meanwhile.
            recording.out.flush()?;
            std::thread::sleep(PAUSE);
        }
    }
    recording.end(port_is_gone)
}

fn matches(filter: &Filter, frame: &Frame<'_>, start: &mut Vec<u8>) -> bool {
    start.clear();
    pcapng::start_of(frame, frame.len_bytes().min(HEADER_BYTES), start);
    filter.matches(start, frame.len_bytes())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};
    use std::sync::mpsc::sync_channel;

    use frame::{FrameBatch, Sink};
    use port::in_memory::{QueueOptions, queue};

    use super::*;

    /// Queues `rings` rings of one queue, each with room for four copies and with `frames` frames.
    fn rings(rings: u8, frames: usize) -> Receiver<Copied> {
        let (feed, copied) = sync_channel(rings.into());
        for round in 0..rings {
            let (mut sink, source) = queue(QueueOptions { slots: 4, ..QueueOptions::default() }).unwrap();
            let frame = FrameBatch::of_frame(&[round; 60]).unwrap();
            (0..frames).for_each(|_| sink.accept(&frame, &[0]).unwrap());
            let counters = Arc::clone(sink.counters());
            feed.send(Copied { pair: 1, side: Side::FromGuest, source, counters }).unwrap();
        }
        copied
    }

    /// A guest that breaks its ring and starts it again gets another ring of copies each time.
    #[test]
    fn a_queue_that_comes_again_is_the_same_interface() {
        // One more than each takes.
        let copied = rings(3, 5);
        let mut file = tempfile::tempfile().unwrap();
        let options = Options { count: None, snaplen: 65_535, filter: None };
        let written = file.try_clone().unwrap();
        let recorded = record(&copied, &options, written, &AtomicBool::new(false)).unwrap();
        assert_eq!(recorded, Recorded { captured: 12, dropped: 3, port_is_gone: true });
        file.rewind().unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        let name = b"from guest, queue pair 1";
        assert_eq!(bytes.windows(name.len()).filter(|bytes| bytes == name).count(), 1);
        // And no more than asked for, wherever the rings end.
        let options = Options { count: Some(3), ..options };
        let recorded = record(&rings(2, 4), &options, tempfile::tempfile().unwrap(), &AtomicBool::new(false));
        assert_eq!(recorded.unwrap().captured, 3);
    }
}
