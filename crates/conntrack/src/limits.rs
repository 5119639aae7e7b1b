//! What a port and a zone may hold.
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, Ordering};

/// Limits of a [`crate::Tracker`].
///
/// A port gets another place only as long as it holds fewer places than are free, in its table and in all tables together
/// ([`crate::Shards`]). One port can therefore hold half of a table, and each of n greedy ports 1/(n + 1) of it, so that
/// one such part always stays free for others (dynamic thresholds: A. Choudhury, E. Hahne, IEEE/ACM Transactions on
/// Networking 6(2), 1998).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The number of connections in the table. Its memory is reserved at the start: about 400 bytes each.
    pub connections: u32,
    /// The number of ports: their numbers are below.
    pub ports: u16,
    /// The number of connections that frames of one port may begin.
    pub per_port: u32,
    /// The number of connections in one zone, at most: [`ZoneLimits`] can lower it.
    pub per_zone: u32,
}

/// Limits of zones, which can be changed while frames are tracked. A connection that is there stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneLimits {
    /// The number of connections in each zone that `zones` does not name; `None` for [`Limits::per_zone`].
    pub default: Option<u32>,
    /// The number of connections in a zone, by zone.
    pub zones: BTreeMap<u16, u32>,
}

impl ZoneLimits {
    /// The limit of a zone.
    pub fn of(&self, zone: u16) -> Option<u32> {
        self.zones.get(&zone).copied().or(self.default)
    }
}

/// The reason why a connection was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The port holds its share of the connection's table or of all tables, or [`Limits::per_port`] connections, and none
    /// in this table that may be replaced; or its number is too high.
    Port,
    /// The zone holds as many connections as [`ZoneLimits`] and [`Limits::per_zone`] allow.
    Zone,
    /// No translation is free, or the port holds its share of the translations.
    Translation,
    /// The connection's tuples belong to another connection.
    Taken,
}

/// What [`crate::Tracker::counters`] counts, in connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections that are kept at present.
    pub kept: u64,
    /// Connections that were kept since the start.
    pub begun: u64,
    /// Connections that ended because their time was over.
    pub expired: u64,
    /// Connections without an answer that were replaced by newer ones of the same port.
    pub evicted: u64,
    /// Connections that were refused.
    pub refused: u64,
}

/// How many connections several tables hold together.
#[derive(Debug)]
pub(crate) struct Held {
    pub kept: AtomicU32,
    /// The connections of each port.
    pub ports: Box<[AtomicU32]>,
    /// The connections of each zone.
    pub zones: Box<[AtomicU32]>,
    /// The most connections of each zone.
    zone_limits: Box<[AtomicU32]>,
}

impl Held {
    pub fn new(limits: &Limits) -> Self {
        let filled = |count: usize, with: u32| (0..count).map(|_| AtomicU32::new(with)).collect();
        let zones = usize::from(u16::MAX) + 1;
        Self {
            kept: AtomicU32::new(0),
            ports: filled(limits.ports.into(), 0),
            zones: filled(zones, 0),
            zone_limits: filled(zones, limits.per_zone),
        }
    }

    /// Whether a zone can get no further connection.
    pub fn is_full(&self, zone: u16) -> bool {
        let zone = usize::from(zone);
        self.zones[zone].load(Ordering::Relaxed) >= self.zone_limits[zone].load(Ordering::Relaxed)
    }

    /// Sets the limits of all zones, each at most `per_zone`.
    pub fn limit_zones(&self, limits: &ZoneLimits, per_zone: u32) {
        for (zone, limit) in (0..=u16::MAX).zip(&self.zone_limits) {
            limit.store(limits.of(zone).map_or(per_zone, |limit| limit.min(per_zone)), Ordering::Relaxed);
        }
    }

    /// Counts one connection more of a port and a zone, or one less.
    pub fn count(&self, port: u16, zone: u16, is_more: bool) {
        let by = if is_more { 1 } else { u32::MAX }; // one less, modulo 2^32
        let port = self.ports.get(usize::from(port));
        for count in [Some(&self.kept), port, self.zones.get(usize::from(zone))].into_iter().flatten() {
            count.fetch_add(by, Ordering::Relaxed);
        }
    }
}

impl Counters {
    /// The sums of both counters.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            kept: self.kept + other.kept,
            begun: self.begun + other.begun,
            expired: self.expired + other.expired,
            evicted: self.evicted + other.evicted,
            refused: self.refused + other.refused,
        }
    }
}

/// Who holds the source ports of a translated address, by destination.
///
/// As with the places of a table ([`Limits`]), a port of the switch gets another source port only as long as it holds fewer
/// than are free.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    /// Keys are keyed hashes of the pool.
    totals: HashMap<u64, u32>,
    shares: HashMap<(u64, u16), u32>,
}

fn take<K: Eq + std::hash::Hash>(counts: &mut HashMap<K, u32>, key: K) {
    if let Some(count) = counts.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&key);
        }
    }
}

impl Pools {
    pub fn new(connections: usize) -> Self {
        Self { totals: HashMap::with_capacity(connections), shares: HashMap::with_capacity(connections) }
    }

    /// Whether a port may have another one of `ports` source ports.
    pub fn allows(&self, pool: u64, port: u16, ports: u32) -> bool {
        let total = self.totals.get(&pool).copied().unwrap_or(0);
        let share = self.shares.get(&(pool, port)).copied().unwrap_or(0);
        share < ports.saturating_sub(total)
    }

    pub fn add(&mut self, pool: u64, port: u16) {
        *self.totals.entry(pool).or_default() += 1;
        *self.shares.entry((pool, port)).or_default() += 1;
    }

    pub fn remove(&mut self, pool: u64, port: u16) {
        take(&mut self.totals, pool);
        take(&mut self.shares, (pool, port));
    }
}
