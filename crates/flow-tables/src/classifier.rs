//! Finds the flow with the highest priority that matches.
//!
//! A tuple is a hash table of flows. The tuple hashes some bits of a key, and holds flows whose masks have at least
//! these bits, so that flows with different masks share a tuple (TupleMerge; J. Daly and others, IEEE/ACM
//! Transactions on Networking 27, 2019). A flow goes into the first tuple in which fewer than [`COLLISIONS`] flows
//! have its hash.
//!
//! # Bound
//!
//! A look-up hashes the key at most once for each tuple, and compares it with at most [`COLLISIONS`] flows there; flows
//! that have the same match and differ only in priority are not limited. There are at most twice as many tuples as
//! different masks of the flows. The cost of a look-up does not depend on earlier frames. A tuple in all of whose flows
//! some bits have other values than the key's is not hashed.
//!
//! A look-up notes the bits of the key on which it depends ([`Consulted`]). Where a tuple of more than [`FEW`] flows has
//! none for the key, these are all bits that are hashed.
//!
//! # Changes
//!
//! All parts are kept behind [`Arc`]. A clone shares the parts. A change copies the chunk that it changes and the
//! pointers to its neighbors; a reader continues with its own clone.
use std::cmp::Reverse;
use std::sync::Arc;

use flow::{Field, Key, Match};

use crate::Entry;
use crate::words::{Consulted, Valued, Words};

/// The largest number of flows with one hash in one tuple.
pub const COLLISIONS: usize = 8;
/// Flows in a chunk on average, beyond which chunks are made smaller.
const CHUNK: usize = 8;

/// The order of flows: by priority, then by age.
pub(crate) type Rank = (Reverse<u16>, u64);

/// The cost of a look-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// The number of tuples whose bits were hashed.
    pub tuples: usize,
    /// The number of flows that the key was compared with.
    pub compared: usize,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.tuples += other.tuples;
        self.compared += other.compared;
    }
}

/// A flow in a tuple.
#[derive(Debug)]
pub(crate) struct Slot {
    rank: Rank,
    mask: Words,
    entry: Arc<Entry>,
}

impl Slot {
    pub(crate) fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    pub(crate) fn rank(&self) -> Rank {
        self.rank
    }

    pub(crate) fn priority(&self) -> u16 {
        self.rank.0.0
    }

    fn matches(&self, key: &Key, consulted: &mut Consulted) -> bool {
        let matches = !consulted.differs(key, self.mask.with(self.entry.flow.wanted.value()));
        if matches {
            consulted.add(&self.mask);
        }
        matches
    }
}

/// A flow's place in a chunk. The hashes of a chunk are side by side, so that a look-up reads no flow with another hash.
#[derive(Clone, Debug)]
struct Place {
    hash: u64,
    slot: Arc<Slot>,
}

/// Flows that are hashed by the same bits.
#[derive(Clone, Debug)]
struct Tuple {
    mask: Key,
    hashed: Words,
    /// Bits that all flows match, with the values that all of them want. A key with other values is not hashed. After a
    /// removal, there may be more such bits.
    common: Vec<Valued>,
    /// The chunks, indexed by the highest bits of the hash; their number is a power of two.
    chunks: Vec<Arc<Vec<Place>>>,
    flows: usize,
    /// The best rank of a flow in the tuple, or a better one while `stale` is set.
    best: Rank,
    /// Set when the best flow was removed and `best` was not determined again: the number of flows at that time.
    stale: Option<usize>,
}

/// In a tuple with at most this number of flows, a key for which there is no flow is compared with each of them.
const FEW: usize = 16;

/// Tuples with fewer flows than this always know their best rank.
const EXACT: usize = 64;

impl Tuple {
    fn new(mask: Key) -> Self {
        let chunks = vec![Arc::default()];
        let best = (Reverse(0), u64::MAX);
        Self { mask, hashed: Words::of(&mask), common: Vec::new(), chunks, flows: 0, best, stale: None }
    }

    fn chunk_of(&self, hash: u64) -> usize {
        let bits = self.chunks.len().trailing_zeros();
        hash.checked_shr(64 - bits).unwrap_or(0) as usize
    }

    fn with_hash(&self, hash: u64) -> impl Iterator<Item = &Arc<Slot>> {
        let places = self.chunks[self.chunk_of(hash)].iter();
        places.filter(move |place| place.hash == hash).map(|place| &place.slot)
    }

    fn places(&self) -> impl Iterator<Item = &Place> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    fn slots(&self) -> impl Iterator<Item = &Arc<Slot>> {
        self.places().map(|place| &place.slot)
    }

