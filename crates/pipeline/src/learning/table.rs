//! The address table: which station is behind which port. All workers share the table without locks.
//!
//! A bucket is one cache line of five entries. An entry is one word with address and port, so that it is always
//! read whole. Beside it is the second in which the station was last seen. A keyed hash gives the bucket of an
//! address, so a guest cannot choose addresses that evict others.
//!
//! # VLANs
//!
//! A station in a VLAN is stored under its address combined with a mask of 47 bits, which follows from the VLAN
//! and the table's key. An entry thus stays one word. The mask of VLAN 0 is 0, so a table without VLANs is
//! unchanged. Two stations in different VLANs share an entry by chance for one pair in 2^47. A sender without the
//! key cannot cause that, and a frame for a port that is not in the VLAN is dropped there
//! ([`crate::VlanLearning`]).
//!
//! # Races
//!
//! Entries are changed by compare-and-swap, so counts per port are exact. The second is written after the
//! entry. A reader between the two writes takes the station for expired and floods one frame. If two workers learn
//! one address at the same moment while a third empties a slot, the address can be twice in its bucket. The first
//! entry counts, the other expires.
use std::collections::HashMap;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use virtio::net::MacAddress;

use crate::Key;
use crate::PortId;
use crate::learning::station::Station;

/// Options of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// The number of addresses that the table is made for. The table has two and a half times as many entries,
    /// rounded up to whole buckets, so that few addresses are evicted early.
    pub addresses: usize,
    /// The most addresses that are learned behind one port, so that one guest cannot fill the table.
    pub addresses_per_port: u32,
    /// A station is forgotten when it was not seen for this time (IEEE 802.1Q §8.8.3 recommends 300 s).
    pub ageing_seconds: u32,
    /// How often an address may move away from its port before it is held there; see [`MOVE_WINDOW_SECONDS`].
    pub max_moves: u16,
}

impl Default for TableOptions {
    fn default() -> Self {
        TableOptions { addresses: 4096, addresses_per_port: 1024, ageing_seconds: 300, max_moves: 5 }
    }
}

/// Moves are counted until an address has not moved for this time. An address that moves more often is *held*: it
/// stays at its port, and may only return to the port that it left first, its home. Frames from other ports with
/// that source address are dropped. In a loop the same frame returns again and again, and each time it would
/// redirect the station's frames. RFC 7432 section 15.1 treats duplicate addresses in this way (five moves in
/// three minutes).
pub const MOVE_WINDOW_SECONDS: u32 = 10;

/// A held address moves nevertheless if it was not seen for so long where it is: it has really moved.
const HOLDER_SILENT_SECONDS: u32 = 5;

/// The events of the table so far, and its present size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct TableCounts {
    /// Addresses in the table now.
    pub addresses: u64,
    /// Addresses learned that were not there before.
    pub learned: u64,
    /// Stations that were seen from another port than before.
    pub moved: u64,
    /// How often a station was seen from another port and did not move, because it moves too often.
    pub moves_refused: u64,
    /// Stations that were forgotten because they were not seen for too long.
    pub expired: u64,
    /// Stations evicted from a full bucket.
    pub evicted: u64,
    /// Frames whose sender was not learned because its port has reached its limit of addresses.
    pub over_limit: u64,
}

const ENTRIES: usize = 5;

/// No entry: the address 00:00:00:00:00:00 behind port 0, which is never learned.
const EMPTY: u64 = 0;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Bucket {
    entries: [AtomicU64; ENTRIES],
    /// The second of [`MacTable::now`] in which the station was last seen.
    last_seen: [AtomicU32; ENTRIES],
}

/// Why an address was not learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The address is reserved for another port.
    Owned,
    /// The address is held behind another port, because it moves too often.
    MovesTooOften,
}

/// Moves of an address lately: the second of the last that counts, its home, and how many. One word, so that it
/// is never seen half-written; two workers that write it at once count one move for two.
#[derive(Clone, Copy)]
struct Moves {
    second: u32,
    home: PortId,
    count: u16,
}

impl Moves {
    fn of(word: u64) -> Self {
        Moves { second: (word >> 32) as u32, home: PortId((word >> 16) as u16), count: word as u16 }
    }

    fn word(self) -> u64 {
        u64::from(self.second) << 32 | u64::from(self.home.0) << 16 | u64::from(self.count)
    }
}

