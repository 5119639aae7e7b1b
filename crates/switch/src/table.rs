//! Which station is behind which port. All workers share it and nobody ever waits.
//!
//! A bucket is one cache line of five entries. An entry is one word, address and port together, so that it
//! is never seen half-written, beside the second in which the station was last heard. The bucket of an
//! address follows from a keyed hash: a guest cannot choose addresses that push others out.
//!
//! Learning is shared over all VLANs: the frame's tag plays no part.
//!
//! # Races
//!
//! Entries are changed by compare-and-swap, so counts per port are exact. The second is written after the
//! entry; who reads between the two takes the station for expired and floods one frame. Two workers that
//! learn one address at once while a third empties a slot can leave it twice in its bucket; the first of
//! the two counts, the other expires.
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use virtio::net::MacAddress;

use crate::PortId;
use crate::keyed::Key;

/// What the table is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// Addresses that it is made for. Buckets are two and a half times as many entries, rounded up, so
    /// that few addresses are pushed out before.
    pub addresses: usize,
    /// Addresses that are learned behind one port at most, so that one guest cannot fill the table.
    pub addresses_per_port: u32,
    /// A station is forgotten when it was not heard for so long (IEEE 802.1Q §8.8.3 recommends 300 s).
    pub ageing_seconds: u32,
}

impl Default for TableOptions {
    fn default() -> Self {
        TableOptions { addresses: 4096, addresses_per_port: 1024, ageing_seconds: 300 }
    }
}

/// What happened to the table so far, and how it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct TableCounts {
    /// Addresses in the table now.
    pub addresses: u64,
    /// Addresses learned that were not there before.
    pub learned: u64,
    /// Stations that were heard from another port than before.
    pub moved: u64,
    /// Stations not heard for too long.
    pub expired: u64,
    /// Stations pushed out of a full bucket.
    pub evicted: u64,
    /// Frames whose sender was not learned because its port has its limit of addresses.
    pub over_limit: u64,
}

const SLOTS: usize = 5;

/// No entry: the address 00:00:00:00:00:00 behind port 0, which is never learned.
const EMPTY: u64 = 0;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Bucket {
    entries: [AtomicU64; SLOTS],
    /// The second of [`MacTable::now`] in which the station was last heard.
    heard: [AtomicU32; SLOTS],
}

/// Learned addresses.
#[derive(Debug)]
pub(crate) struct MacTable {
    buckets: Box<[Bucket]>,
    key: Key,
    options: TableOptions,
    /// Seconds since the start, written by the control thread.
    now: AtomicU32,
    /// Addresses per port.
    behind: Box<[AtomicU32]>,
    /// Addresses that are some ports' own: no other may claim them.
    owners: HashMap<MacAddress, Vec<PortId>>,
    learned: AtomicU64,
    moved: AtomicU64,
    expired: AtomicU64,
    evicted: AtomicU64,
    over_limit: AtomicU64,
}

fn entry(address: MacAddress, port: PortId) -> u64 {
    address.to_u64() << 16 | u64::from(port.0)
}

fn port_of(entry: u64) -> PortId {
    PortId(entry as u16)
}

/// Seconds since a station was heard. Whoever heard it may have read the clock later than whoever asks, so the
/// difference can be negative: then the station was heard just now.
fn age(heard: u32, now: u32) -> u32 {
    now.saturating_sub(heard)
}

impl MacTable {
    /// An empty table for ports `0 .. ports`, some of which have addresses of their own.
    pub fn new(
        options: TableOptions,
        ports: usize,
        own: impl IntoIterator<Item = (MacAddress, PortId)>,
    ) -> Self {
        let mut owners = HashMap::<_, Vec<_>>::new();
        own.into_iter().for_each(|(address, port)| owners.entry(address).or_default().push(port));
        let buckets = options.addresses.div_ceil(2).clamp(1, 1 << 24).next_power_of_two();
        MacTable {
            buckets: (0..buckets).map(|_| Bucket::default()).collect(),
            key: Key::random(),
            options,
            now: AtomicU32::new(0),
            behind: (0..ports).map(|_| AtomicU32::new(0)).collect(),
            owners,
            learned: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            expired: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            over_limit: AtomicU64::new(0),
        }
    }

    /// Says what time it is, in seconds since the start.
    pub fn set_now(&self, seconds: u32) {
        self.now.store(seconds, Ordering::Relaxed);
    }

    #[inline(always)]
    fn bucket(&self, address: MacAddress) -> &Bucket {
        let hash = self.key.hash(address.to_u64());
        &self.buckets[hash as usize & (self.buckets.len() - 1)]
    }

    fn is_old(&self, heard: u32, now: u32) -> bool {
        age(heard, now) > self.options.ageing_seconds
    }

    /// The port behind which a station is.
    #[inline]
    pub fn lookup(&self, address: MacAddress) -> Option<PortId> {
        let bucket = self.bucket(address);
        let now = self.now.load(Ordering::Relaxed);
        for (slot, heard) in bucket.entries.iter().zip(&bucket.heard) {
            let found = slot.load(Ordering::Relaxed);
            if found >> 16 == address.to_u64() && found != EMPTY {
                let old = self.is_old(heard.load(Ordering::Relaxed), now);
                return (!old).then_some(port_of(found));
            }
        }
        None
    }