    fn insert(&mut self, hash: u64, slot: Slot) {
        match self.flows {
            0 => self.common = slot.mask.with(slot.entry.flow.wanted.value()).collect(),
            _ => self.keep_common(&slot.entry.flow.wanted),
        }
        self.flows += 1;
        self.best = self.best.min(slot.rank);
        if self.flows > CHUNK * self.chunks.len() {
            let places: Vec<_> = self.places().cloned().collect();
            let mut chunks = vec![Vec::new(); self.chunks.len() * 2];
            self.chunks.resize(chunks.len(), Arc::default());
            places.into_iter().for_each(|place| chunks[self.chunk_of(place.hash)].push(place));
            self.chunks = chunks.into_iter().map(Arc::new).collect();
        }
        let at = self.chunk_of(hash);
        let chunk = Arc::make_mut(&mut self.chunks[at]);
        let index = chunk.partition_point(|other| other.slot.rank < slot.rank);
        chunk.insert(index, Place { hash, slot: Arc::new(slot) });
    }

    /// Takes away the bits that a flow does not match with the common values.
    fn keep_common(&mut self, wanted: &Match) {
        self.common.retain_mut(|word| {
            let at = usize::from(word.at);
            word.mask &= wanted.mask().words()[at] & !(wanted.value().words()[at] ^ word.value);
            word.mask != 0
        });
    }

    /// No flow matches that is better than `best`: notes the bits on which this depends.
    fn consult(&self, key: &Key, best: Option<Rank>, consulted: &mut Consulted) {
        if self.flows > FEW {
            return consulted.add(&self.hashed);
        }
        for slot in self.slots().filter(|slot| best.is_none_or(|best| slot.rank < best)) {
            consulted.differs(key, slot.mask.with(slot.entry.flow.wanted.value()));
        }
    }

    /// The flows with this hash and priority. Chunks are in the order of ranks.
    fn with_priority(&self, hash: u64, priority: u16) -> impl Iterator<Item = &Arc<Slot>> {
        let chunk = &self.chunks[self.chunk_of(hash)];
        let from = chunk.partition_point(|place| place.slot.rank.0 < Reverse(priority));
        let same = chunk[from..].iter().take_while(move |place| place.slot.priority() == priority);
        same.filter(move |place| place.hash == hash).map(|place| &place.slot)
    }

    /// Removes a flow. The best rank is searched among all flows at most once while an eighth of them is removed, so
    /// that the removal of many flows takes a time that is proportional to their number.
    fn remove(&mut self, hash: u64, rank: Rank) {
        let at = self.chunk_of(hash);
        let chunk = Arc::make_mut(&mut self.chunks[at]);
        let Ok(index) = chunk.binary_search_by_key(&rank, |place| place.slot.rank) else { return };
        chunk.remove(index);
        self.flows -= 1;
        if self.best == rank {
            self.stale.get_or_insert(self.flows);
        }
        if self.stale.is_some_and(|flows| self.flows < EXACT || self.flows < flows - flows / 8) {
            let firsts = self.chunks.iter().filter_map(|chunk| chunk.first());
            self.best = firsts.map(|place| place.slot.rank).min().unwrap_or((Reverse(0), u64::MAX));
            self.stale = None;
        }
    }
}

/// The flows of one table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Classifier {
    seed: u64,
    /// The tuples, the one with the best flow first.
    tuples: Vec<Arc<Tuple>>,
    next: u64,
}

/// The bits of a mask that are hashed at first: whole fields, and whole bytes of prefixes.
fn relaxed(mask: &Key) -> Key {
    let mut words = Key::ZERO;
    for field in Field::ALL {
        let (bits, all) = (mask.get(*field), field.all_bits());
        let is_prefix =
            bits.checked_shl(128 - field.bits()).is_some_and(|bits| bits.leading_ones() == bits.count_ones());
        if bits == all {
            words.set(*field, all);
        } else if is_prefix && field.bits() >= 32 {
            let length = bits.count_ones() / 8 * 8;
            let rest = all.checked_shr(length).unwrap_or(0);
            words.set_masked(*field, u128::MAX, all & !rest);
        }
    }
    words.and(mask)
}

