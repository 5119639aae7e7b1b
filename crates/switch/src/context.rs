//! Services for ports: queues are attached to workers and detached, descriptors and timers are watched.
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use frame::{FrameBatch, RingState, Side, Sink, Source};
use pipeline::{Announced, Refused};
use port::{Context, Interest, PortContext, Queue, SharedFd, SinkChange, Token};
use virtio::net::MacAddress;

use crate::copies::{self, Copied, CopiesId, Copying, Observer, Scope};
use crate::mailbox::Generation;
use crate::poller::Poller;
use crate::programs::Programs;
use crate::queue_plan::{QueueAssignment, QueuePlan};
use crate::resting::Resting;
use crate::shared_queue::{SharedQueue, Unclaimed};
use crate::worker_options::Common;
use crate::worker_pool::{AssignedSink, SinkMoves, WorkerPool};
use crate::{PortId, QueueId, announce};

/// The first key for descriptors of ports. Lower keys are the switch's own.
pub(crate) const FIRST_WATCH: u64 = 2;

type Held = BTreeMap<QueueId, (Generation, Box<dyn Source>)>;
/// Queues that were taken from their workers.
type Taken = BTreeMap<(QueueId, Side), Queue>;

struct Watch {
    key: u64,
    interest: Interest,
    /// A second reference, so that the descriptor can be removed from the set whatever its owner has done.
    fd: SharedFd,
}

/// Everything that is attached and watched, for all ports.
pub(crate) struct Attachments {
    pub pool: WorkerPool,
    pub common: Arc<Common>,
    programs: Programs,
    pub poller: Poller,
    /// The observers of ports.
    pub observers: Vec<Observer>,
    pub plan: QueuePlan,
    /// The attached queues, in the view of their ports. A worker may already have reported that a queue has stopped.
    attached: BTreeMap<(QueueId, Side), Generation>,
    sinks: BTreeMap<QueueId, AssignedSink>,
    /// Sources that wait here until all ports have started, so that their first frames find their receivers.
    held: Option<Held>,
    watches: BTreeMap<(PortId, Token), Watch>,
    keys: HashMap<u64, (PortId, Token)>,
    timers: BTreeMap<(PortId, Token), Instant>,
    resting: Resting,
    /// Log lines that are not passed on yet.
    pub logged: Vec<(PortId, String)>,
    next: u64,
}

