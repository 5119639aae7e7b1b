//! What a port and a zone may hold.
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
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
    pools: HashMap<u64, Pool, BuildHasherDefault<AsItIs>>,
    /// The shares of other ports than [`Pool::first`]. Keys are those of [`share`].
    others: HashMap<u64, u32, BuildHasherDefault<AsItIs>>,
}

/// How many source ports of one pool are taken.
#[derive(Debug)]
struct Pool {
    total: u32,
    /// The port that took the pool's first source port, and its share.
    first: (u16, u32),
}

/// The hash of a key that is a keyed hash itself.
#[derive(Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// The key of a port's share of a pool.
fn share(pool: u64, port: u16) -> u64 {
    pool ^ (u64::from(port) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Pools {
    pub fn new(connections: usize) -> Self {
        Self {
            pools: HashMap::with_capacity_and_hasher(connections, BuildHasherDefault::new()),
            others: HashMap::with_capacity_and_hasher(connections, BuildHasherDefault::new()),
        }
    }

    /// Whether a port may have another one of `ports` source ports.
    pub fn allows(&self, pool: u64, port: u16, ports: u32) -> bool {
        let Some(Pool { total, first }) = self.pools.get(&pool) else { return ports > 0 };
        let held = match first.0 == port {
            true => first.1,
            false => self.others.get(&share(pool, port)).copied().unwrap_or(0),
        };
        held < ports.saturating_sub(*total)
    }

    pub fn add(&mut self, pool: u64, port: u16) {
        let of = self.pools.entry(pool).or_insert(Pool { total: 0, first: (port, 0) });
        of.total += 1;
        match of.first.0 == port {
            true => of.first.1 += 1,
            false => *self.others.entry(share(pool, port)).or_default() += 1,
        }
    }

    pub fn remove(&mut self, pool: u64, port: u16) {
        let Entry::Occupied(mut entry) = self.pools.entry(pool) else { return };
        let of = entry.get_mut();
        of.total -= 1;
        if of.first.0 == port {
            of.first.1 -= 1;
        } else if let Entry::Occupied(mut other) = self.others.entry(share(pool, port)) {
            *other.get_mut() -= 1;
            if *other.get() == 0 {
                other.remove();
            }
        }
        if entry.get().total == 0 {
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Pools count as a list of all holders does, whichever ports hold the source ports of a pool.
        #[test]
        fn pools_count_as_a_list_does(steps in prop::collection::vec((0..3u64, 0..3u16, any::<bool>()), 0..100)) {
            const PORTS: u32 = 5;
            let (mut pools, mut all) = (Pools::new(4), Vec::new());
            for (pool, port, adds) in steps {
                if adds {
                    pools.add(pool, port);
                    all.push((pool, port));
                } else if let Some(at) = all.iter().position(|holder| *holder == (pool, port)) {
                    pools.remove(pool, port);
                    all.remove(at);
                }
                let total = all.iter().filter(|holder| holder.0 == pool).count() as u32;
                for port in 0..3 {
                    let share = all.iter().filter(|holder| **holder == (pool, port)).count() as u32;
                    prop_assert_eq!(pools.allows(pool, port, PORTS), share + total < PORTS);
                }
            }
            prop_assert!(all.is_empty() == pools.pools.is_empty());
        }
    }
}