/// Learned addresses.
#[derive(Debug)]
pub struct MacTable {
    buckets: Box<[Bucket]>,
    /// The moves of each entry's address. They are read when the address moves again.
    moves: Box<[[AtomicU64; ENTRIES]]>,
    /// The VLAN of each entry, for a list of all stations. Written after the entry.
    vlans: Box<[[AtomicU16; ENTRIES]]>,
    key: Key,
    options: TableOptions,
    /// Seconds since the start, written by the control thread.
    now: AtomicU32,
    /// The number of addresses behind each port.
    behind: Box<[AtomicU32]>,
    /// Addresses that are reserved for some ports; no other port may use them.
    owners: RwLock<HashMap<MacAddress, Vec<PortId>>>,
    learned: AtomicU64,
    moved: AtomicU64,
    moves_refused: AtomicU64,
    expired: AtomicU64,
    evicted: AtomicU64,
    over_limit: AtomicU64,
}

fn owners(own: impl IntoIterator<Item = (MacAddress, PortId)>) -> HashMap<MacAddress, Vec<PortId>> {
    let mut owners = HashMap::<_, Vec<_>>::new();
    own.into_iter().for_each(|(address, port)| owners.entry(address).or_default().push(port));
    owners
}

fn entry(address: MacAddress, port: PortId) -> u64 {
    address.to_u64() << 16 | u64::from(port.0)
}

fn address_of(entry: u64) -> MacAddress {
    MacAddress::from_u64(entry >> 16)
}

fn port_of(entry: u64) -> PortId {
    PortId(entry as u16)
}

/// Seconds since a station was seen. The worker that saw it may have read the clock later than the one that asks,
/// so the difference can be negative: then the station was seen just now.
fn age(last_seen: u32, now: u32) -> u32 {
    now.saturating_sub(last_seen)
}

impl MacTable {
    /// An empty table for ports `0 .. ports`, some of which have reserved addresses.
    pub fn new(
        options: TableOptions,
        ports: usize,
        own: impl IntoIterator<Item = (MacAddress, PortId)>,
    ) -> Self {
        let buckets = options.addresses.div_ceil(2).clamp(1, 1 << 24).next_power_of_two();
        MacTable {
            buckets: (0..buckets).map(|_| Bucket::default()).collect(),
            moves: (0..buckets).map(|_| Default::default()).collect(),
            vlans: (0..buckets).map(|_| Default::default()).collect(),
            key: Key::random(),
            options,
            now: AtomicU32::new(0),
            behind: (0..ports).map(|_| AtomicU32::new(0)).collect(),
            owners: RwLock::new(owners(own)),
            learned: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            moves_refused: AtomicU64::new(0),
            expired: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            over_limit: AtomicU64::new(0),
        }
    }

    /// Replaces the addresses that are reserved for ports.
    pub fn set_own(&self, own: impl IntoIterator<Item = (MacAddress, PortId)>) {
        let owners = owners(own);
        *self.owners.write().unwrap_or_else(PoisonError::into_inner) = owners;
    }

    fn is_another_ports_own(&self, address: MacAddress, port: PortId) -> bool {
        // While the owners are changed, no new address is learned: no worker waits, and no foreign address is
        // accepted.
        let Ok(owners) = self.owners.try_read() else { return true };
        owners.get(&address).is_some_and(|owners| !owners.contains(&port))
    }

    /// Sets the present time, in seconds since the start.
    pub fn set_now(&self, seconds: u32) {
        self.now.store(seconds, Ordering::Relaxed);
    }

    #[inline(always)]
    fn bucket(&self, address: MacAddress) -> &Bucket {
        &self.buckets[self.index(address)]
    }

    #[inline(always)]
    fn index(&self, address: MacAddress) -> usize {
        let hash = self.key.hash(address.to_u64());
        hash as usize & (self.buckets.len() - 1)
    }

    fn is_old(&self, last_seen: u32, now: u32) -> bool {
        age(last_seen, now) > self.options.ageing_seconds
    }

    /// Converts the address of a station of a VLAN to the stored address, and back. The bit of group addresses stays.
    #[inline(always)]
    fn masked(&self, vlan: u16, address: MacAddress) -> MacAddress {
        const ALL_BUT_GROUP: u64 = 0xfeff_ffff_ffff;
        match vlan {
            0 => address,
            // No address is so long.
            _ => MacAddress::from_u64(
                address.to_u64() ^ (self.key.hash(1 << 63 | u64::from(vlan)) & ALL_BUT_GROUP),
            ),
        }
    }

