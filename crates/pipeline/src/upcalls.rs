//! Frames and flows on their way from workers to the control thread: frames for controllers, and flows that frames learn.
//!
//! Each port has a queue of its own with a limit of frames, of bytes and of frames a second, so a sender takes room and
//! time from no other port. A worker never waits: frames and flows without room are counted and left out.
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use ::flow::{Controller, Key, Learn};
use flow_tables::PacketIn;
use frame::DropReason;

use crate::{PortId, RateLimit, TablesId};

/// The most upcalls of one port that wait.
const WAITING: usize = 64;
/// The most bytes of waiting frames of one port.
const WAITING_BYTES: usize = 256 << 10;
/// The most upcalls of one port in a second, and in one burst.
const PER_SECOND: u64 = 1000;
const BURST: u64 = 64;
/// The most bytes of a frame that a controller gets: a message of OpenFlow has 65,535 bytes.
const LONGEST_FRAME: usize = 60_000;

/// The request to the control thread.
#[derive(Debug)]
pub enum Wanted {
    /// Give a frame to controllers.
    Frame(PuntedFrame),
    /// Add the flow that a frame with these fields learns.
    Learn(Arc<Learn>, Box<Key>),
}

/// A frame for controllers.
#[derive(Debug)]
pub struct PuntedFrame {
    /// The settings of the action, and the frame's fields. The place of the header has no meaning any more.
    pub packet: Box<PacketIn>,
    /// The bytes for the controller.
    pub bytes: Vec<u8>,
    /// The length of the whole frame.
    pub frame_bytes: usize,
}

/// A request of a frame to the control thread.
#[derive(Debug)]
pub struct Upcall {
    /// The tables whose flows make the request.
    pub tables: TablesId,
    /// The requested work.
    pub wanted: Wanted,
}

impl PuntedFrame {
    /// The bytes of a frame of which a controller gets so many.
    pub(crate) fn most_bytes(controller: &Controller) -> usize {
        if controller.pause { LONGEST_FRAME } else { LONGEST_FRAME.min(controller.max_bytes.into()) }
    }
}

impl Upcall {
    fn held_bytes(&self) -> usize {
        match &self.wanted {
            Wanted::Frame(PuntedFrame { packet, bytes, .. }) => {
                size_of::<PacketIn>() + bytes.capacity() + packet.controller.userdata.capacity()
            }
            Wanted::Learn(..) => size_of::<Key>(),
        }
    }
}

/// The upcalls of one port.
struct PortQueue {
    limit: RateLimit,
    sender: SyncSender<Upcall>,
    receiver: Mutex<Receiver<Upcall>>,
    held_bytes: AtomicUsize,
    refused: AtomicU64,
}

impl PortQueue {
    fn new() -> Box<Self> {
        let (sender, receiver) = sync_channel(WAITING);
        Box::new(PortQueue {
            limit: RateLimit::with_burst(PER_SECOND, BURST),
            sender,
            receiver: Mutex::new(receiver),
            held_bytes: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
        })
    }

    fn refuse(&self) -> bool {
        self.refused.fetch_add(1, Ordering::Relaxed);
        false
    }

    fn take(&self) -> Option<Upcall> {
        let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        let upcall = receiver.try_recv().ok()?;
        self.held_bytes.fetch_sub(upcall.held_bytes(), Ordering::Relaxed);
        Some(upcall)
    }

    /// Discards the waiting upcalls that are not to stay.
    fn retain(&self, stays: impl Fn(&Upcall) -> bool) {
        let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting: Vec<_> = receiver.try_iter().take(WAITING).collect();
        for upcall in waiting {
            let bytes = upcall.held_bytes();
            // Newer upcalls may have taken the room meanwhile.
            if !stays(&upcall) || self.sender.try_send(upcall).is_err() {
                self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
        }
    }
}

/// The upcalls of all ports of a switch.
pub struct Upcalls {
    /// By port, with one more for frames of controllers; made with the port's first upcall.
    ports: Box<[OnceLock<Box<PortQueue>>]>,
    /// Whether there may be upcalls that [`Upcalls::take`] has not returned.
    any: AtomicBool,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// The port that is asked first by the next call of [`Upcalls::take`].
    first: AtomicUsize,
}

impl fmt::Debug for Upcalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upcalls").field("any", &self.any).finish_non_exhaustive()
    }
}

