//! Somebody to run a port: keeps its queues, and what it says.
use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use port::{Interest, Plugboard, Port, PortError, Sink, Source, Token};
use virtio::net::MacAddress;

#[derive(Default)]
pub struct Board {
    pub sources: BTreeMap<u16, Box<dyn Source>>,
    pub sinks: BTreeMap<u16, Box<dyn Sink>>,
    pub said: Vec<String>,
}

impl Board {
    pub fn start(port: &mut impl Port) -> Result<Board, PortError> {
        let mut board = Board::default();
        port.start(&mut board)?;
        Ok(board)
    }
}

impl Plugboard for Board {
    fn plug_source(&mut self, pair: u16, source: Box<dyn Source>) {
        assert!(self.sources.insert(pair, source).is_none());
    }

    fn plug_sink(&mut self, pair: u16, sink: Box<dyn Sink>) {
        assert!(self.sinks.insert(pair, sink).is_none());
    }

    fn unplug_source(&mut self, pair: u16) -> Option<Box<dyn Source>> {
        self.sources.remove(&pair)
    }

    fn unplug_sink(&mut self, pair: u16) -> Option<Box<dyn Sink>> {
        self.sinks.remove(&pair)
    }

    fn watch(&mut self, _: Token, _: BorrowedFd<'_>, _: Interest) -> io::Result<()> {
        Ok(())
    }

    fn unwatch(&mut self, _: Token) {}

    fn after(&mut self, _: Token, _: Duration) {}

    fn announce(&mut self, _: MacAddress) {}

    fn say(&mut self, message: &dyn std::fmt::Display) {
        self.said.push(message.to_string());
    }
}
