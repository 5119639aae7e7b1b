//! The control side of a port, and the context in which it works.
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use frame::{QueueCounters, QueueError, Side, Sink, Source};
use virtio::Features;
use virtio::net::MacAddress;

use crate::{Context, PortError, PortState, Token};

/// A queue that is given to the workers or comes back from them.
pub enum Queue {
    /// A queue of [`Side::FromGuest`].
    Source(Box<dyn Source>),
    /// A queue of [`Side::ToGuest`].
    Sink(Box<dyn Sink>),
}

/// Services of the program that runs a port. They are the services for any device ([`Context`], which calls
/// [`Port::ready`]), and queues. An attached queue belongs to a worker; detaching waits until the worker has released
/// it, between two bursts.
pub trait PortContext: Context {
    /// Attaches the source of queue pair `pair`: frames come from it from now on.
    fn attach_source(&mut self, pair: u16, source: Box<dyn Source>);

    /// Attaches the sink of queue pair `pair`: frames go to it from now on.
    fn attach_sink(&mut self, pair: u16, sink: Box<dyn Sink>);

    /// Takes a source back, after its last batch was released. `None` if none is attached.
    fn detach_source(&mut self, pair: u16) -> Option<Box<dyn Source>>;

    /// Takes a sink back. `None` if none is attached.
    fn detach_sink(&mut self, pair: u16) -> Option<Box<dyn Sink>>;

    /// Attaches several queues, each to its pair. Each worker gets one message in place of one for each queue.
    fn attach(&mut self, queues: Vec<(u16, Queue)>) {
        for (pair, queue) in queues {
            match queue {
                Queue::Source(source) => self.attach_source(pair, source),
                Queue::Sink(sink) => self.attach_sink(pair, sink),
            }
        }
    }

    /// Takes several queues back, in this order. Each worker gets one message in place of one for each queue. `None`
    /// for each that is not attached.
    fn detach(&mut self, which: &[(u16, Side)]) -> Vec<Option<Queue>> {
        let detach = |(pair, side): &(u16, Side)| match side {
            Side::FromGuest => self.detach_source(*pair).map(Queue::Source),
            Side::ToGuest => self.detach_sink(*pair).map(Queue::Sink),
        };
        which.iter().map(detach).collect()
    }

    /// Changes an attached sink between two bursts. Returns false and does nothing if no sink is attached or its
    /// workers do not release it.
    fn change_sink(&mut self, pair: u16, how: SinkChange<'_>) -> bool {
        let Some(mut sink) = self.detach_sink(pair) else { return false };
        how(&mut *sink);
        self.attach_sink(pair, sink);
        true
    }

    /// Announces that a station is behind this port now (RARP, a guest that has migrated).
    fn announce(&mut self, address: MacAddress);
}

/// A change of a sink.
pub type SinkChange<'a> = Box<dyn FnOnce(&mut dyn Sink) + 'a>;

/// The control side of a port. One thread calls all of its functions.
pub trait Port: Any + Send {
    /// The largest number of queue pairs.
    fn queue_pairs(&self) -> u16;

    /// The kind and state of the port in one line of text: kind, path, whether connected, features.
    fn describe(&self) -> String;

    /// Features agreed on with the peer; `None` if there is no peer or the kind of port has no features.
    fn features(&self) -> Option<Features> {
        None
    }

    /// The name of the system's network interface that the port is, if it is one.
    fn interface(&self) -> Option<&str> {
        None
    }

    /// The name of the system's network interface by which the frames of a tunnel leave, if there is a route.
    fn egress(&self) -> Option<String> {
        None
    }

    /// Whether frames arrive at the port's other end, as far as the port knows: false for a tunnel whose session with the
    /// other end is not up.
    fn forwards(&self) -> bool {
        true
    }

    /// The state of the session that checks the path to the other end of a tunnel, in the words of Open vSwitch's column
    /// `bfd_status`; empty without a session.
    fn session(&self) -> BTreeMap<&'static str, String> {
        BTreeMap::new()
    }

    /// Counters of one queue; they outlive reconnections.
    fn counters(&self, pair: u16, side: Side) -> Option<Arc<QueueCounters>>;

    /// Starts the port, which then listens, connects or opens a device.
    ///
    /// # Errors
    /// The port cannot listen, connect or open its device; it is not started.
    fn start(&mut self, context: &mut dyn PortContext) -> Result<(), PortError>;

    /// Called when a watched descriptor is ready, or when a timer has expired.
    ///
    /// # Errors
    /// The port cannot continue and is ended. Mistakes of a peer are not errors of the port.
    fn ready(&mut self, token: Token, context: &mut dyn PortContext) -> Result<(), PortError>;

    /// Called after a queue has stopped by itself. The queue is detached already.
    fn stopped(&mut self, pair: u16, side: Side, why: QueueError, context: &mut dyn PortContext);

    /// Stops the port and returns the state that another process needs to continue it. The state does not change
    /// until [`Port::leave`] or [`Port::resume`] is called. Ports that return `None` start afresh in the other
    /// process.
    ///
    /// # Errors
    /// The port's state cannot be handed over. [`Port::resume`] is called then.
    fn hand_over(&mut self, _context: &mut dyn PortContext) -> Result<Option<PortState>, PortError> {
        Ok(None)
    }

    /// Continues after [`Port::hand_over`], because the other process did not.
    fn resume(&mut self, _context: &mut dyn PortContext) {}

    /// Continues the port of another process from its state.
    ///
    /// # Errors
    /// The state cannot be read, or the port cannot continue from it.
    fn take_over(&mut self, _state: PortState, context: &mut dyn PortContext) -> Result<(), PortError> {
        self.start(context)
    }

    /// Gives up all that [`Port::hand_over`] has passed to another process, without notifying the peer.
    fn leave(&mut self) {}

    /// Ends the port: detaches all queues and removes what the port has made.
    fn end(&mut self, context: &mut dyn PortContext);
}