    /// The port behind which a station is.
    #[inline(always)]
    pub fn lookup(&self, address: MacAddress) -> Option<PortId> {
        let bucket = self.bucket(address);
        let now = self.now.load(Ordering::Relaxed);
        for (slot, last_seen) in bucket.entries.iter().zip(&bucket.last_seen) {
            let found = slot.load(Ordering::Relaxed);
            if found >> 16 == address.to_u64() && found != EMPTY {
                let old = self.is_old(last_seen.load(Ordering::Relaxed), now);
                return (!old).then_some(port_of(found));
            }
        }
        None
    }

    /// The port behind which a station of a VLAN is. VLAN 0 stands for frames without tag.
    #[inline(never)] // so that `lookup` is as short as it was where there are no VLANs
    pub fn lookup_in(&self, vlan: u16, address: MacAddress) -> Option<PortId> {
        self.lookup(self.masked(vlan, address))
    }

    /// Learns that a station was seen behind a port. Group addresses and 00:00:00:00:00:00 are no stations and are
    /// ignored.
    ///
    /// # Errors
    /// The address is reserved for another port, or it is held behind another port because it has moved too often.
    #[inline(always)]
    pub fn learn(&self, address: MacAddress, port: PortId) -> Result<(), Refused> {
        let now = self.now.load(Ordering::Relaxed);
        match self.sees(address, port, now) {
            true => Ok(()),
            false => self.learn_new(address, port, now),
        }
    }

    /// As [`MacTable::learn`], for a station of a VLAN. VLAN 0 stands for frames without tag.
    ///
    /// # Errors
    /// As [`MacTable::learn`].
    #[inline(never)] // so that `learn` is as short as it was where there are no VLANs
    pub fn learn_in(&self, vlan: u16, station: MacAddress, port: PortId) -> Result<(), Refused> {
        let now = self.now.load(Ordering::Relaxed);
        match self.sees(self.masked(vlan, station), port, now) {
            true => Ok(()),
            false => self.learn_new_in(vlan, station, port, now),
        }
    }

    /// Whether the stored address is known behind a port. If so, notes that it was seen there now.
    #[inline(always)]
    fn sees(&self, address: MacAddress, port: PortId, now: u32) -> bool {
        let bucket = self.bucket(address);
        let new = entry(address, port);
        for (slot, last_seen) in bucket.entries.iter().zip(&bucket.last_seen) {
            if slot.load(Ordering::Relaxed) == new && new >> 16 != 0 {
                // Written once a second and not with each frame: the line stays shared by all workers.
                if last_seen.load(Ordering::Relaxed) != now {
                    last_seen.store(now, Ordering::Relaxed);
                }
                return true;
            }
        }
        false
    }

    #[cold]
    fn learn_new(&self, address: MacAddress, port: PortId, now: u32) -> Result<(), Refused> {
        self.learn_new_in(0, address, port, now)
    }

    #[cold]
    fn learn_new_in(&self, vlan: u16, station: MacAddress, port: PortId, now: u32) -> Result<(), Refused> {
        if self.is_another_ports_own(station, port) {
            return Err(Refused::Owned);
        }
        if station.is_group() || station.to_u64() == 0 {
            return Ok(());
        }
        let address = self.masked(vlan, station);
        let at = self.index(address);
        if !self.may_move(at, address, port, now) {
            self.moves_refused.fetch_add(1, Ordering::Relaxed);
            return Err(Refused::MovesTooOften);
        }
        self.enter(at, vlan, address, port, now);
        Ok(())
    }

    /// Whether an address may be seen from this port now. Counts the move that is about to be made.
    fn may_move(&self, at: usize, address: MacAddress, port: PortId, now: u32) -> bool {
        let bucket = &self.buckets[at];
        let same = |slot: &AtomicU64| slot.load(Ordering::Relaxed) >> 16 == address.to_u64();
        let Some(slot) = bucket.entries.iter().position(same) else { return true };
        let holder = port_of(bucket.entries[slot].load(Ordering::Relaxed));
        let silent = age(bucket.last_seen[slot].load(Ordering::Relaxed), now);
        let word = &self.moves[at][slot];
        let moves = Moves::of(word.load(Ordering::Relaxed));
        let at_rest = moves.count == 0
            || age(moves.second, now) > MOVE_WINDOW_SECONDS
            || silent > HOLDER_SILENT_SECONDS;
        let (next, may) = if at_rest {
            (Moves { second: now, home: holder, count: 1 }, true)
        } else if port == moves.home {
            (moves, true)
        } else if moves.count < self.options.max_moves {
            (Moves { count: moves.count + 1, ..moves }, true)
        } else {
            (Moves { second: now, ..moves }, false)
        };
        word.store(next.word(), Ordering::Relaxed);
        may
    }

