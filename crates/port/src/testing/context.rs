//! A port context for tests: queues by pair, `poll` over the watched descriptors, and a function that moves a burst
//! as a worker does.
use std::collections::BTreeMap;
use std::time::Duration;

use frame::{QueueError, Side, Sink, Source};
use virtio::net::MacAddress;

use crate::{Context, Interest, Port, PortContext, SharedFd, Token, Watches};

/// The most frames that [`TestContext::forward`] moves.
pub const BURST: usize = 32;

/// The queues, descriptors, log lines and announcements of a port.
#[derive(Default)]
pub struct TestContext {
    /// The attached sources, by pair.
    pub sources: BTreeMap<u16, Box<dyn Source>>,
    /// The attached sinks, by pair.
    pub sinks: BTreeMap<u16, Box<dyn Sink>>,
    /// The log lines, in order.
    pub logged: Vec<String>,
    /// The announced addresses, in order.
    pub announced: Vec<MacAddress>,
    watches: Watches,
}

impl TestContext {
    /// Nothing attached.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of descriptors that are watched.
    pub fn watched(&self) -> usize {
        self.watches.descriptors()
    }

    /// Waits at most for `timeout` until a descriptor is ready or a timer expires, and calls the port for it. Returns
    /// false if nothing happened.
    pub fn turn(&mut self, port: &mut dyn Port, timeout: Duration) -> bool {
        let ready = Watches::wait([&mut self.watches], timeout).expect("poll works");
        for (_, token) in &ready {
            port.ready(*token, self).expect("the port goes on");
        }
        !ready.is_empty()
    }

    /// Moves one burst from pair `from` of this context to pair `to` of another as a worker does; returns
    /// how many frames were received. A queue that stops is detached, and its port is informed.
    pub fn forward(&mut self, port: &mut dyn Port, from: u16, to: (&mut Self, &mut dyn Port, u16)) -> usize {
        let (to_board, to_port, to) = to;
        let Some(source) = self.sources.get_mut(&from) else { return 0 };
        let (received, accepted) = match source.rx_burst(BURST) {
            Ok(batch) => {
                let which: Vec<u16> = (0..batch.len() as u16).collect();
                let sink = to_board.sinks.get_mut(&to);
                (Ok(batch.len()), sink.map_or(Ok(()), |sink| sink.accept(batch, &which)))
            }
            Err(error) => (Err(error), Ok(())),
        };
        if source.needs_release() {
            source.release();
        }
        if let Err(error) = accepted {
            to_board.sinks.remove(&to);
            to_port.stopped(to, Side::ToGuest, error, to_board);
        }
        match received {
            Ok(count) => count,
            Err(error) => {
                self.stop_source(port, from, error);
                0
            }
        }
    }

    fn stop_source(&mut self, port: &mut dyn Port, pair: u16, error: QueueError) {
        self.sources.remove(&pair);
        port.stopped(pair, Side::FromGuest, error, self);
    }
}

impl Context for TestContext {
    fn watch(&mut self, token: Token, fd: &SharedFd, interest: Interest) -> std::io::Result<()> {
        self.watches.watch(token, fd, interest)
    }

    fn unwatch(&mut self, token: Token) {
        self.watches.unwatch(token);
    }

    fn after(&mut self, token: Token, time: Duration) {
        self.watches.after(token, time);
    }

    fn log(&mut self, message: &dyn std::fmt::Display) {
        self.logged.push(message.to_string());
    }
}

impl PortContext for TestContext {
    fn attach_source(&mut self, pair: u16, source: Box<dyn Source>) {
        assert!(self.sources.insert(pair, source).is_none(), "source {pair} was attached already");
    }

    fn attach_sink(&mut self, pair: u16, sink: Box<dyn Sink>) {
        assert!(self.sinks.insert(pair, sink).is_none(), "sink {pair} was attached already");
    }

    fn detach_source(&mut self, pair: u16) -> Option<Box<dyn Source>> {
        let mut source = self.sources.remove(&pair)?;
        if source.needs_release() {
            source.release();
        }
        Some(source)
    }

    fn detach_sink(&mut self, pair: u16) -> Option<Box<dyn Sink>> {
        self.sinks.remove(&pair)
    }

    fn announce(&mut self, address: MacAddress) {
        self.announced.push(address);
    }
}