impl Classifier {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// All flows, in no order.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.tuples.iter().flat_map(|tuple| tuple.slots()).map(|slot| &**slot)
    }

    /// The number of tuples.
    pub(crate) fn tuples(&self) -> usize {
        self.tuples.len()
    }

    /// The flow with this very match and priority: its tuple and its place there.
    fn find(&self, priority: u16, wanted: &Match) -> Option<(usize, Place)> {
        let tuples = self.tuples.iter().enumerate();
        tuples.filter(|(_, tuple)| tuple.mask.is_within(wanted.mask())).find_map(|(at, tuple)| {
            let hash = tuple.hashed.hash(self.seed, wanted.value());
            let mut slots = tuple.with_priority(hash, priority);
            let slot = slots.find(|slot| slot.entry.flow.wanted == *wanted);
            slot.map(|slot| (at, Place { hash, slot: Arc::clone(slot) }))
        })
    }

    pub(crate) fn get(&self, priority: u16, wanted: &Match) -> Option<Arc<Entry>> {
        self.find(priority, wanted).map(|(_, place)| Arc::clone(&place.slot.entry))
    }

    /// Inserts a flow. A flow with the same match and priority is replaced, and returned.
    pub(crate) fn insert(&mut self, entry: Arc<Entry>) -> Option<Arc<Entry>> {
        let old = self.find(entry.flow.priority, &entry.flow.wanted);
        let rank = match &old {
            Some((at, place)) => {
                self.take(*at, place);
                place.slot.rank
            }
            None => {
                self.next += 1;
                (Reverse(entry.flow.priority), self.next)
            }
        };
        let wanted = &entry.flow.wanted;
        let at = self.place(wanted).unwrap_or_else(|mask| {
            self.tuples.push(Arc::new(Tuple::new(*mask)));
            self.tuples.len() - 1
        });
        let hash = self.tuples[at].hashed.hash(self.seed, wanted.value());
        let slot = Slot { rank, mask: Words::of(wanted.mask()), entry };
        Arc::make_mut(&mut self.tuples[at]).insert(hash, slot);
        self.sort();
        old.map(|(_, place)| Arc::clone(&place.slot.entry))
    }

    /// The tuple for a flow: one with room whose bits are among the flow's, or the mask of a new one.
    fn place(&self, wanted: &Match) -> Result<usize, Box<Key>> {
        let has_room = |tuple: &Tuple| {
            let hash = tuple.hashed.hash(self.seed, wanted.value());
            tuple.with_hash(hash).nth(COLLISIONS - 1).is_none()
        };
        let fits = |tuple: &Arc<Tuple>| tuple.mask.is_within(wanted.mask()) && has_room(tuple);
        if let Some(at) = self.tuples.iter().position(fits) {
            return Ok(at);
        }
        let known = |mask: &Key| self.tuples.iter().position(|tuple| tuple.mask == *mask);
        let mask = Some(relaxed(wanted.mask())).filter(|mask| known(mask).is_none());
        let mask = mask.unwrap_or(*wanted.mask());
        known(&mask).ok_or_else(|| Box::new(mask))
    }

    /// Whether a flow with this match needs a tuple more.
    pub(crate) fn needs_tuple(&self, wanted: &Match) -> bool {
        self.place(wanted).is_err()
    }

    fn sort(&mut self) {
        self.tuples.sort_by_key(|tuple| tuple.best);
    }

    fn take(&mut self, at: usize, place: &Place) {
        let tuple = Arc::make_mut(&mut self.tuples[at]);
        tuple.remove(place.hash, place.slot.rank);
        if tuple.flows == 0 {
            self.tuples.remove(at);
        }
    }

    /// Removes a flow.
    pub(crate) fn remove(&mut self, priority: u16, wanted: &Match) -> Option<Arc<Entry>> {
        let (at, place) = self.find(priority, wanted)?;
        self.take(at, &place);
        self.sort();
        Some(Arc::clone(&place.slot.entry))
    }

    /// The best flow that matches; adds the cost of the look-up to `cost`, and the bits on which it depends to `consulted`.
    pub(crate) fn lookup(
        &self,
        key: &Key,
        cost: &mut Cost,
        consulted: &mut Consulted,
    ) -> Option<&Arc<Entry>> {
        let mut best: Option<&Arc<Slot>> = None;
        for tuple in &self.tuples {
            if best.is_some_and(|best| best.rank < tuple.best) {
                break;
            }
            if consulted.differs(key, tuple.common.iter().copied()) {
                continue;
            }
            cost.tuples += 1;
            let hash = tuple.hashed.hash(self.seed, key);
            let better =
                tuple.with_hash(hash).take_while(|slot| best.is_none_or(|best| slot.rank < best.rank));
            let found = better.inspect(|_| cost.compared += 1).find(|slot| slot.matches(key, consulted));
            match found {
                Some(slot) => best = Some(slot),
                None => tuple.consult(key, best.map(|best| best.rank), consulted),
            }
        }
        best.map(|slot| &slot.entry)
    }

    /// Fills `found` with all flows that match and have a higher priority than this, best first.
    pub(crate) fn matching<'a>(
        &'a self,
        key: &Key,
        above: Option<u16>,
        found: &mut Vec<&'a Slot>,
        cost: &mut Cost,
        consulted: &mut Consulted,
    ) {
        let counts = |rank: Rank| above.is_none_or(|priority| rank.0.0 > priority);
        found.clear();
        for tuple in self.tuples.iter().take_while(|tuple| counts(tuple.best)) {
            if consulted.differs(key, tuple.common.iter().copied()) {
                continue;
            }
            cost.tuples += 1;
            let hash = tuple.hashed.hash(self.seed, key);
            consulted.add(&tuple.hashed);
            for slot in tuple.with_hash(hash).filter(|slot| counts(slot.rank)) {
                cost.compared += 1;
                if slot.matches(key, consulted) {
                    found.push(slot);
                }
            }
        }
        found.sort_unstable_by_key(|slot| slot.rank);
    }
}