    fn enter(&self, at: usize, vlan: u16, address: MacAddress, port: PortId, now: u32) {
        let bucket = &self.buckets[at];
        let Some(behind) = self.behind.get(usize::from(port.0)) else { return };
        // Taken before the entry is written, so that no number of workers gets over the limit.
        if behind.fetch_add(1, Ordering::Relaxed) >= self.options.addresses_per_port {
            behind.fetch_sub(1, Ordering::Relaxed);
            self.over_limit.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // Other workers change the bucket at most as often as there are workers; the next frame tries again.
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
                let last_seen = bucket.last_seen[index].swap(now, Ordering::Relaxed);
                if old >> 16 != address.to_u64() {
                    self.moves[at][index].store(0, Ordering::Relaxed);
                }
                self.vlans[at][index].store(vlan, Ordering::Relaxed);
                self.count_replaced(old, address, self.is_old(last_seen, now));
                return;
            }
        }
        behind.fetch_sub(1, Ordering::Relaxed);
    }

    /// The place for an address: its present place, else a free place, else the place of the station that was not seen
    /// for the longest time.
    fn place(&self, bucket: &Bucket, address: MacAddress, now: u32) -> (usize, u64) {
        let entries: [u64; ENTRIES] = std::array::from_fn(|i| bucket.entries[i].load(Ordering::Relaxed));
        let age = |i: &usize| age(bucket.last_seen[*i].load(Ordering::Relaxed), now);
        let there = entries.iter().position(|found| *found >> 16 == address.to_u64());
        let free = || entries.iter().position(|found| *found == EMPTY);
        let oldest = || (0..ENTRIES).max_by_key(age);
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
        // The counts are exact and are taken before an entry is written. Without them each change of a port would read
        // the whole table for every port that was ever removed.
        if self.behind(port) > 0 {
            self.remove(|entry, _| port_of(entry) == port);
        }
    }

    /// Forgets the stations that were not seen for too long, so that they are no longer counted.
    pub fn sweep(&self) {
        let now = self.now.load(Ordering::Relaxed);
        let removed = self.remove(|_, last_seen| self.is_old(last_seen, now));
        self.expired.fetch_add(removed, Ordering::Relaxed);
    }

    fn remove(&self, which: impl Fn(u64, u32) -> bool) -> u64 {
        let mut removed = 0;
        for bucket in &self.buckets {
            for (slot, last_seen) in bucket.entries.iter().zip(&bucket.last_seen) {
                let old = slot.load(Ordering::Relaxed);
                let goes = old != EMPTY && which(old, last_seen.load(Ordering::Relaxed));
                let gone = || slot.compare_exchange(old, EMPTY, Ordering::Relaxed, Ordering::Relaxed);
                if goes && gone().is_ok() {
                    self.uncount(old);
                    removed += 1;
                }
            }
        }
        removed
    }

    /// The number of addresses behind a port.
    pub fn behind(&self, port: PortId) -> u32 {
        self.behind.get(usize::from(port.0)).map_or(0, |behind| behind.load(Ordering::Relaxed))
    }

    /// Forgets all stations.
    pub fn flush_all(&self) {
        self.remove(|_, _| true);
    }

    /// Forgets a station of a VLAN.
    pub fn forget(&self, vlan: u16, station: MacAddress) {
        let address = self.masked(vlan, station);
        self.remove(|entry, _| address_of(entry) == address);
    }

    /// All stations, whether they were seen lately or not.
    pub fn stations(&self) -> impl Iterator<Item = Station> {
        let now = self.now.load(Ordering::Relaxed);
        let entries = self.buckets.iter().flat_map(|bucket| bucket.entries.iter().zip(&bucket.last_seen));
        entries.zip(self.vlans.iter().flatten()).filter_map(move |((slot, last_seen), vlan)| {
            let (found, vlan) = (slot.load(Ordering::Relaxed), vlan.load(Ordering::Relaxed));
            let age_seconds = age(last_seen.load(Ordering::Relaxed), now);
            let address = self.masked(vlan, address_of(found));
            (found != EMPTY).then_some(Station { vlan, address, port: port_of(found), age_seconds })
        })
    }

    /// The events of the table so far, and its present size.
    pub fn counts(&self) -> TableCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TableCounts {
            addresses: self.behind.iter().map(|n| u64::from(n.load(Ordering::Relaxed))).sum(),
            learned: read(&self.learned),
            moved: read(&self.moved),
            moves_refused: read(&self.moves_refused),
            expired: read(&self.expired),
            evicted: read(&self.evicted),
            over_limit: read(&self.over_limit),
        }
    }
}

#[cfg(test)]
mod tests;
