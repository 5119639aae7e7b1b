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
use crate::saved::{self, Saved};
use crate::{
    ControlChange, Counters, ListFrom, Listed, Packet, Page, Refusal, Request, Selection, Settings, Shard,
    Tracker, Verdict, ZoneLimits,
};

/// How often a worker asks for a lock that another one has, before it sleeps.
const SPINS: u32 = 64;
/// The most expired connections of another table that one refusal ends.
const EXPIRED_AT_ONCE: usize = 8;
/// The most places of a table that are read for a list while workers wait for the table.
const LISTED_AT_ONCE: usize = 128;
/// How often a part of a list looks into a table.
const MAX_LOOKS: u32 = 128;
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
    /// What all tables hold together.
    held: Arc<Held>,
    zone_limits: Mutex<ZoneLimits>,
}

impl Shards {
    /// This many empty tables, at least one. [`crate::Limits`] are those of all tables together, except that a table
    /// holds at most a quarter of the connections, and all of them if there are at most four tables. `settings.shard`
    /// is ignored.
    pub fn new(settings: Settings, tables: u16, now: Duration) -> Self {
        let tables = tables.max(1);
        let held = Arc::new(Held::new(&settings.limits));
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
            held,
            zone_limits: Mutex::default(),
        }
    }

    /// The limits of zones.
    pub fn zone_limits(&self) -> ZoneLimits {
        self.zone_limits.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the limits of zones, for connections that begin from now on.
    pub fn limit_zones(&self, limits: ZoneLimits) {
        let mut present = self.zone_limits.lock().unwrap_or_else(PoisonError::into_inner);
        self.held.limit_zones(&limits, self.settings.limits.per_zone);
        *present = limits;
    }

    /// The number of connections in a zone.
    pub fn held_in(&self, zone: u16) -> u32 {
        self.held.zones[usize::from(zone)].load(Ordering::Relaxed)
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
        let hash = self.settings.seed.hash(request.zone, packet.connection_tuple());
        loop {
            let is_whole = self.is_whole(request.zone);
            let mut tracker = self.tables[self.table(is_whole, request.zone, hash)].lock();
            // The zone may have become whole since.
            if is_whole == self.is_whole(request.zone) {
                let verdict =
                    tracker.track_hashed(packet, hash, &Request { is_divided: !is_whole, ..*request }, now);
                drop(tracker);
                if matches!(verdict.refusal, Some(Refusal::Port | Refusal::Zone)) {
                    self.expire_elsewhere(now);
                }
                return verdict;
            }
        }
    }

    /// Works like [`Tracker::read_control`]. The zone of a control channel is whole.
    #[cold]
    pub fn read_control(
        &self,
        datagram: &[u8],
        packet: &Packet<'_>,
        request: &Request<'_>,
        now: Duration,
    ) -> ControlChange {
        let hash = self.settings.seed.hash(request.zone, &packet.tuple);
        let table = self.table(self.is_whole(request.zone), request.zone, hash);
        self.tables[table].lock().read_control(datagram, packet, request, now)
    }

    /// Ends all connections of any of these selections.
    pub fn flush(&self, which: &[Selection]) {
        // The lock prevents that a zone moves into a table that was emptied already.
        let _moving = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        self.tables.iter().for_each(|table| table.lock().flush(which));
    }

    /// A part of the connections of a zone, or with `None` of all zones. The part ends when it has `enough` connections, or
    /// after a limited number of places. Connections that begin, end or move into another table meanwhile may be missing,
    /// or be listed twice.
    pub fn list(&self, from: ListFrom, zone: Option<u16>, enough: usize, now: Duration) -> Page {
        let (mut table, mut place) = ((from.0 >> 32) as usize, from.0 as u32 as usize);
        let (mut connections, mut looks) = (Vec::new(), 0);
        while let Some(of) = self.tables.get(table) {
            if connections.len() >= enough || looks == MAX_LOOKS {
                return Page { connections, next: Some(ListFrom((table as u64) << 32 | place as u64)) };
            }
            looks += 1;
            let tracker = of.lock();
            match tracker.in_places(place, LISTED_AT_ONCE) {
                None => (table, place) = (table + 1, 0),
                Some(all) => {
                    let meant = all.filter(|connection| zone.is_none_or(|zone| connection.zone == zone));
                    let listed = meant.map(|connection| Listed::of(connection, now));
                    connections.extend(listed.filter(|listed| !listed.timeout.is_zero()));
                    place += LISTED_AT_ONCE;
                }
            }
        }
        Page { connections, next: None }
    }

    /// All connections, as bytes for [`Shards::restore`]. No frame may be tracked meanwhile, or connections that change
    /// may be missing.
    pub fn save(&self, now: Duration) -> Vec<u8> {
        let now = now.as_millis() as u64;
        let mut bytes = Vec::new();
        for table in &self.tables {
            let tracker = table.lock();
            let all = tracker.in_places(0, usize::MAX).into_iter().flatten();
            all.for_each(|connection| saved::put(&mut bytes, connection, now));
        }
        bytes
    }

    /// Adds the connections that another process has saved, as far as there is room and they are not there. `port` says
    /// which port has the number of a port of that process; connections of other ports end.
    pub fn restore(&self, bytes: &[u8], port: impl Fn(u16) -> Option<u16>, now: Duration) {
        let now = now.as_millis() as u64;
        for record in bytes.chunks_exact(saved::RECORD_BYTES) {
            let Saved { mut connection, rest } = saved::read(record);
            let Some(port) = port(connection.port).filter(|port| *port < self.settings.limits.ports) else {
                continue;
            };
            (connection.port, connection.deadline) = (port, now.saturating_add(rest));
            if connection.needs_whole_zone() && !self.is_whole(connection.zone) {
                self.make_whole(connection.zone);
            }
            let hash = self.settings.seed.hash(connection.zone, &connection.tuples[0]);
            let table = self.table(self.is_whole(connection.zone), connection.zone, hash);
            self.tables[table].lock().restore(connection);
        }
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

    /// The table of a zone's connections, or of those with this hash.
    fn table(&self, is_whole: bool, zone: u16, hash: u64) -> usize {
        let tables = self.tables.len() as u16; // as many as were made
        usize::from(match is_whole {
            true => (self.settings.seed.of_zone(zone) >> 16) as u16 % tables,
            false => Shard::of_hash(hash, tables),
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