    /// A station was heard from behind a port. False if the address is another port's own. Group addresses
    /// are no stations, and neither is 00:00:00:00:00:00.
    #[inline]
    pub fn learn(&self, address: MacAddress, port: PortId) -> bool {
        let bucket = self.bucket(address);
        let now = self.now.load(Ordering::Relaxed);
        let new = entry(address, port);
        for (slot, heard) in bucket.entries.iter().zip(&bucket.heard) {
            if slot.load(Ordering::Relaxed) == new && new >> 16 != 0 {
                // Written once a second and not with each frame: the line stays shared by all workers.
                if heard.load(Ordering::Relaxed) != now {
                    heard.store(now, Ordering::Relaxed);
                }
                return true;
            }
        }
        if self.owners.get(&address).is_some_and(|owners| !owners.contains(&port)) {
            return false;
        }
        self.learn_new(bucket, address, port, now);
        true
    }

    #[cold]
    fn learn_new(&self, bucket: &Bucket, address: MacAddress, port: PortId, now: u32) {
        if address.is_group() || address.to_u64() == 0 {
            return;
        }
        let Some(behind) = self.behind.get(usize::from(port.0)) else { return };
        // Taken before the entry is written, so that no number of workers gets over the limit.
        if behind.fetch_add(1, Ordering::Relaxed) >= self.options.addresses_per_port {
            behind.fetch_sub(1, Ordering::Relaxed);
            self.over_limit.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // Somebody else changes the bucket at most as often as there are workers; the next frame tries again.
        for _ in 0..4 {
            let (index, old) = self.place(bucket, address, now);
            if old == entry(address, port) {
                break;
            }
            let swap = bucket.entries[index].compare_exchange(
                old,
                entry(address, port),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            if swap.is_ok() {
                let heard = bucket.heard[index].swap(now, Ordering::Relaxed);
                self.count_replaced(old, address, self.is_old(heard, now));
                return;
            }
        }
        behind.fetch_sub(1, Ordering::Relaxed);
    }

    /// Where an address goes: where it is, else a free place, else that of the station not heard longest.
    fn place(&self, bucket: &Bucket, address: MacAddress, now: u32) -> (usize, u64) {
        let entries: [u64; SLOTS] = std::array::from_fn(|i| bucket.entries[i].load(Ordering::Relaxed));
        let age = |i: &usize| age(bucket.heard[*i].load(Ordering::Relaxed), now);
        let there = entries.iter().position(|found| *found >> 16 == address.to_u64());
        let free = || entries.iter().position(|found| *found == EMPTY);
        let oldest = || (0..SLOTS).max_by_key(age);
        let index = there.or_else(free).or_else(oldest).unwrap_or(0);
        (index, entries[index])
    }

    fn count_replaced(&self, old: u64, address: MacAddress, was_old: bool) {
        let counter = match old {
            EMPTY => &self.learned,
            _ if old >> 16 == address.to_u64() => &self.moved,
            _ => {
                let pushed_out = if was_old { &self.expired } else { &self.evicted };
                pushed_out.fetch_add(1, Ordering::Relaxed);
                &self.learned
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.uncount(old);
    }

    fn uncount(&self, old: u64) {
        if old != EMPTY
            && let Some(behind) = self.behind.get(usize::from(port_of(old).0))
        {
            behind.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Forgets all stations behind a port.
    pub fn flush(&self, port: PortId) {
        self.remove(|entry, _| port_of(entry) == port);
    }

    /// Forgets the stations that were not heard for too long, so that they count no more.
    pub fn sweep(&self) {
        let now = self.now.load(Ordering::Relaxed);
        let removed = self.remove(|_, heard| self.is_old(heard, now));
        self.expired.fetch_add(removed, Ordering::Relaxed);
    }

    fn remove(&self, which: impl Fn(u64, u32) -> bool) -> u64 {
        let mut removed = 0;
        for bucket in &self.buckets {
            for (slot, heard) in bucket.entries.iter().zip(&bucket.heard) {
                let old = slot.load(Ordering::Relaxed);
                let goes = old != EMPTY && which(old, heard.load(Ordering::Relaxed));
                let gone = || slot.compare_exchange(old, EMPTY, Ordering::Relaxed, Ordering::Relaxed);
                if goes && gone().is_ok() {
                    self.uncount(old);
                    removed += 1;
                }
            }
        }
        removed
    }

    /// Addresses behind a port.
    pub fn behind(&self, port: PortId) -> u32 {
        self.behind.get(usize::from(port.0)).map_or(0, |behind| behind.load(Ordering::Relaxed))
    }

    /// What happened so far.
    pub fn counts(&self) -> TableCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TableCounts {
            addresses: self.behind.iter().map(|n| u64::from(n.load(Ordering::Relaxed))).sum(),
            learned: read(&self.learned),
            moved: read(&self.moved),
            expired: read(&self.expired),
            evicted: read(&self.evicted),
            over_limit: read(&self.over_limit),
        }
    }
}

#[cfg(test)]
mod tests;