impl Upcalls {
    /// Queues for ports with numbers below `ports`, and for frames of controllers.
    pub fn new(ports: usize) -> Self {
        Upcalls {
            ports: (0..=ports).map(|_| OnceLock::new()).collect(),
            any: AtomicBool::new(false),
            wake: OnceLock::new(),
            first: AtomicUsize::new(0),
        }
    }

    /// Sets the function that wakes the control thread. A second call has no effect.
    pub fn set_wake(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.wake.set(Box::new(wake));
    }

    /// The queue of a port, or with `None` of frames of controllers.
    fn queue(&self, port: Option<PortId>) -> Option<&PortQueue> {
        let last = self.ports.len() - 1;
        let at = port.map_or(last, |port| usize::from(port.0));
        Some(self.ports.get(at)?.get_or_init(PortQueue::new))
    }

    /// Whether a port may have one more upcall now. Counts it if not.
    pub(crate) fn has_room(&self, port: Option<PortId>, now: Instant) -> bool {
        let Some(queue) = self.queue(port) else { return false };
        let fits = queue.held_bytes.load(Ordering::Relaxed) < WAITING_BYTES && queue.limit.take(1, now) == 1;
        fits || queue.refuse()
    }

    /// Gives an upcall to the control thread. Returns false if there is no room.
    pub(crate) fn give(&self, port: Option<PortId>, upcall: Upcall) -> bool {
        let Some(queue) = self.queue(port) else { return false };
        let bytes = upcall.held_bytes();
        let held = queue.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        if held + bytes > WAITING_BYTES || queue.sender.try_send(upcall).is_err() {
            queue.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return queue.refuse();
        }
        // Release: the control thread that finds it set finds the upcall too.
        if !self.any.swap(true, Ordering::AcqRel)
            && let Some(wake) = self.wake.get()
        {
            wake();
        }
        true
    }

    /// Gives a frame to controllers. Returns why the frame goes nowhere else if its flows send it to no port.
    pub(crate) fn punt(&self, port: Option<PortId>, tables: TablesId, frame: PuntedFrame) -> DropReason {
        let is_short = frame.frame_bytes <= LONGEST_FRAME || !frame.packet.controller.pause;
        match is_short && self.give(port, Upcall { tables, wanted: Wanted::Frame(frame) }) {
            true => DropReason::ToController,
            false => DropReason::ControllerLimit,
        }
    }

    /// Asks for the flow that a frame with these fields learns. Returns false if there is no room.
    pub(crate) fn learn(
        &self,
        port: Option<PortId>,
        tables: TablesId,
        learn: &Arc<Learn>,
        key: &Key,
        now: Instant,
    ) -> bool {
        let wanted = Wanted::Learn(Arc::clone(learn), Box::new(*key));
        self.has_room(port, now) && self.give(port, Upcall { tables, wanted })
    }

    /// Discards the waiting upcalls of tables that are gone: other tables get their number.
    pub fn end_tables(&self, tables: TablesId) {
        let made = self.ports.iter().filter_map(OnceLock::get);
        made.for_each(|queue| queue.retain(|upcall| upcall.tables != tables));
    }

    /// Discards the waiting upcalls of a port that is gone: another port gets its number.
    pub fn end_port(&self, port: PortId) {
        let queue = self.ports.get(usize::from(port.0)).and_then(OnceLock::get);
        queue.iter().for_each(|queue| queue.retain(|_| false));
    }

    /// Whether there may be upcalls.
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Takes at most `most` upcalls, from each port in turn. There may be more if there are so many.
    pub fn take(&self, most: usize) -> Vec<Upcall> {
        // Acquire pairs with the swap in `give`: everything that was given before is found below.
        self.any.swap(false, Ordering::Acquire);
        let (first, ports) = (self.first.load(Ordering::Relaxed), self.ports.len());
        let mut waiting: Vec<usize> = (first..ports).chain(0..first).collect();
        waiting.retain(|port| self.ports[*port].get().is_some());
        let mut taken = Vec::new();
        while !waiting.is_empty() {
            for port in std::mem::take(&mut waiting) {
                if taken.len() == most {
                    self.first.store(port, Ordering::Relaxed);
                    self.any.store(true, Ordering::Relaxed);
                    return taken;
                }
                if let Some(upcall) = self.ports[port].get().and_then(|queue| queue.take()) {
                    taken.push(upcall);
                    waiting.push(port);
                }
            }
        }
        taken
    }

