//! What ports are lent: queues go to workers and come back, descriptors and times are watched.
use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use port::{Interest, Lending, Plugboard, Side, Sink, Source, Token};
use virtio::net::MacAddress;

use crate::crew::{Crew, PlacedSink};
use crate::mailbox::Generation;
use crate::plan::Plan;
use crate::poller::Poller;
use crate::table::Refused;
use crate::worker::Common;
use crate::{PortId, QueueId, announce};

/// First key of what ports watch; those below are the switch's own.
pub(crate) const FIRST_WATCH: u64 = 2;

type Held = BTreeMap<QueueId, (Generation, Box<dyn Source>)>;

struct Watch {
    key: u64,
    /// A duplicate, so that it can be taken out of the set whatever its owner did.
    fd: OwnedFd,
}

/// Everything that is plugged in and watched, for all ports.
pub(crate) struct Hub {
    pub crew: Crew,
    pub common: Arc<Common>,
    pub poller: Poller,
    plan: Plan,
    /// What is plugged in, as its port knows it; the worker may already have reported that it stopped.
    plugged: BTreeMap<(QueueId, Side), Generation>,
    sinks: BTreeMap<QueueId, PlacedSink>,
    /// Sources wait here until all ports have started, so that their first frames find their receivers.
    held: Option<Held>,
    watches: BTreeMap<(PortId, Token), Watch>,
    keys: HashMap<u64, (PortId, Token)>,
    timers: BTreeMap<(PortId, Token), Instant>,
    /// Said and not yet passed on.
    pub said: Vec<(PortId, String)>,
    next: u64,
}

impl Hub {
    pub fn new(crew: Crew, common: Arc<Common>, poller: Poller, plan: Plan) -> Self {
        Hub {
            crew,
            common,
            poller,
            plan,
            plugged: BTreeMap::new(),
            sinks: BTreeMap::new(),
            held: Some(BTreeMap::new()),
            watches: BTreeMap::new(),
            keys: HashMap::new(),
            timers: BTreeMap::new(),
            said: Vec::new(),
            next: FIRST_WATCH,
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// All ports have started: frames may come.
    pub fn open(&mut self) {
        for (id, (generation, source)) in self.held.take().unwrap_or_default() {
            self.add_source(id, generation, source);
        }
    }

    fn add_source(&mut self, id: QueueId, generation: Generation, source: Box<dyn Source>) {
        match &mut self.held {
            Some(held) => _ = held.insert(id, (generation, source)),
            None => self.crew.add_source(self.plan.source(id.port, id.pair), id, generation, source),
        }
    }

    /// Who watches under this key; nobody any more, perhaps.
    pub fn watcher(&self, key: u64) -> Option<(PortId, Token)> {
        self.keys.get(&key).copied()
    }

    /// When the next timer is over.
    pub fn next_timer(&self) -> Option<Instant> {
        self.timers.values().min().copied()
    }

    /// A timer that is over, once.
    pub fn due(&mut self, now: Instant) -> Option<(PortId, Token)> {
        let due = self.timers.iter().find(|(_, at)| **at <= now).map(|(of, _)| *of)?;
        self.timers.remove(&due);
        Some(due)
    }

    /// A queue has stopped by itself. False if its port has unplugged it meanwhile.
    pub fn stopped(&mut self, id: QueueId, side: Side, generation: Generation) -> bool {
        if self.plugged.get(&(id, side)) != Some(&generation) {
            return false;
        }
        // What is left of it may still be with other workers.
        match side {
            Side::FromGuest => drop(self.take_source(id)),
            Side::ToGuest => drop(self.take_sink(id)),
        }
        true
    }

    /// Removes all that a port has left behind.
    pub fn clear(&mut self, port: PortId) {
        let left: Vec<_> = self.plugged.keys().filter(|(id, _)| id.port == port).copied().collect();
        for (id, side) in left {
            match side {
                Side::FromGuest => drop(self.take_source(id)),
                Side::ToGuest => drop(self.take_sink(id)),
            }
        }
        let tokens: Vec<_> = self.watches.keys().filter(|(of, _)| *of == port).copied().collect();
        tokens.into_iter().for_each(|of| self.unwatch(of));
        self.timers.retain(|(of, _), _| *of != port);
    }

    fn unwatch(&mut self, of: (PortId, Token)) {
        if let Some(watch) = self.watches.remove(&of) {
            self.keys.remove(&watch.key);
            // It is in the set as long as the duplicate is open.
            let _ = self.poller.remove(&watch.fd);
        }
    }

    fn take_source(&mut self, id: QueueId) -> Option<Box<dyn Source>> {
        self.plugged.remove(&(id, Side::FromGuest))?;
        let held = self.held.as_mut().and_then(|held| held.remove(&id)).map(|(_, source)| source);
        let source = held.or_else(|| self.crew.take_source(self.plan.source(id.port, id.pair), id));
        self.forget_if_down(id.port);
        source
    }

    fn take_sink(&mut self, id: QueueId) -> Option<Box<dyn Sink>> {
        self.plugged.remove(&(id, Side::ToGuest))?;
        let placed = self.sinks.remove(&id);
        let sink = placed.and_then(|placed| self.crew.take_sink(id, placed));
        self.arrange(id.port, BTreeMap::new());
        self.forget_if_down(id.port);
        sink
    }

    /// Gives all sinks of a port, the new ones included, to the workers that the plan names.
    ///
    /// A sink that changes hands is away for a moment; frames for it are dropped then and counted as
    /// "receiver not connected".
    fn arrange(&mut self, port: PortId, mut new: BTreeMap<u16, (Generation, Box<dyn Sink>)>) {
        let there = self.sinks.keys().filter(|id| id.port == port).map(|id| id.pair);
        let mut pairs: Vec<u16> = there.chain(new.keys().copied()).collect();
        pairs.sort_unstable();
        let places = self.plan.sinks(port, pairs.len());
        // First all that move are taken, then given: nobody ever has one that belongs to another.
        for (pair, place) in pairs.iter().zip(&places) {
            let id = QueueId { port, pair: *pair };
            if self.sinks.get(&id).is_some_and(|placed| placed.place != *place)
                && let Some(placed) = self.sinks.remove(&id)
            {
                let generation = placed.generation;
                // One that has stopped is gone; its report is on the way.
                if let Some(sink) = self.crew.take_sink(id, placed) {
                    new.insert(*pair, (generation, sink));
                }
            }
        }
        for (pair, place) in pairs.into_iter().zip(places) {
            if let Some((generation, sink)) = new.remove(&pair) {
                let id = QueueId { port, pair };
                self.sinks.insert(id, self.crew.add_sink(place, id, generation, sink));
            }
        }
    }

    /// A port without a queue has nobody behind it.
    fn forget_if_down(&self, port: PortId) {
        if !self.plugged.keys().any(|(id, _)| id.port == port) {
            self.common.table.flush(port);
        }
    }
}

/// What one port is lent for one call.
pub(crate) struct Board<'a> {
    pub hub: &'a mut Hub,
    pub port: PortId,
}

impl Board<'_> {
    fn id(&self, pair: u16) -> QueueId {
        QueueId { port: self.port, pair }
    }
}

