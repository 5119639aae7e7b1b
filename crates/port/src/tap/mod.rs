//! The kernel's network stack as peer: a TAP interface in the network namespace of the process.
//!
//! Frames are written to the kernel directly from the sender's memory. Frames from the kernel carry its offloads:
//! checksums and segmentation are left to the receiver. The kernel transfers one frame with each system call; there
//! are no batches.
//!
//! An existing interface is used and kept. An interface that the port makes is removed with its last descriptor, and
//! therefore when the process ends, even if it is killed.
mod offloads;
mod open;
mod options;
mod patience;
mod sink;
mod source;
mod sys;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use frame::{PairCounters, QueueCounters, QueueError, Side};
use linux::interface::Interface;
use virtio::net::Accepts;

pub use self::options::{MAX_QUEUE_PAIRS, NotAPrefix, Prefix, TapOptions};
use self::sink::{LAYOUT, TapSink};
use self::source::TapSource;
use crate::{Port, PortContext, PortError, Token};

/// The time between two checks for an interface that was removed.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);
const RECHECK: Token = Token(0);

/// A TAP interface as a port. If the interface is removed and created again, the port opens it again.
#[derive(Debug)]
pub struct Tap {
    options: TapOptions,
    counters: Vec<PairCounters>,
    state: State,
}

#[derive(Debug)]
enum State {
    Closed,
    /// The interface is open. The kernel accepts these offloads unfinished.
    Open(Accepts),
    /// A queue has stopped because the interface was removed, and this was logged.
    Lost,
}

impl Tap {
    /// A port with these options. Nothing is opened yet.
    pub fn new(options: TapOptions) -> Self {
        let counters = (0..options.queue_pairs).map(|_| Default::default()).collect();
        Tap { options, counters, state: State::Closed }
    }

    /// Opens all queues, then attaches them.
    fn attach(&mut self, context: &mut dyn PortContext) -> Result<(), PortError> {
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
        for (queue, PairCounters { from_guest: from, to_guest: to }) in
            queues.into_iter().map(Arc::new).zip(&self.counters)
        {
            let source = TapSource::new(Arc::clone(&queue), Arc::clone(from));
            let sink = TapSink::new(queue, accepts, Arc::clone(to));
            let memory = "free some memory, or lower queue-pairs";
            plugs.push((
                source.map_err(failed("allocate the buffers", memory))?,
                sink.map_err(failed("allocate the buffers", memory))?,
            ));
        }
        for (pair, (source, sink)) in (0..).zip(plugs) {
            context.attach_source(pair, Box::new(source));
            context.attach_sink(pair, Box::new(sink));
        }
        self.state = State::Open(accepts);
        Ok(())
    }

    fn detach(&mut self, context: &mut dyn PortContext) {
        for pair in 0..self.options.queue_pairs {
            context.detach_source(pair);
            context.detach_sink(pair);
        }
    }

    /// Uses the interface again if it was made anew.
    fn reopen_if_back(&mut self, context: &mut dyn PortContext) {
        let name = self.options.name.clone();
        let is_there = Interface::named(&name).and_then(|interface| interface.index()).is_ok();
        if is_there {
            // The queues of the old interface are removed; the sinks have counted the lost frames.
            self.detach(context);
        }
        match is_there.then(|| self.attach(context)) {
            Some(Ok(())) => context.log(&format_args!("tap {name}: it is there again, and used again")),
            // Another program may still be setting the interface up: each check starts afresh.
            Some(Err(_)) | None => context.after(RECHECK, RECHECK_INTERVAL),
        }
    }
}

impl Port for Tap {
    fn queue_pairs(&self) -> u16 {
        self.options.queue_pairs
    }

    fn describe(&self) -> String {
        let name = &self.options.name;
        let offloads = match self.state {
            State::Closed => return format!("tap {name}, not open"),
            State::Lost => return format!("tap {name}, removed"),
            State::Open(Accepts { udp_segments: true, .. }) => "checksums, TSO and USO",
            State::Open(Accepts { checksum: true, .. }) => "checksums and TSO",
            State::Open(_) => "nothing",
        };
        format!("tap {name}, {} queue pairs, {offloads} left to do", self.options.queue_pairs)
    }

    fn interface(&self) -> Option<&str> {
        Some(&self.options.name)
    }

    fn counters(&self, pair: u16, side: Side) -> Option<Arc<QueueCounters>> {
        Some(Arc::clone(self.counters.get(usize::from(pair))?.of(side)))
    }

    fn start(&mut self, context: &mut dyn PortContext) -> Result<(), PortError> {
        self.attach(context)
    }

    fn ready(&mut self, _token: Token, context: &mut dyn PortContext) -> Result<(), PortError> {
        if let State::Lost = self.state {
            self.reopen_if_back(context);
        }
        Ok(())
    }

    fn stopped(&mut self, pair: u16, side: Side, why: QueueError, context: &mut dyn PortContext) {
        // An interface that was removed stops all queues at once.
        if !matches!(std::mem::replace(&mut self.state, State::Lost), State::Open(_)) {
            return;
        }
        let name = &self.options.name;
        let remedy = match self.options.descriptors.is_empty() {
            true if matches!(why, QueueError::Lost(_)) => {
                context.after(RECHECK, RECHECK_INTERVAL);
                "it is opened again".to_owned()
            }
            true => {
                context.after(RECHECK, RECHECK_INTERVAL);
                format!("make it again (ip tuntap add {name} mode tap multi_queue), and it is used again")
            }
            false => "start the port again, with a new descriptor".to_owned(),
        };
        context.log(&format_args!("tap {name}: queue pair {pair} stopped ({side:?}): {why}; {remedy}"));
    }

    fn end(&mut self, context: &mut dyn PortContext) {
        self.detach(context);
        self.state = State::Closed;
    }
}