impl Attachments {
    pub fn new(
        pool: WorkerPool,
        common: Arc<Common>,
        programs: Programs,
        poller: Poller,
        plan: QueuePlan,
    ) -> Self {
        Attachments {
            pool,
            common,
            programs,
            poller,
            observers: Vec::new(),
            plan,
            attached: BTreeMap::new(),
            sinks: BTreeMap::new(),
            held: Some(BTreeMap::new()),
            watches: BTreeMap::new(),
            keys: HashMap::new(),
            timers: BTreeMap::new(),
            resting: Resting::default(),
            logged: Vec::new(),
            next: FIRST_WATCH,
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Lets frames come, because all ports have started.
    pub fn open(&mut self) {
        for (id, (generation, source)) in self.held.take().unwrap_or_default() {
            self.add_source(id, generation, source);
        }
    }

    /// Takes all sources from the workers, between two bursts. No frame comes until [`Attachments::open`].
    pub fn close(&mut self) {
        let sources = self.attached.iter().filter(|((_, side), _)| *side == Side::FromGuest);
        let (which, generations): (Vec<_>, Vec<_>) = sources
            .map(|((id, _), generation)| ((self.plan.source(id.port, id.pair), *id), *generation))
            .unzip();
        let taken = self.pool.take_sources(&which).into_iter().zip(which.iter().zip(generations));
        self.held = Some(taken.filter_map(|(source, ((_, id), of))| Some((*id, (of, source?)))).collect());
    }

    /// Replaces the programs that decide about frames, and the plan of which workers send to a port.
    pub fn set_programs(&mut self, programs: Programs, plan: QueuePlan) {
        self.pool.set_programs(Arc::clone(&programs));
        (self.programs, self.plan) = (programs, plan);
        let ports: BTreeSet<PortId> = self.sinks.keys().map(|id| id.port).collect();
        ports.into_iter().for_each(|port| self.arrange(port, BTreeMap::new(), SinkMoves::default()));
    }

    /// Copies the frames that pass a port, of all its queues in scope, and sends the queues of copies to `feed`.
    ///
    /// # Errors
    /// A queue of copies cannot be made, `feed` is full, or a worker does not release a queue in time.
    pub fn observe(&mut self, scope: Scope, feed: SyncSender<Copied>) -> io::Result<CopiesId> {
        let id = CopiesId(self.number());
        let mut observer = Observer::new(id, scope, feed);
        let copied = self.attached.keys().filter(|queue| scope.has(queue)).try_for_each(|(id, side)| {
            let copy = observer.copy(id.pair, *side)?;
            match side {
                Side::FromGuest => self.change_source(*id, |source| copies::copied(source, copy)),
                Side::ToGuest => self.change_sink(*id, |sink| copies::copied(sink, copy)),
            }
            .or_else(|why| match why {
                Unclaimed::Held => Err(io::Error::other(
                    "a worker does not release a queue; 'tautline ctl SOCKET rings' names it; remove the port and add it again",
                )),
                Unclaimed::Lost => Ok(()),
            })
        });
        self.observers.push(observer);
        if copied.is_err() {
            self.end_observation(id);
        }
        copied.map(|()| id)
    }

    /// Ends observation `of`.
    pub fn end_observation(&mut self, of: CopiesId) {
        let Some(at) = self.observers.iter().position(|observer| observer.id == of) else { return };
        let Observer { scope, ended, .. } = self.observers.remove(at);
        // A queue that cannot be claimed now drops its copies at its next burst.
        ended.store(true, Ordering::Relaxed);
        for (id, side) in self.attached.keys().filter(|queue| scope.has(queue)) {
            match side {
                Side::FromGuest => _ = self.change_source(*id, |source| copies::no_longer_copied(source, of)),
                Side::ToGuest => _ = self.change_sink(*id, |sink| copies::no_longer_copied(sink, of)),
            }
        }
    }

    /// Replaces a source of a worker; does nothing if the source has stopped.
    fn change_source(
        &self,
        id: QueueId,
        how: impl FnOnce(Box<dyn Source>) -> Box<dyn Source>,
    ) -> Result<(), Unclaimed> {
        let queue = self.pool.source(self.plan.source(id.port, id.pair), id);
        queue.ok_or(Unclaimed::Lost)?.change(how)
    }

    fn change_sink(
        &self,
        id: QueueId,
        how: impl FnOnce(Box<dyn Sink>) -> Box<dyn Sink>,
    ) -> Result<(), Unclaimed> {
        self.sinks.get(&id).ok_or(Unclaimed::Lost)?.queue.change(how)
    }

    /// A queue that is about to be attached, with the copies that are asked for.
    fn observed<T: Copying + ?Sized>(&mut self, id: QueueId, side: Side, mut queue: Box<T>) -> Box<T> {
        for observer in self.observers.iter_mut().filter(|observer| observer.scope.has(&(id, side))) {
            match observer.copy(id.pair, side) {
                Ok(copy) => queue = copies::copied(queue, copy),
                Err(_) if observer.told => {}
                Err(error) => {
                    observer.told = true;
                    let what = format!("queue pair {} is not copied: {error}", id.pair);
                    self.logged.push((id.port, what));
                }
            }
        }
        queue
    }

    /// The state of an attached queue's ring, and its worker.
    pub fn ring(&self, id: QueueId, side: Side) -> Option<(Option<RingState>, usize)> {
        self.attached.get(&(id, side))?;
        match side {
            Side::FromGuest => {
                let worker = self.plan.source(id.port, id.pair);
                let claimed = self.pool.source(worker, id)?.claim()?;
                Some((claimed.as_deref()?.ring(), worker))
            }
            Side::ToGuest => {
                let assigned = self.sinks.get(&id)?;
                let worker = match &assigned.assignment {
                    QueueAssignment::Own(worker) => *worker,
                    QueueAssignment::Shared(workers) => workers.first().copied().unwrap_or_default(),
                };
                let claimed = assigned.queue.claim()?;
                Some((claimed.as_deref()?.ring(), worker))
            }
        }
    }

    fn add_source(&mut self, id: QueueId, generation: Generation, source: Box<dyn Source>) {
        match &mut self.held {
            Some(held) => _ = held.insert(id, (generation, source)),
            None => self.pool.add_source(self.plan.source(id.port, id.pair), id, generation, source),
        }
    }

    /// The port and token that watch under this key. `None` if no port does any more, or if the port is resting.
    pub fn watcher(&self, key: u64) -> Option<(PortId, Token)> {
        self.keys.get(&key).filter(|(port, _)| !self.resting.rests(*port)).copied()
    }

    /// When the next timer expires, or the next rest ends.
    pub fn next_timer(&self) -> Option<Instant> {
        let timers = self.timers.iter().map(|((port, _), at)| self.resting.not_before(*port, *at));
        timers.chain(self.resting.next()).min()
    }

    /// Returns an expired timer, once.
    pub fn due(&mut self, now: Instant) -> Option<(PortId, Token)> {
        let is_due = |port: PortId, at: Instant| self.resting.not_before(port, at) <= now;
        let due = self.timers.iter().find(|((port, _), at)| is_due(*port, **at)).map(|(of, _)| *of)?;
        self.timers.remove(&due);
        Some(due)
    }

    /// Reports how long a call of a port took. After too long a call the port's descriptors are paused.
    pub fn called(&mut self, port: PortId, took: Duration) {
        if self.resting.called(port, took, Instant::now()) {
            for (_, watch) in self.watches.iter().filter(|((of, _), _)| *of == port) {
                // A descriptor that cannot be paused costs wake-ups until the rest is over, and no more.
                let _ = self.poller.pause(&watch.fd, watch.key);
            }
        }
    }

    /// Watches the descriptors of ports again whose rest is over. An error comes from `epoll_ctl`.
    pub fn end_rests(&mut self, now: Instant) -> io::Result<()> {
        while let Some(port) = self.resting.rested(now) {
            for (_, watch) in self.watches.iter().filter(|((of, _), _)| *of == port) {
                self.poller.resume(&watch.fd, watch.key, watch.interest)?;
            }
        }
        Ok(())
    }

    /// Handles a queue that has stopped by itself. False if its port has detached the queue before.
    pub fn stopped(&mut self, id: QueueId, side: Side, generation: Generation) -> bool {
        if self.attached.get(&(id, side)) != Some(&generation) {
            return false;
        }
        // Other workers may still have the rest of the queue.
        drop(self.take(id.port, &[(id.pair, side)]));
        true
    }

    /// Whether a queue of a port is attached.
    pub fn has_queues(&self, port: PortId) -> bool {
        let first = (QueueId { port, pair: 0 }, Side::FromGuest);
        self.attached.range(first..).next().is_some_and(|((id, _), _)| id.port == port)
    }

    /// Removes all that a port has left behind.
    pub fn clear(&mut self, port: PortId) {
        let left = self.attached.keys().filter(|(id, _)| id.port == port);
        let left: Vec<_> = left.map(|(id, side)| (id.pair, *side)).collect();
        drop(self.take(port, &left));
        let tokens: Vec<_> = self.watches.keys().filter(|(of, _)| *of == port).copied().collect();
        tokens.into_iter().for_each(|of| self.unwatch(of));
        self.timers.retain(|(of, _), _| *of != port);
        self.resting.forget(port);
    }

    fn unwatch(&mut self, of: (PortId, Token)) {
        if let Some(watch) = self.watches.remove(&of) {
            self.keys.remove(&watch.key);
            // The descriptor is in the set as long as it is open.
            let _ = self.poller.remove(&watch.fd);
        }
    }

    /// Takes queues of a port from their workers, in this order; `None` for each that is not there.
    fn take(&mut self, port: PortId, which: &[(u16, Side)]) -> Vec<Option<Queue>> {
        let attached: Vec<(QueueId, Side)> = which
            .iter()
            .map(|(pair, side)| (QueueId { port, pair: *pair }, *side))
            .filter(|of| self.attached.remove(of).is_some())
            .collect();
        let mut taken = self.take_sources(attached.iter().filter(|(_, side)| *side == Side::FromGuest));
        taken.extend(self.take_sinks(port, attached.iter().filter(|(_, side)| *side == Side::ToGuest)));
        self.forget_if_down(port);
        which.iter().map(|(pair, side)| taken.remove(&(QueueId { port, pair: *pair }, *side))).collect()
    }

    fn take_sources<'a>(&mut self, which: impl Iterator<Item = &'a (QueueId, Side)>) -> Taken {
        let (mut taken, mut of_workers) = (Vec::new(), Vec::new());
        for (id, _) in which {
            match self.held.as_mut().and_then(|held| held.remove(id)) {
                Some((_, source)) => taken.push((*id, source)),
                None => of_workers.push((self.plan.source(id.port, id.pair), *id)),
            }
        }
        let from_workers = of_workers.iter().zip(self.pool.take_sources(&of_workers));
        taken.extend(from_workers.filter_map(|((_, id), source)| Some((*id, source?))));
        let alone = taken.into_iter().map(|(id, source)| {
            let source = copies::alone(source, id, Side::FromGuest, &mut self.observers);
            ((id, Side::FromGuest), Queue::Source(source))
        });
        alone.collect()
    }

    fn take_sinks<'a>(&mut self, port: PortId, which: impl Iterator<Item = &'a (QueueId, Side)>) -> Taken {
        let gone = which.filter_map(|(id, _)| Some((*id, self.sinks.remove(id)?)));
        let gone: Vec<(QueueId, AssignedSink)> = gone.collect();
        if gone.is_empty() {
            return Taken::new();
        }
        let mut moves = SinkMoves::default();
        gone.iter().for_each(|(id, assigned)| moves.take(*id, assigned));
        self.arrange(port, BTreeMap::new(), moves);
        let taken = gone.into_iter().filter_map(|(id, assigned)| {
            let sink = copies::alone(assigned.queue.take()?, id, Side::ToGuest, &mut self.observers);
            Some(((id, Side::ToGuest), Queue::Sink(sink)))
        });
        taken.collect()
    }

