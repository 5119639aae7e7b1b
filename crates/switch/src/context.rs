//! What ports are lent: queues go to workers and come back, descriptors and times are watched.
use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use port::{FrameBatch, Interest, PortContext, Side, Sink, Source, Token};
use virtio::net::MacAddress;

use crate::mailbox::Generation;
use crate::poller::Poller;
use crate::queue_plan::QueuePlan;
use crate::table::Refused;
use crate::worker::Common;
use crate::worker_pool::{AssignedSink, WorkerPool};
use crate::{PortId, QueueId, announce};

/// First key of what ports watch; those below are the switch's own.
pub(crate) const FIRST_WATCH: u64 = 2;

type Held = BTreeMap<QueueId, (Generation, Box<dyn Source>)>;

struct Watch {
    key: u64,
    /// A duplicate, so that it can be taken out of the set whatever its owner did.
    fd: OwnedFd,
}

/// Everything that is attached and watched, for all ports.
pub(crate) struct Attachments {
    pub pool: WorkerPool,
    pub common: Arc<Common>,
    pub poller: Poller,
    plan: QueuePlan,
    /// What is attached, as its port knows it; the worker may already have reported that it stopped.
    attached: BTreeMap<(QueueId, Side), Generation>,
    sinks: BTreeMap<QueueId, AssignedSink>,
    /// Sources wait here until all ports have started, so that their first frames find their receivers.
    held: Option<Held>,
    watches: BTreeMap<(PortId, Token), Watch>,
    keys: HashMap<u64, (PortId, Token)>,
    timers: BTreeMap<(PortId, Token), Instant>,
    /// Said and not yet passed on.
    pub logged: Vec<(PortId, String)>,
    next: u64,
}

impl Attachments {
    pub fn new(pool: WorkerPool, common: Arc<Common>, poller: Poller, plan: QueuePlan) -> Self {
        Attachments {
            pool,
            common,
            poller,
            plan,
            attached: BTreeMap::new(),
            sinks: BTreeMap::new(),
            held: Some(BTreeMap::new()),
            watches: BTreeMap::new(),
            keys: HashMap::new(),
            timers: BTreeMap::new(),
            logged: Vec::new(),
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
            None => self.pool.add_source(self.plan.source(id.port, id.pair), id, generation, source),
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

    /// A queue has stopped by itself. False if its port has detached it meanwhile.
    pub fn stopped(&mut self, id: QueueId, side: Side, generation: Generation) -> bool {
        if self.attached.get(&(id, side)) != Some(&generation) {
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
        let left: Vec<_> = self.attached.keys().filter(|(id, _)| id.port == port).copied().collect();
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
        self.attached.remove(&(id, Side::FromGuest))?;
        let held = self.held.as_mut().and_then(|held| held.remove(&id)).map(|(_, source)| source);
        let source = held.or_else(|| self.pool.take_source(self.plan.source(id.port, id.pair), id));
        self.forget_if_down(id.port);
        source
    }

    fn take_sink(&mut self, id: QueueId) -> Option<Box<dyn Sink>> {
        self.attached.remove(&(id, Side::ToGuest))?;
        let assigned = self.sinks.remove(&id);
        let sink = assigned.and_then(|assigned| self.pool.take_sink(id, assigned));
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
            if self.sinks.get(&id).is_some_and(|assigned| assigned.assignment != *place)
                && let Some(assigned) = self.sinks.remove(&id)
            {
                let generation = assigned.generation;
                // One that has stopped is gone; its report is on the way.
                if let Some(sink) = self.pool.take_sink(id, assigned) {
                    new.insert(*pair, (generation, sink));
                }
            }
        }
        for (pair, place) in pairs.into_iter().zip(places) {
            if let Some((generation, sink)) = new.remove(&pair) {
                let id = QueueId { port, pair };
                self.sinks.insert(id, self.pool.add_sink(place, id, generation, sink));
            }
        }
    }

    /// A port without a queue has nobody behind it.
    fn forget_if_down(&self, port: PortId) {
        if !self.attached.keys().any(|(id, _)| id.port == port) {
            self.common.table.flush(port);
        }
    }
}

/// What one port is lent for one call.
pub(crate) struct SwitchContext<'a> {
    pub attachments: &'a mut Attachments,
    pub port: PortId,
}

impl SwitchContext<'_> {
    fn id(&self, pair: u16) -> QueueId {
        QueueId { port: self.port, pair }
    }
}

impl PortContext for SwitchContext<'_> {
    fn attach_source(&mut self, pair: u16, source: Box<dyn Source>) {
        let id = self.id(pair);
        drop(self.attachments.take_source(id));
        let generation = Generation(self.attachments.number());
        self.attachments.attached.insert((id, Side::FromGuest), generation);
        self.attachments.add_source(id, generation, source);
    }

    fn attach_sink(&mut self, pair: u16, sink: Box<dyn Sink>) {
        let id = self.id(pair);
        drop(self.attachments.take_sink(id));
        let generation = Generation(self.attachments.number());
        self.attachments.attached.insert((id, Side::ToGuest), generation);
        self.attachments.arrange(id.port, BTreeMap::from([(pair, (generation, sink))]));
    }

    fn detach_source(&mut self, pair: u16) -> Option<Box<dyn Source>> {
        self.attachments.take_source(self.id(pair))
    }

    fn detach_sink(&mut self, pair: u16) -> Option<Box<dyn Sink>> {
        self.attachments.take_sink(self.id(pair))
    }

    fn watch(&mut self, token: Token, fd: BorrowedFd<'_>, interest: Interest) -> io::Result<()> {
        let of = (self.port, token);
        // Always afresh: the descriptor may be another one than before.
        self.attachments.unwatch(of);
        let fd = fd.try_clone_to_owned()?;
        let key = self.attachments.number();
        self.attachments.poller.add(&fd, key, interest)?;
        self.attachments.watches.insert(of, Watch { key, fd });
        self.attachments.keys.insert(key, of);
        Ok(())
    }

    fn unwatch(&mut self, token: Token) {
        self.attachments.unwatch((self.port, token));
    }

    fn after(&mut self, token: Token, time: Duration) {
        // Further away than the clock reaches is never.
        if let Some(at) = Instant::now().checked_add(time) {
            self.attachments.timers.insert((self.port, token), at);
        }
    }

    fn announce(&mut self, address: MacAddress) {
        let rules = &self.attachments.common.rules[usize::from(self.port.0)];
        let allowed = rules.addresses.as_ref().is_none_or(|allowed| allowed.contains(&address));
        if address.is_group() || !allowed {
            return self
                .log(&format_args!("announced {address}, which may not be behind this port: ignored"));
        }
        match FrameBatch::of_frame(&announce::frame(address)) {
            Ok(frame) => {
                if let Err(refused) = self.attachments.common.table.learn(address, self.port) {
                    let why = match refused {
                        Refused::Owned => "is another port's own",
                        Refused::MovesTooOften => "moves too often",
                    };
                    return self.log(&format_args!("announced {address}, which {why}: ignored"));
                }
                self.attachments.pool.flood(self.attachments.plan.source(self.port, 0), self.port, frame);
            }
            Err(error) => self.log(&format_args!("cannot announce {address}: {error}")),
        }
    }

    fn log(&mut self, message: &dyn Display) {
        self.attachments.logged.push((self.port, message.to_string()));
    }
}
