//! Copies of the frames that pass a queue, for an observer.
//!
//! An observed queue is wrapped in another one that copies its frames into a ring. The wrapper is put in place
//! between two bursts, so no frame is lost, and a queue that is not observed is not touched at all. A full ring
//! drops copies and counts them; the frames themselves go on.
use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};

use frame::{FrameBatch, QueueCounters, QueueError, RingState, Side, Sink, Source};
use port::in_memory::{InMemorySink, InMemorySource, QueueOptions, queue};

use crate::{PortId, QueueId};

/// The most copies of one queue that wait for the observer.
const WAITING: u16 = 1024;

/// Whose copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CopiesId(pub u64);

/// The copies of one queue, from the time when copying began.
#[derive(Debug)]
pub struct Copied {
    /// Queue pair.
    pub pair: u16,
    /// Direction.
    pub side: Side,
    /// The source of the copies.
    pub source: InMemorySource,
    /// The counters of copies: passed, and dropped for lack of room.
    pub counters: Arc<QueueCounters>,
}

/// The frames that are copied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    pub port: PortId,
    /// One direction; both if `None`.
    pub only: Option<Side>,
}

impl Scope {
    pub fn has(self, (id, side): &(QueueId, Side)) -> bool {
        id.port == self.port && self.only.is_none_or(|only| only == *side)
    }
}

/// An observer of a port.
pub(crate) struct Observer {
    pub id: CopiesId,
    pub scope: Scope,
    feed: SyncSender<Copied>,
    /// The observation has ended.
    pub ended: Arc<AtomicBool>,
    /// Copies of queues that are not attached now. A guest may stop and start its rings any number of times. Each
    /// queue keeps one ring of copies, unless a worker has dropped the queue.
    spare: BTreeMap<(u16, Side), Copy>,
    /// Whether a log line already reported that a queue is not copied.
    pub told: bool,
}

impl Observer {
    pub fn new(id: CopiesId, scope: Scope, feed: SyncSender<Copied>) -> Self {
        Observer { id, scope, feed, ended: Arc::default(), spare: BTreeMap::new(), told: false }
    }

    /// Returns the queue that takes the copies of one queue. A queue that was kept is used again.
    ///
    /// # Errors
    /// The memory or the eventfd of the copies cannot be made, or the receiver has not taken up the queues that
    /// were sent before.
    pub fn copy(&mut self, pair: u16, side: Side) -> io::Result<Copy> {
        if let Some(copy) = self.spare.remove(&(pair, side)) {
            return Ok(copy);
        }
        let (sink, source) = queue(QueueOptions { slots: WAITING, ..QueueOptions::default() })?;
        let counters = Arc::clone(sink.counters());
        match self.feed.try_send(Copied { pair, side, source, counters }) {
            // The receiver is gone: the copies fill their ring, which is dropped with the observer.
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            Err(TrySendError::Full(_)) => {
                return Err(io::Error::other(
                    "the capture or mirror has not taken up the copies of earlier queues; end it, and start it again",
                ));
            }
        }
        Ok(Copy { id: self.id, sink, ended: Arc::clone(&self.ended) })
    }

    /// Keeps the queue of copies, because the observed queue is no longer attached.
    pub fn keep(&mut self, pair: u16, side: Side, copy: Copy) {
        self.spare.insert((pair, side), copy);
    }
}

/// The destination of a queue's copies.
pub(crate) struct Copy {
    id: CopiesId,
    sink: InMemorySink,
    ended: Arc<AtomicBool>,
}

fn copy_all(copies: &mut Vec<Copy>, batch: &FrameBatch, which: &[u16]) {
    copies.retain(|copy| !copy.ended.load(Ordering::Relaxed));
    for copy in copies {
        // A ring of our own has no errors.
        let _ = copy.sink.accept(batch, which);
    }
}

/// A source whose frames are copied.
struct CopiedSource {
    inner: Box<dyn Source>,
    copies: Vec<Copy>,
    /// 0, 1, 2, …
    all: Vec<u16>,
}

/// A sink whose frames are copied.
struct CopiedSink {
    inner: Box<dyn Sink>,
    copies: Vec<Copy>,
}

