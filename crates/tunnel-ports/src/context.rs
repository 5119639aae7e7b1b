//! The context in which the TAP of an underlay works: its sinks take frames for tunnels out.
use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use frame::{Sink, Source};
use port::{Context, Interest, PortContext, SharedFd, Token};
use virtio::net::MacAddress;

use crate::fragments::Waiting;
use crate::terminator::Terminator;

/// The context of the TAP of an underlay.
pub(crate) struct TapContext<'a> {
    pub inner: &'a mut dyn PortContext,
    /// The name of the TAP.
    pub name: &'a str,
    /// The fragments that wait for the rest of their packets.
    pub waiting: &'a Arc<Waiting>,
}

impl Context for TapContext<'_> {
    fn watch(&mut self, token: Token, fd: &SharedFd, interest: Interest) -> io::Result<()> {
        self.inner.watch(token, fd, interest)
    }

    fn unwatch(&mut self, token: Token) {
        self.inner.unwatch(token);
    }

    fn after(&mut self, token: Token, time: Duration) {
        self.inner.after(token, time);
    }

    fn log(&mut self, message: &dyn Display) {
        self.inner.log(message);
    }
}

impl PortContext for TapContext<'_> {
    fn attach_source(&mut self, pair: u16, source: Box<dyn Source>) {
        self.inner.attach_source(pair, source);
    }

    fn attach_sink(&mut self, pair: u16, sink: Box<dyn Sink>) {
        match Terminator::new(self.name, sink, self.waiting) {
            Ok(terminator) => self.inner.attach_sink(pair, Box::new(terminator)),
            Err(error) => self.inner.log(&format_args!(
                "underlay {}: memory for the heads of frames: {error}; free some memory and add the port again",
                self.name
            )),
        }
    }

    fn detach_source(&mut self, pair: u16) -> Option<Box<dyn Source>> {
        self.inner.detach_source(pair)
    }

    fn detach_sink(&mut self, pair: u16) -> Option<Box<dyn Sink>> {
        self.inner.detach_sink(pair)
    }

    fn announce(&mut self, address: MacAddress) {
        self.inner.announce(address);
    }
}