    /// Gives all sinks of a port, the new ones included, to the workers that the plan names.
    fn arrange(
        &mut self,
        port: PortId,
        mut new: BTreeMap<u16, (Generation, Box<dyn Sink>)>,
        mut moves: SinkMoves,
    ) {
        let there = self.sinks.keys().filter(|id| id.port == port).map(|id| id.pair);
        let mut pairs: Vec<u16> = there.chain(new.keys().copied()).collect();
        pairs.sort_unstable();
        let places = self.plan.sinks(port, pairs.len());
        for (pair, assignment) in pairs.into_iter().zip(places) {
            let id = QueueId { port, pair };
            let (generation, queue, before) = match (new.remove(&pair), self.sinks.remove(&id)) {
                (Some((generation, sink)), _) => (generation, SharedQueue::new(sink), None),
                (None, Some(there)) => (there.generation, there.queue, Some(there.assignment)),
                (None, None) => continue,
            };
            let assigned = AssignedSink { generation, assignment, queue };
            moves.give(id, &assigned, before.as_ref());
            self.sinks.insert(id, assigned);
        }
        self.pool.move_sinks(moves);
    }

    /// Attaches queues of a port, in place of those that are attached there.
    fn put(&mut self, port: PortId, queues: Vec<(u16, Queue)>) {
        let side = |queue: &Queue| match queue {
            Queue::Source(_) => Side::FromGuest,
            Queue::Sink(_) => Side::ToGuest,
        };
        let places: Vec<_> = queues.iter().map(|(pair, queue)| (*pair, side(queue))).collect();
        drop(self.take(port, &places));
        let (mut sources, mut sinks) = (Vec::new(), BTreeMap::new());
        for (pair, queue) in queues {
            let id = QueueId { port, pair };
            let generation = Generation(self.number());
            self.attached.insert((id, side(&queue)), generation);
            match queue {
                Queue::Source(source) => {
                    sources.push((id, generation, self.observed(id, Side::FromGuest, source)));
                }
                Queue::Sink(sink) => {
                    sinks.insert(pair, (generation, self.observed(id, Side::ToGuest, sink)));
                }
            }
        }
        // Sinks first: what answers a frame of these sources finds its way.
        if !sinks.is_empty() {
            self.arrange(port, sinks, SinkMoves::default());
        }
        sources.into_iter().for_each(|(id, generation, source)| self.add_source(id, generation, source));
    }

