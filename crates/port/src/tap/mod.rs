//! The kernel's own network stack at the other end: a TAP interface in the network namespace that the
//! process runs in.
//!
//! Frames go to the kernel straight from the memory that their sender put them in, and come from it with
//! their offloads: checksums and segments are left to whoever receives them. The kernel takes and gives
//! one frame with each system call; there is no batch.
//!
//! An interface that is there already is used and stays; one that is made here goes with the last
//! descriptor, so with the process, however that ends.
mod interface;
mod offloads;
mod open;
mod options;
mod sink;
mod source;
mod sys;

use std::os::fd::AsFd;
use std::sync::Arc;

use virtio::net::Accepts;

pub use self::options::{MAX_QUEUE_PAIRS, NotAPrefix, Prefix, TapOptions};
use self::sink::{LAYOUT, TapSink};
use self::source::TapSource;
use crate::{Plugboard, Port, PortError, QueueCounters, QueueError, Side, Token};

/// A TAP interface as a port.
#[derive(Debug)]
pub struct Tap {
    options: TapOptions,
    counters: Vec<[Arc<QueueCounters>; 2]>,
    /// Since it was opened.
    accepts: Option<Accepts>,
    /// Since then a queue has stopped, and people were told.
    has_stopped: bool,
}

impl Tap {
    /// Nothing is opened yet.
    pub fn new(options: TapOptions) -> Self {
        let counters = (0..options.queue_pairs).map(|_| Default::default()).collect();
        Tap { options, counters, accepts: None, has_stopped: false }
    }
}

impl Port for Tap {
    fn queue_pairs(&self) -> u16 {
        self.options.queue_pairs
    }

    fn describe(&self) -> String {
        let name = &self.options.name;
        let Some(accepts) = self.accepts else { return format!("tap {name}, not open") };
        let offloads = match accepts {
            Accepts { udp_segments: true, .. } => "checksums, TSO and USO",
            Accepts { checksum: true, .. } => "checksums and TSO",
            _ => "nothing",
        };
        format!("tap {name}, {} queue pairs, {offloads} left to do", self.options.queue_pairs)
    }

    fn counters(&self, pair: u16, side: Side) -> Option<Arc<QueueCounters>> {
        self.counters.get(usize::from(pair)).map(|both| Arc::clone(&both[side as usize]))
    }

    fn start(&mut self, board: &mut dyn Plugboard) -> Result<(), PortError> {
        let queues = open::queues(&self.options)?;
        let name = &self.options.name;
        let failed = |what: &str, remedy: &'static str| {
            let what = format!("{what} of TAP {name}");
            move |error: std::io::Error| PortError::new(what, error, remedy)
        };
        let recent = "run a kernel with net headers of 12 bytes, Linux 2.6.34 or later";
        for queue in &queues {
            let set = sys::set_header_bytes(queue.as_fd(), LAYOUT.bytes());
            set.map_err(failed("set the header length", recent))?;
        }
        let first = queues.first().map(|queue| offloads::negotiate(queue.as_fd(), self.options.offloads));
        let accepts = first.unwrap_or(Ok(Accepts::NOTHING)).map_err(failed("set the offloads", recent))?;
        let mut plugs = Vec::new();
        for (queue, [from, to]) in queues.into_iter().map(Arc::new).zip(&self.counters) {
            let source = TapSource::new(Arc::clone(&queue), Arc::clone(from));
            let sink = TapSink::new(queue, accepts, Arc::clone(to));
            let memory = "free some memory, or lower queue-pairs";
            plugs.push((
                source.map_err(failed("allocate the buffers", memory))?,
                sink.map_err(failed("allocate the buffers", memory))?,
            ));
        }
        for (pair, (source, sink)) in (0..).zip(plugs) {
            board.plug_source(pair, Box::new(source));
            board.plug_sink(pair, Box::new(sink));
        }
        (self.accepts, self.has_stopped) = (Some(accepts), false);
        Ok(())
    }

    fn ready(&mut self, _token: Token, _board: &mut dyn Plugboard) -> Result<(), PortError> {
        Ok(())
    }

    fn stopped(&mut self, pair: u16, side: Side, why: QueueError, board: &mut dyn Plugboard) {
        // An interface that was removed stops all queues at once.
        if !std::mem::replace(&mut self.has_stopped, true) {
            let name = &self.options.name;
            let remedy = "if the interface was removed, start the port again";
            board.say(&format_args!("tap {name}: queue pair {pair} stopped ({side:?}): {why}; {remedy}"));
        }
    }

    fn end(&mut self, board: &mut dyn Plugboard) {
        for pair in 0..self.options.queue_pairs {
            board.unplug_source(pair);
            board.unplug_sink(pair);
        }
        self.accepts = None;
    }
}