impl Plugboard for Board<'_> {
    fn plug_source(&mut self, pair: u16, source: Box<dyn Source>) {
        let id = self.id(pair);
        drop(self.hub.take_source(id));
        let generation = Generation(self.hub.number());
        self.hub.plugged.insert((id, Side::FromGuest), generation);
        self.hub.add_source(id, generation, source);
    }

    fn plug_sink(&mut self, pair: u16, sink: Box<dyn Sink>) {
        let id = self.id(pair);
        drop(self.hub.take_sink(id));
        let generation = Generation(self.hub.number());
        self.hub.plugged.insert((id, Side::ToGuest), generation);
        self.hub.arrange(id.port, BTreeMap::from([(pair, (generation, sink))]));
    }

    fn unplug_source(&mut self, pair: u16) -> Option<Box<dyn Source>> {
        self.hub.take_source(self.id(pair))
    }

    fn unplug_sink(&mut self, pair: u16) -> Option<Box<dyn Sink>> {
        self.hub.take_sink(self.id(pair))
    }

    fn watch(&mut self, token: Token, fd: BorrowedFd<'_>, interest: Interest) -> io::Result<()> {
        let of = (self.port, token);
        // Always afresh: the descriptor may be another one than before.
        self.hub.unwatch(of);
        let fd = fd.try_clone_to_owned()?;
        let key = self.hub.number();
        self.hub.poller.add(&fd, key, interest)?;
        self.hub.watches.insert(of, Watch { key, fd });
        self.hub.keys.insert(key, of);
        Ok(())
    }

    fn unwatch(&mut self, token: Token) {
        self.hub.unwatch((self.port, token));
    }

    fn after(&mut self, token: Token, time: Duration) {
        // Further away than the clock reaches is never.
        if let Some(at) = Instant::now().checked_add(time) {
            self.hub.timers.insert((self.port, token), at);
        }
    }

    fn announce(&mut self, address: MacAddress) {
        let rules = &self.hub.common.rules[usize::from(self.port.0)];
        let allowed = rules.addresses.as_ref().is_none_or(|allowed| allowed.contains(&address));
        if address.is_group() || !allowed {
            return self
                .say(&format_args!("announced {address}, which may not be behind this port: ignored"));
        }
        match Lending::of_frame(&announce::frame(address)) {
            Ok(frame) => {
                if let Err(refused) = self.hub.common.table.learn(address, self.port) {
                    let why = match refused {
                        Refused::Owned => "is another port's own",
                        Refused::Held => "moves too often",
                    };
                    return self.say(&format_args!("announced {address}, which {why}: ignored"));
                }
                self.hub.crew.flood(self.hub.plan.source(self.port, 0), self.port, frame);
            }
            Err(error) => self.say(&format_args!("cannot announce {address}: {error}")),
        }
    }

    fn say(&mut self, message: &dyn Display) {
        self.hub.said.push((self.port, message.to_string()));
    }
}