    /// Upcalls of a port that found no room.
    pub fn refused(&self, port: Option<PortId>) -> u64 {
        let at = port.map_or(self.ports.len() - 1, |port| usize::from(port.0));
        let queue = self.ports.get(at).and_then(OnceLock::get);
        queue.map_or(0, |queue| queue.refused.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    fn learn() -> Upcall {
        Upcall { tables: TablesId(0), wanted: Wanted::Learn(Arc::new(Learn::default()), Box::new(Key::ZERO)) }
    }

    fn frame(bytes: usize, userdata: usize) -> Upcall {
        let controller = Controller { userdata: vec![0; userdata], ..Controller::default() };
        let header = flow_tables::HeaderRange::default();
        let packet = PacketIn { controller, table: 0, cookie: 0, header, key: Key::ZERO, continuation: None };
        let frame = PuntedFrame { packet: Box::new(packet), bytes: vec![0; bytes], frame_bytes: bytes };
        Upcall { tables: TablesId(0), wanted: Wanted::Frame(frame) }
    }

    #[test]
    fn all_bytes_that_are_held_count() {
        for (bytes, userdata) in [(60_000, 0), (0, 60_000)] {
            let upcalls = Upcalls::new(1);
            let given = (0..WAITING).filter(|_| upcalls.give(None, frame(bytes, userdata))).count();
            assert_eq!(given, WAITING_BYTES / 60_000);
            assert_eq!(upcalls.take(WAITING).len(), given);
            assert!(upcalls.give(None, frame(bytes, userdata)), "what was taken is held no more");
        }
    }

    #[test]
    fn nothing_waits_of_tables_or_of_a_port_that_are_gone() {
        let upcalls = Upcalls::new(2);
        let (own, other) = (PortId(0), PortId(1));
        let ask = |port, tables| assert!(upcalls.give(Some(port), Upcall { tables, ..frame(1000, 0) }));
        for (port, tables) in [(own, 0), (own, 1), (own, 0), (other, 1)] {
            ask(port, TablesId(tables));
        }
        upcalls.end_tables(TablesId(0));
        let left = upcalls.take(9).into_iter().map(|upcall| upcall.tables).collect::<Vec<_>>();
        assert_eq!(left, [TablesId(1); 2]);
        ask(own, TablesId(1));
        ask(other, TablesId(2));
        upcalls.end_port(own);
        let left = upcalls.take(9).into_iter().map(|upcall| upcall.tables).collect::<Vec<_>>();
        assert_eq!(left, [TablesId(2)]);
        assert!((0..WAITING).all(|_| upcalls.give(Some(own), learn())), "all its room is free");
    }

    #[test]
    fn a_port_that_asks_without_end_takes_room_and_turns_from_no_other() {
        let (upcalls, woken) = (Upcalls::new(4), Arc::new(AtomicU32::new(0)));
        let counter = Arc::clone(&woken);
        upcalls.set_wake(move || _ = counter.fetch_add(1, Ordering::Relaxed));
        let now = Instant::now();
        let tries = 10 * WAITING;
        let passed = (0..tries).filter(|_| upcalls.has_room(Some(PortId(0)), now)).count();
        assert_eq!(passed, BURST as usize);
        let given = (0..tries).filter(|_| upcalls.give(Some(PortId(0)), learn())).count();
        assert_eq!(
            (given, upcalls.refused(Some(PortId(0)))),
            (WAITING, (2 * tries - passed - WAITING) as u64)
        );
        for port in [Some(PortId(2)), None] {
            assert!(upcalls.has_room(port, now) && upcalls.give(port, learn()), "{port:?}");
            assert_eq!(upcalls.refused(port), 0);
        }
        assert_eq!(woken.load(Ordering::Relaxed), 1, "once until it is looked at");
        assert!(upcalls.any());
        // One of each port comes first.
        assert_eq!(upcalls.take(3).len(), 3);
        assert!(upcalls.any() && upcalls.take(2).len() == 2);
        assert_eq!((upcalls.take(tries).len(), upcalls.any()), (WAITING - 3, false));
    }
}
