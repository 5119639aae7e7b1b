//! Frames of a port into a file, by a thread of its own: neither the control thread nor a worker waits for a disk.
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread::JoinHandle;
use std::time::Duration;

use port::pcap::pcapng;
use port::{Frame, QueueCounters, Side, Source};
use serde_json::json;
use switch::{Copied, CopiesId};

use super::protocol::Outcome;
use crate::frame_filter::{Filter, HEADER_BYTES, Headers};
use crate::switch_command::sandbox;

/// Between two looks at queues that had nothing: shorter than their rings take to fill at a million frames a second.
const PAUSE: Duration = Duration::from_micros(500);

/// Frames of one queue at a time.
const BURST: usize = 256;

/// What is captured.
pub struct Options {
    /// End after so many.
    pub count: Option<u64>,
    /// Bytes of each.
    pub snaplen: u32,
    /// Only those; all otherwise.
    pub filter: Option<Filter>,
}

/// A capture that was begun.
pub struct Capture {
    pub copies: CopiesId,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Capture {
    /// Begins; at its end the thread tells `tell` what came of it.
    pub fn start(
        copies: CopiesId,
        copied: Receiver<Copied>,
        options: Options,
        file: OwnedFd,
        mut tell: UnixStream,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let run = move || {
            sandbox::confine_writer();
            let outcome = match record(&copied, &options, file.into(), &stopped) {
                Ok(Recorded { captured, dropped, port_is_gone }) => Outcome::Ok(json!({
                    "schema": "tautline-ctl/1",
                    "captured": captured,
                    "dropped": dropped,
                    "port_is_gone": port_is_gone,
                })),
                Err(error) => {
                    Outcome::Error(format!("writing the capture: {error}; see that the disk has room"))
                }
            };
            // Nobody may be there any more.
            let _ = tell.write_all(&outcome.line());
        };
        let thread = std::thread::Builder::new().name("capture".to_owned()).spawn(run)?;
        Ok(Capture { copies, stop, thread })
    }

    /// Ends when all copies so far are written.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub fn runs(&self) -> bool {
        !self.thread.is_finished()
    }
}

/// One queue, and its interface in the file.
struct Queue {
    side: Side,
    interface: u32,
    source: port::in_memory::InMemorySource,
    counters: Arc<QueueCounters>,
}

/// What came of it.
struct Recorded {
    captured: u64,
    /// For want of room.
    dropped: u64,
    /// Its port was removed before the end, or the switch has ended.
    port_is_gone: bool,
}

fn record(
    copied: &Receiver<Copied>,
    options: &Options,
    file: File,
    stop: &AtomicBool,
) -> io::Result<Recorded> {
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let (mut bytes, mut start) = (Vec::new(), Vec::with_capacity(HEADER_BYTES));
    pcapng::section(&mut bytes);
    out.write_all(&bytes)?;
    let mut queues: Vec<Queue> = Vec::new();
    let (mut captured, mut port_is_gone) = (0, false);
    let is_done = |captured: u64| options.count.is_some_and(|count| captured >= count);
    while !is_done(captured) {
        // In this order: whoever ends the capture lets go of the other end only then.
        let disconnected = loop {
            let Copied { pair, side, source, counters } = match copied.try_recv() {
                Ok(copied) => copied,
                Err(why) => break why == TryRecvError::Disconnected,
            };
            bytes.clear();
            let direction = if side == Side::FromGuest { "from guest" } else { "to guest" };
            pcapng::interface(&mut bytes, &format!("{direction}, queue pair {pair}"), options.snaplen);
            out.write_all(&bytes)?;
            queues.push(Queue { side, interface: queues.len() as u32, source, counters });
        };
        let is_told = stop.load(Ordering::Relaxed);
        port_is_gone = disconnected && !is_told;
        let ends = disconnected || is_told;
        let mut moved = false;
        for queue in &mut queues {
            bytes.clear();
            let left = options.count.map_or(usize::MAX, |count| (count - captured) as usize);
            let batch = queue.source.rx_burst(BURST.min(left)).map_err(io::Error::other)?;
            for frame in batch.frames() {
                if options.filter.as_ref().is_some_and(|filter| !matches(filter, &frame, &mut start)) {
                    continue;
                }
                captured += 1;
                let from_guest = queue.side == Side::FromGuest;
                pcapng::frame(&mut bytes, queue.interface, &frame, from_guest, options.snaplen);
            }
            moved |= !batch.is_empty();
            queue.source.release();
            out.write_all(&bytes)?;
            if is_done(captured) {
                break;
            }
        }
        if !moved {
            if ends {
                break;
            }
            // Who reads the file meanwhile sees whole records.
            out.flush()?;
            std::thread::sleep(PAUSE);
        }
    }
    let dropped = queues.iter().map(|queue| queue.counters.counts().dropped()).sum();
    bytes.clear();
    for queue in &queues {
        pcapng::statistics(&mut bytes, queue.interface, queue.counters.counts().dropped());
    }
    out.write_all(&bytes)?;
    out.flush()?;
    Ok(Recorded { captured, dropped, port_is_gone: port_is_gone && !is_done(captured) })
}

fn matches(filter: &Filter, frame: &Frame<'_>, start: &mut Vec<u8>) -> bool {
    start.clear();
    pcapng::start_of(frame, frame.len_bytes().min(HEADER_BYTES), start);
    filter.matches(&Headers::read(start, frame.len_bytes()))
}