impl Source for CopiedSource {
    fn rx_burst(&mut self, max: usize) -> Result<&FrameBatch, QueueError> {
        let batch = self.inner.rx_burst(max)?;
        let have = self.all.len() as u16;
        self.all.extend(have..batch.len().max(usize::from(have)) as u16);
        copy_all(&mut self.copies, batch, &self.all[..batch.len()]);
        Ok(batch)
    }

    fn needs_release(&self) -> bool {
        self.inner.needs_release()
    }

    fn batch_mut(&mut self) -> Option<&mut FrameBatch> {
        self.inner.batch_mut()
    }

    fn release(&mut self) {
        self.inner.release();
    }

    fn sleep(&mut self) -> bool {
        self.inner.sleep()
    }

    fn wake(&mut self) {
        self.inner.wake();
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.wake_fd()
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        self.inner.counters()
    }

    fn ring(&self) -> Option<RingState> {
        self.inner.ring()
    }
}

impl Sink for CopiedSink {
    fn accept(&mut self, batch: &FrameBatch, which: &[u16]) -> Result<(), QueueError> {
        copy_all(&mut self.copies, batch, which);
        self.inner.accept(batch, which)
    }

    fn room(&mut self) -> usize {
        self.inner.room()
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        self.inner.counters()
    }

    fn ring(&self) -> Option<RingState> {
        self.inner.ring()
    }
}

/// A kind of queue that can be copied.
pub(crate) trait Copying: Any {
    /// Separates the queue from its copies.
    fn parted(self: Box<Self>) -> (Box<Self>, Vec<Copy>);
    /// Combines the queue with these copies; without any, returns the queue itself.
    fn joined(self: Box<Self>, copies: Vec<Copy>) -> Box<Self>;
}

impl Copying for dyn Source {
    fn parted(self: Box<Self>) -> (Box<Self>, Vec<Copy>) {
        if !(&*self as &dyn Any).is::<CopiedSource>() {
            return (self, Vec::new());
        }
        match (self as Box<dyn Any>).downcast::<CopiedSource>() {
            Ok(copied) => (copied.inner, copied.copies),
            Err(_) => unreachable!("it was asked what it is"),
        }
    }

    fn joined(self: Box<Self>, copies: Vec<Copy>) -> Box<Self> {
        if copies.is_empty() { self } else { Box::new(CopiedSource { inner: self, copies, all: Vec::new() }) }
    }
}

impl Copying for dyn Sink {
    fn parted(self: Box<Self>) -> (Box<Self>, Vec<Copy>) {
        if !(&*self as &dyn Any).is::<CopiedSink>() {
            return (self, Vec::new());
        }
        match (self as Box<dyn Any>).downcast::<CopiedSink>() {
            Ok(copied) => (copied.inner, copied.copies),
            Err(_) => unreachable!("it was asked what it is"),
        }
    }

    fn joined(self: Box<Self>, copies: Vec<Copy>) -> Box<Self> {
        if copies.is_empty() { self } else { Box::new(CopiedSink { inner: self, copies }) }
    }
}

/// Returns the queue without its copies, which are given to their observers.
pub(crate) fn alone<T: Copying + ?Sized>(
    queue: Box<T>,
    id: QueueId,
    side: Side,
    observers: &mut [Observer],
) -> Box<T> {
    let (inner, copies) = queue.parted();
    for copy in copies {
        if let Some(observer) = observers.iter_mut().find(|observer| observer.id == copy.id) {
            observer.keep(id.pair, side, copy);
        }
    }
    inner
}

/// Changes the sink inside; copying continues.
pub(crate) fn change_inside(sink: &mut dyn Sink, how: impl FnOnce(&mut dyn Sink)) {
    if let Some(copied) = (&mut *sink as &mut dyn Any).downcast_mut::<CopiedSink>() {
        return how(&mut *copied.inner);
    }
    how(sink);
}

/// Adds an observer's copy to the queue.
pub(crate) fn copied<T: Copying + ?Sized>(queue: Box<T>, copy: Copy) -> Box<T> {
    let (inner, mut copies) = queue.parted();
    copies.push(copy);
    inner.joined(copies)
}

/// Removes an observer's copy from the queue.
pub(crate) fn no_longer_copied<T: Copying + ?Sized>(queue: Box<T>, id: CopiesId) -> Box<T> {
    let (inner, mut copies) = queue.parted();
    copies.retain(|copy| copy.id != id);
    inner.joined(copies)
}
