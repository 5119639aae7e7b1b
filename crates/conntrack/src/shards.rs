//! Several tables of connections, so that workers that track frames of different connections wait for each other seldom.
//!
//! The zone and the tuple of a frame determine the table of its connection, and both directions of a connection lead to
//! the same table ([`Shard::of`]). If addresses of a zone's connections are translated, the directions of a connection
//! have different tuples. Such a zone is *whole*: the zone alone determines the table. A zone becomes whole with the
//! first request that needs it, and then its connections move into one table.
//!
//! # What workers share
//!
//! A frame of a connection takes the lock of its table, and writes lines of its table and its connection. Two workers wait
//! for each other if their frames belong to one connection, to one whole zone, or by chance to one table. The counts of
//! limits ([`Held`]) are written when a connection begins or ends.
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::limits::Held;
use crate::{Counters, Packet, Refusal, Request, Settings, Shard, Tracker, Verdict};

/// How often a worker asks for a lock that another one has, before it sleeps.
const SPINS: u32 = 64;
/// The most expired connections of another table that one refusal ends.
const EXPIRED_AT_ONCE: usize = 8;
/// A table has room for at least one in this many of all connections, because connections are spread unevenly over the
/// tables.
const ROOM: u32 = 4;

/// A table on lines of its own.
#[derive(Debug)]
#[repr(align(128))] // two lines: processors fetch neighbors
struct Table(Mutex<Tracker>);

impl Table {
    fn lock(&self) -> MutexGuard<'_, Tracker> {
        for _ in 0..SPINS {
            if let Ok(tracker) = self.0.try_lock() {
                return tracker;
            }
            std::hint::spin_loop();
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Several tables that are used as one. All workers share it.
#[derive(Debug)]
pub struct Shards {
    settings: Settings,
    tables: Box<[Table]>,
    /// For each zone, whether it is whole.
    whole: Box<[AtomicBool]>,
    /// Held while the connections of a zone move.
    moving: Mutex<()>,
    /// The table in which connections are ended next, if a connection is refused.
    next: AtomicU16,
}

impl Shards {
    /// This many empty tables, at least one. [`crate::Limits`] are those of all tables together, except that a table
    /// holds at most a quarter of the connections, and all of them if there are at most four tables. `settings.shard`
    /// is ignored.
    pub fn new(settings: Settings, tables: u16, now: Duration) -> Self {
        let tables = tables.max(1);
        let held = Arc::new(Held::new(settings.limits.ports));
        let places = settings.limits.connections.div_ceil(ROOM.min(tables.into()));
        let table = |table: u16| {
            let settings = Settings { shard: Shard { table, tables }, ..settings };
            Table(Mutex::new(Tracker::with_held(settings, places, Arc::clone(&held), now)))
        };
        Self {
            settings,
            tables: (0..tables).map(table).collect(),
            whole: (0..=u16::MAX).map(|_| AtomicBool::new(false)).collect(),
            moving: Mutex::new(()),
            next: AtomicU16::new(0),
        }
    }

    /// Numbers of connections of all tables.
    pub fn counters(&self) -> Counters {
        self.tables.iter().fold(Counters::default(), |sum, table| sum.plus(table.lock().counters()))
    }

    /// Works like [`Tracker::track`], in the table of the frame's connection.
    pub fn track(&self, packet: &Packet<'_>, request: &Request<'_>, now: Duration) -> Verdict {
        if request.needs_whole_zone() && !self.is_whole(request.zone) {
            self.make_whole(request.zone);
        }
        loop {
            let is_whole = self.is_whole(request.zone);
            let mut tracker = self.tables[self.table(is_whole, request.zone, packet)].lock();
            // The zone may have become whole since.
            if is_whole == self.is_whole(request.zone) {
                let verdict = tracker.track(packet, &Request { is_divided: !is_whole, ..*request }, now);
                drop(tracker);
                if matches!(verdict.refusal, Some(Refusal::Port | Refusal::Zone)) {
                    self.expire_elsewhere(now);
                }
                return verdict;
            }
        }
    }

    /// Ends all connections of a zone; `None` ends those of all zones.
    pub fn flush(&self, zone: Option<u16>) {
        // The lock prevents that a zone moves into a table that was emptied already.
        let _moving = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        self.tables.iter().for_each(|table| table.lock().flush(zone));
    }

    /// Ends connections of one table whose time is over: they count for the limits, and their table may have no frames.
    #[cold]
    fn expire_elsewhere(&self, now: Duration) {
        let next = usize::from(self.next.fetch_add(1, Ordering::Relaxed)) % self.tables.len();
        if let Ok(mut tracker) = self.tables[next].0.try_lock() {
            tracker.expire(now, EXPIRED_AT_ONCE);
        }
    }

    fn is_whole(&self, zone: u16) -> bool {
        self.whole[usize::from(zone)].load(Ordering::Acquire)
    }

    fn table(&self, is_whole: bool, zone: u16, packet: &Packet<'_>) -> usize {
        let tables = self.tables.len() as u16; // as many as were made
        usize::from(match is_whole {
            true => (self.settings.seed.of_zone(zone) >> 16) as u16 % tables,
            false => Shard::of(&self.settings.seed, zone, packet.connection_tuple(), tables),
        })
    }

    /// Moves all connections of a zone into one table.
    #[cold]
    fn make_whole(&self, zone: u16) {
        let _moving = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        let target = (self.settings.seed.of_zone(zone) >> 16) as usize % self.tables.len();
        // Frames of the zone wait here until all connections are there. Workers hold one lock at a time.
        let mut to = self.tables[target].lock();
        // Pairs with `is_whole` in `track`, behind the lock of a table that is emptied below.
        if self.whole[usize::from(zone)].swap(true, Ordering::AcqRel) {
            return;
        }
        for (_, table) in self.tables.iter().enumerate().filter(|(at, _)| *at != target) {
            table.lock().move_zone(zone, &mut to);
        }
    }
}