    /// Forgets the stations behind a port that has no queue.
    fn forget_if_down(&self, port: PortId) {
        if !self.attached.keys().any(|(id, _)| id.port == port) {
            self.common.tables.flush(port);
        }
    }
}

/// The context of one port, for one call.
pub(crate) struct SwitchContext<'a> {
    pub attachments: &'a mut Attachments,
    pub port: PortId,
}

impl SwitchContext<'_> {
    fn id(&self, pair: u16) -> QueueId {
        QueueId { port: self.port, pair }
    }
}

impl Context for SwitchContext<'_> {
    fn watch(&mut self, token: Token, fd: &SharedFd, interest: Interest) -> io::Result<()> {
        let of = (self.port, token);
        // Always afresh: the descriptor may be another one than before.
        self.attachments.unwatch(of);
        let key = self.attachments.number();
        self.attachments.poller.add(fd, key, interest)?;
        self.attachments.watches.insert(of, Watch { key, interest, fd: fd.clone() });
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

    fn log(&mut self, message: &dyn Display) {
        self.attachments.logged.push((self.port, message.to_string()));
    }
}

impl PortContext for SwitchContext<'_> {
    fn attach_source(&mut self, pair: u16, source: Box<dyn Source>) {
        self.attach(vec![(pair, Queue::Source(source))]);
    }

    fn attach_sink(&mut self, pair: u16, sink: Box<dyn Sink>) {
        self.attach(vec![(pair, Queue::Sink(sink))]);
    }

    fn detach_source(&mut self, pair: u16) -> Option<Box<dyn Source>> {
        match self.detach(&[(pair, Side::FromGuest)]).pop()?? {
            Queue::Source(source) => Some(source),
            Queue::Sink(_) => None,
        }
    }

    fn detach_sink(&mut self, pair: u16) -> Option<Box<dyn Sink>> {
        match self.detach(&[(pair, Side::ToGuest)]).pop()?? {
            Queue::Sink(sink) => Some(sink),
            Queue::Source(_) => None,
        }
    }

    fn attach(&mut self, queues: Vec<(u16, Queue)>) {
        self.attachments.put(self.port, queues);
    }

    fn detach(&mut self, which: &[(u16, Side)]) -> Vec<Option<Queue>> {
        self.attachments.take(self.port, which)
    }

    /// Changes the sink in place: frames find it all the time.
    fn change_sink(&mut self, pair: u16, how: SinkChange<'_>) -> bool {
        let changed = self.attachments.change_sink(self.id(pair), |mut sink| {
            copies::change_inside(&mut *sink, how);
            sink
        });
        changed.is_ok()
    }

    fn announce(&mut self, address: MacAddress) {
        let why = match self.attachments.programs[usize::from(self.port.0)].announce(address) {
            Announced::Accepted => match FrameBatch::of_frame(&announce::frame(address)) {
                Ok(frame) => {
                    let worker = self.attachments.plan.source(self.port, 0);
                    return self.attachments.pool.flood(worker, self.port, frame);
                }
                Err(error) => return self.log(&format_args!("cannot announce {address}: {error}")),
            },
            Announced::NotAllowed => "may not be behind this port",
            Announced::Refused(Refused::Owned) => "is another port's own",
            Announced::Refused(Refused::MovesTooOften) => "moves too often",
        };
        self.log(&format_args!("announced {address}, which {why}: ignored"));
    }
}
