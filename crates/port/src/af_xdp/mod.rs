//! A network card as peer, without the kernel's network stack: AF_XDP sockets, one for each queue
//! (Documentation/networking/af_xdp.rst). A veth can be used too, in copy mode.
//!
//! Frames are received in memory that the kernel or the card filled, and are copied into memory that is sent from.
//! That is one copy in all if the driver supports it (`native-with-zerocopy`). Otherwise the kernel makes one more
//! copy in each direction. AF_XDP frames carry no offloads: the switch's copy completes what a guest left to be done.
//!
//! Descriptors hold the program that redirects an interface's frames, the sockets and the interface's promiscuous
//! mode. All of these end with the process, even if it is killed.
mod open;
mod options;
mod ring;
mod sink;
mod socket;
mod source;
mod unsent;
mod vlan;

use std::sync::Arc;

use frame::{PairCounters, QueueCounters, QueueError, Side};
use linux::interface::Interface;
use linux::xdp::XdpMode;

use self::open::{LinkEvents, Open};
pub use self::options::{AfXdpOptions, MAX_QUEUE_PAIRS, XdpModeOption};
use self::sink::AfXdpSink;
use self::socket::Socket;
use self::source::AfXdpSource;
use crate::{Interest, Port, PortContext, PortError, Token};

/// Interfaces come and go.
const LINK: Token = Token(0);

/// An interface's queues as a port. If the interface is removed and created again, the port opens it again.
#[derive(Debug)]
pub struct AfXdp {
    options: AfXdpOptions,
    counters: Vec<PairCounters>,
    events: Option<LinkEvents>,
    state: State,
}

#[derive(Debug)]
enum State {
    Closed,
    Open {
        interface: u32,
        mode: XdpMode,
        /// Dropped before the sockets, so that the next user of the queues finds the interface restored.
        _held: open::Held,
        sockets: Vec<Arc<Socket>>,
    },
    /// The interface was removed or a queue has stopped, and this was logged.
    Lost,
}

impl AfXdp {
    /// A port with these options. Nothing is opened yet.
    pub fn new(options: AfXdpOptions) -> Self {
        let counters = (0..options.queue_pairs).map(|_| Default::default()).collect();
        AfXdp { options, counters, events: None, state: State::Closed }
    }

    fn attach(&mut self, context: &mut dyn PortContext) -> Result<(), PortError> {
        let Open { interface, mode, queues, held, warning } = open::open(&self.options)?;
        if let Some(warning) = warning {
            context.log(&warning);
        }
        let mut sockets = Vec::new();
        for ((pair, queue), PairCounters { from_guest: from, to_guest: to }) in
            (0..).zip(queues).zip(&self.counters)
        {
            sockets.push(Arc::clone(&queue.socket));
            let (socket, from) = (Arc::clone(&queue.socket), Arc::clone(from));
            let source = AfXdpSource::new(socket, &queue.memory, queue.received, queue.fill, from);
            let sink = AfXdpSink::new(
                queue.socket,
                queue.memory,
                queue.to_send,
                queue.completed,
                queue.sizes,
                Arc::clone(to),
            );
            context.attach_source(pair, Box::new(source));
            context.attach_sink(pair, Box::new(sink));
        }
        self.state = State::Open { interface, mode, sockets, _held: held };
        Ok(())
    }

    fn detach(&mut self, context: &mut dyn PortContext) {
        for pair in 0..self.options.queue_pairs {
            context.detach_source(pair);
            context.detach_sink(pair);
        }
    }

    fn now(&self) -> Option<u32> {
        Interface::named(&self.options.interface).and_then(|interface| interface.index()).ok()
    }

    /// An interface was made, changed or removed: maybe ours.
    fn look(&mut self, context: &mut dyn PortContext) {
        let (now, name) = (self.now(), self.options.interface.clone());
        match self.state {
            State::Open { interface, .. } if now != Some(interface) => {
                self.detach(context);
                self.state = State::Lost;
                context
                    .log(&format_args!("af-xdp {name}: it was removed; make it again, and it is used again"));
            }
            State::Closed | State::Open { .. } => {}
            State::Lost => {}
        }
        if matches!(self.state, State::Lost) && now.is_some() {
            self.detach(context);
            // Another program may still be setting the interface up: the next event is another chance.
            if self.attach(context).is_ok() {
                context.log(&format_args!("af-xdp {name}: it is there again, and used again"));
            }
        }
    }
}

impl Port for AfXdp {
    fn queue_pairs(&self) -> u16 {
        self.options.queue_pairs
    }

    fn describe(&self) -> String {
        let AfXdpOptions { interface, queue_pairs, start_queue, .. } = &self.options;
        let (mode, sockets) = match &self.state {
            State::Closed => return format!("af-xdp {interface}, not open"),
            State::Lost => return format!("af-xdp {interface}, removed"),
            State::Open { mode, sockets, .. } => (mode, sockets),
        };
        let mode = match mode {
            XdpMode::Native => "native",
            XdpMode::Generic => "generic",
        };
        let copies = match sockets.iter().all(|socket| socket.is_zero_copy()) {
            true => "zero copy",
            false => "copied by the kernel",
        };
        let last = start_queue + queue_pairs - 1;
        let mut text = format!("af-xdp {interface}, queues {start_queue} to {last}, {mode}, {copies}");
        let statistics: Vec<_> = sockets.iter().filter_map(|socket| socket.statistics()).collect();
        let full: u64 = statistics.iter().filter_map(|one| one.rx_ring_full).sum();
        let dropped: u64 = statistics.iter().map(|one| one.rx_dropped).sum();
        for (count, why) in
            [(full, "no room was left in a ring"), (dropped, "too long, or no buffer was left")]
        {
            if count > 0 {
                text += &format!(", {count} frames dropped by the kernel ({why})");
            }
        }
        text
    }

    fn interface(&self) -> Option<&str> {
        Some(&self.options.interface)
    }

    fn counters(&self, pair: u16, side: Side) -> Option<Arc<QueueCounters>> {
        Some(Arc::clone(self.counters.get(usize::from(pair))?.of(side)))
    }

    fn start(&mut self, context: &mut dyn PortContext) -> Result<(), PortError> {
        let watched = LinkEvents::open().and_then(|events| {
            context.watch(LINK, events.shared(), Interest::Readable)?;
            Ok(events)
        });
        let remedy = "raise the limit of open files (ulimit -n)";
        let events =
            watched.map_err(|error| PortError::new("watch interfaces come and go", error, remedy))?;
        self.events = Some(events);
        self.attach(context)
    }

    fn ready(&mut self, _token: Token, context: &mut dyn PortContext) -> Result<(), PortError> {
        if let Some(events) = &self.events {
            events.forget();
        }
        self.look(context);
        Ok(())
    }

    fn stopped(&mut self, pair: u16, side: Side, why: QueueError, context: &mut dyn PortContext) {
        // Queues never stop by themselves; a thread that never came back takes one along.
        self.detach(context);
        self.state = State::Lost;
        let name = &self.options.interface;
        context.log(&format_args!("af-xdp {name}: queue pair {pair} stopped ({side:?}): {why}"));
        self.look(context);
    }

    fn end(&mut self, context: &mut dyn PortContext) {
        self.detach(context);
        self.state = State::Closed;
        if self.events.is_some() {
            context.unwatch(LINK);
            self.events = None;
        }
    }
}
