//! A port context that one thread turns by hand.
use std::collections::BTreeMap;
use std::fmt::Display;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use frame::{Sink, Source};
use port::{Context, Interest, Port, PortContext, SharedFd, Token};
use rustix::event::{Timespec, epoll};
use virtio::net::MacAddress;

use super::soon;

pub struct TestContext {
    epoll: OwnedFd,
    watched: BTreeMap<u32, SharedFd>,
    timers: BTreeMap<u32, Instant>,
    pub sources: BTreeMap<u16, Box<dyn Source>>,
    pub sinks: BTreeMap<u16, Box<dyn Sink>>,
    pub logged: Vec<String>,
}

impl TestContext {
    pub fn new() -> Self {
        TestContext {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).unwrap(),
            watched: BTreeMap::new(),
            timers: BTreeMap::new(),
            sources: BTreeMap::new(),
            sinks: BTreeMap::new(),
            logged: Vec::new(),
        }
    }

    /// Tells the port what has happened, waiting a moment for it if it must.
    pub fn turn(&mut self, port: &mut dyn Port) {
        self.turn_for(port, Duration::from_millis(1));
    }

    /// Tells the port what has happened.
    pub fn turn_now(&mut self, port: &mut dyn Port) {
        self.turn_for(port, Duration::ZERO);
    }

    fn turn_for(&mut self, port: &mut dyn Port, moment: Duration) {
        let mut events = Vec::with_capacity(16);
        let moment = Timespec { tv_sec: 0, tv_nsec: moment.subsec_nanos().into() };
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&moment)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => panic!("{errno}"),
        }
        for event in events {
            let token = event.data.u64() as u32;
            if self.watched.contains_key(&token) {
                port.ready(Token(token), self).unwrap();
            }
        }
        let now = Instant::now();
        let due: Vec<_> = self.timers.iter().filter(|(_, at)| **at <= now).map(|(token, _)| *token).collect();
        for token in due {
            self.timers.remove(&token);
            port.ready(Token(token), self).unwrap();
        }
    }

    pub fn watches_anything(&self) -> bool {
        !self.watched.is_empty()
    }

    /// Lets all timers end now.
    pub fn fast_forward(&mut self, port: &mut dyn Port) {
        for (token, _) in std::mem::take(&mut self.timers) {
            port.ready(Token(token), self).unwrap();
        }
    }

    /// Turns until it is so.
    pub fn until(&mut self, port: &mut dyn Port, what: &str, so: impl Fn(&TestContext, &dyn Port) -> bool) {
        let deadline = soon();
        while !so(self, port) {
            assert!(Instant::now() < deadline, "not {what}: {}; said {:?}", port.describe(), self.logged);
            self.turn(port);
        }
    }

    /// Turns until this many pairs are attached.
    pub fn until_attached(&mut self, port: &mut dyn Port, pairs: usize) {
        let attached = |context: &TestContext, _: &dyn Port| {
            context.sources.len() == pairs && context.sinks.len() == pairs
        };
        self.until(port, &format!("{pairs} pairs attached"), attached);
    }
}

impl Context for TestContext {
    fn watch(&mut self, token: Token, fd: &SharedFd, interest: Interest) -> std::io::Result<()> {
        self.unwatch(token);
        let flags = match interest {
            Interest::Readable => epoll::EventFlags::IN,
            Interest::ReadableOrWritable => epoll::EventFlags::IN | epoll::EventFlags::OUT,
            Interest::Writable => epoll::EventFlags::OUT,
        };
        let copy = fd.clone();
        epoll::add(&self.epoll, &copy, epoll::EventData::new_u64(token.0.into()), flags)?;
        self.watched.insert(token.0, copy);
        Ok(())
    }

    fn unwatch(&mut self, token: Token) {
        if let Some(copy) = self.watched.remove(&token.0) {
            epoll::delete(&self.epoll, &copy).unwrap();
        }
    }

    fn after(&mut self, token: Token, time: Duration) {
        self.timers.insert(token.0, Instant::now() + time);
    }

    fn log(&mut self, message: &dyn Display) {
        println!("{message}");
        self.logged.push(message.to_string());
    }
}

impl PortContext for TestContext {
    fn attach_source(&mut self, pair: u16, source: Box<dyn Source>) {
        assert!(self.sources.insert(pair, source).is_none(), "attached twice");
    }

    fn attach_sink(&mut self, pair: u16, sink: Box<dyn Sink>) {
        assert!(self.sinks.insert(pair, sink).is_none(), "attached twice");
    }

    fn detach_source(&mut self, pair: u16) -> Option<Box<dyn Source>> {
        self.sources.remove(&pair)
    }

    fn detach_sink(&mut self, pair: u16) -> Option<Box<dyn Sink>> {
        self.sinks.remove(&pair)
    }

    fn announce(&mut self, _: MacAddress) {}
}
