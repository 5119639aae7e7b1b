//! Keeps the outcomes of frames, for later frames with the same fields.
//!
//! A cache belongs to one input: the frames of one port, or of one tunnel. Frames of other inputs evict nothing from it.
//! It has a fixed number of places, in sets of [`WAYS`]. A frame is compared with the places of one set: this is the one
//! look-up of a hit, whatever other frames there are.
//!
//! The fields that are compared are those that a flow matches and those that an action reads or writes
//! ([`Tables::compared`]). They are compared whole and not by a hash alone, so a frame never gets another frame's
//! outcome. A frame whose outcome depends on more than its fields, the tables and the ports goes through the tables each
//! time; [`Uncached`] lists the reasons. A change of the tables, or of the ports by [`Cache::forget`], invalidates all
//! kept outcomes.
//!
//! An outcome ends where connection tracking sends a frame to a table. The frame is tracked, and is looked up again: now
//! also by that table, its registers, and the state, zone, mark, label and first direction of its connection, as far as
//! flows match them. So connections in the same state share an outcome, and a frame costs one look-up more for each `ct`.
//!
//! A meter, a comparison of the length, a label that was removed and an address translation whose frame does not go to a
//! table decide about the steps that follow. They are part of the outcome, as they were for its first frame. For a frame about which they decide
//! otherwise, the outcome is taken back: the frame goes through the tables, which ask neither the meter nor connection
//! tracking again.
//!
//! A new outcome replaces one that no frame has had since the last replacement in its set. Frames that come once
//! therefore replace each other, and the outcomes of a connection stay.
//!
//! Frames and bytes of a hit are counted in the place alone. [`Cache::flush`] adds them to the flows.
mod replay;

use std::sync::Arc;

use flow::{Field, Key};

use crate::execute::{MAX_RESUBMITS, MAX_WAITING};
use crate::fields::{FRAME_WORDS, frame_words};
use crate::lists::Lists;
use crate::outcome::{Outcome, Step, Uncached};
use crate::passage::execute_all;
use crate::segment::Start;
use crate::{Cost, Entry, HeaderWindow, Overrun, Surroundings, Tables};

/// The number of places in a set.
pub const WAYS: usize = 4;
/// The largest number of steps in a kept outcome; it limits the memory of a place.
pub const MAX_STEPS: usize = 64;
/// The largest number of flows in a kept outcome.
pub const MAX_HITS: usize = 512;

/// Words of the compared fields, and one that says where a frame begins.
const MAX_WORDS: usize = Key::WORDS + 1;
/// The outcome that is kept of a frame, and the frames that have had it since the last [`Cache::flush`].
#[derive(Debug, Default)]
struct Place {
    /// Whether a frame has had the outcome since the last replacement in the set.
    is_used: bool,
    /// Whether the place is in [`Cache::counted`].
    is_counted: bool,
    packets: u64,
    bytes: u64,
    steps: Vec<Step>,
    /// The fields before each step that tracks a copy.
    keys: Vec<Key>,
    flows: Vec<Arc<Entry>>,
    overrun: Option<Overrun>,
    /// The visits to tables, without those of earlier segments.
    visits: u32,
    /// The number of steps up to the last one that says whether those behind it hold; 0 if there is none.
    guarded: u32,
}

impl Place {
    fn flush(&mut self, now_ms: u64) {
        let (packets, bytes) = (std::mem::take(&mut self.packets), std::mem::take(&mut self.bytes));
        if packets > 0 {
            self.flows.iter().for_each(|entry| entry.count_all(packets, bytes, now_ms));
        }
    }
}

/// What a cache has done. A frame is looked up once, and again each time when it goes on behind `ct`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Look-ups whose outcome was kept.
    pub hits: u64,
    /// Look-ups behind which the frame went through the tables.
    pub misses: u64,
    /// The cost of all look-ups in tables.
    pub cost: Cost,
}

/// The outcomes of one input's frames, in a fixed number of places.
#[derive(Debug)]
pub struct Cache {
    /// The input port and the registers of all frames, and the tunnel of the present one.
    metadata: Key,
    /// Whether frames come through tunnels. All tunnel fields of such frames are compared.
    is_tunnel: bool,
    /// The bits of the frame's fields that are compared.
    mask: [u64; FRAME_WORDS],
    /// The words in which there are compared bits: those of the frame, and then those that registers and the connection
    /// have too.
    words: Vec<Word>,
    /// The number of words that belong to the frame.
    frame_words: usize,
    /// The present look-up: where the frame begins, and the compared bits.
    probe: [u64; MAX_WORDS],
    seed: u64,
    /// The tables' generation for which the outcomes hold, and a number that is new for each.
    generation: Option<u64>,
    epoch: u32,
    /// By place: the epoch, and some bits of the hash. Zero is no epoch.
    tags: Vec<(u32, u32)>,
    /// By place: the words of the look-up.
    keys: Vec<u64>,
    places: Vec<Place>,
    /// Places that may have frames that are not flushed.
    counted: Vec<u32>,
    copies: Vec<HeaderWindow>,
    counts: CacheCounts,
}

impl Cache {
    /// A cache for frames with this input port, tunnel and registers, and at least this number of places. A place takes
    /// 120 bytes, and 8 bytes for each word in which there are compared bits, at most 416. A step of an outcome takes 128
    /// bytes, one that sends a tracked frame to a table 408 more, and a flow 8 bytes: the longest outcome ([`MAX_STEPS`],
    /// [`MAX_HITS`]) takes 37 KiB. The memory of an outcome is reused for later ones in its place.
    pub fn new(places: usize, metadata: &Key) -> Self {
        let places = places.div_ceil(WAYS).max(1).next_power_of_two() * WAYS;
        let mut all = Vec::new();
        all.resize_with(places, Place::default);
        Self {
            metadata: *metadata,
            is_tunnel: false,
            mask: [0; FRAME_WORDS],
            words: Vec::with_capacity(Key::WORDS),
            frame_words: 0,
            probe: [0; MAX_WORDS],
            seed: 0,
            generation: None,
            epoch: 0,
            tags: vec![(0, 0); places],
            keys: vec![0; places * MAX_WORDS],
            places: all,
            counted: Vec::with_capacity(places),
            copies: Vec::new(),
            counts: CacheCounts::default(),
        }
    }

    /// Invalidates all kept outcomes, because ports have changed.
    pub fn forget(&mut self) {
        self.generation = None;
    }

    /// What the cache has done.
    pub fn counts(&self) -> CacheCounts {
        self.counts
    }

    /// Adds the frames since the last call to the counters of their flows, which were last used at `now_ms`.
    pub fn flush(&mut self, now_ms: u64) {
        for at in self.counted.drain(..) {
            let place = &mut self.places[at as usize];
            place.flush(now_ms);
            place.is_counted = false;
        }
    }

    /// Works like [`Tables::execute`] on a frame's window, which it changes, and counts the frame. Deliveries, bytes
    /// and the counters of flows after [`Cache::flush`] are the same as there. The outcome does not list the flows.
    pub fn execute<S: Surroundings>(
        &mut self,
        tables: &Tables,
        window: &mut HeaderWindow,
        around: &mut S,
        outcome: &mut Outcome,
    ) {
        outcome.clear();
        if self.generation != Some(tables.generation()) {
            self.begin(tables, around.now_ms());
        }
        let mut frame = Passing { tables, frame_bytes: window.frame_bytes(), lists: None };
        execute_all(window, outcome, |start, window, outcome| {
            let probe = self.probe(start.as_ref(), window);
            match probe.and_then(|probe| self.find(probe)) {
                Some(found) if self.is_within_limits(found.at, start.as_ref(), outcome) => {
                    self.hit(found, start, &mut frame, window, around, outcome);
                }
                _ => {
                    self.miss(probe, start.as_ref(), &mut frame, window, around, outcome);
                    *start = None;
                }
            }
        });
        if let Some(lists) = frame.lists {
            outcome.memory = lists.memory();
        }
    }

    /// Works like [`Cache::execute`] for a frame with these tunnel fields ([`Key::tunnel`]). The cache is used for such frames
    /// alone.
    pub fn execute_of_tunnel<S: Surroundings>(
        &mut self,
        tunnel: &[u64; Key::TUNNEL_WORDS],
        tables: &Tables,
        window: &mut HeaderWindow,
        around: &mut S,
        outcome: &mut Outcome,
    ) {
        if !self.is_tunnel {
            self.is_tunnel = true;
            self.forget();
        }
        self.metadata.set_tunnel(tunnel);
        self.execute(tables, window, around, outcome);
    }

    /// Whether an outcome stays within the limits that a frame's segments share. If not, the frame goes through the tables,
    /// as far as it comes.
    fn is_within_limits(&self, at: usize, start: Option<&Start>, outcome: &Outcome) -> bool {
        let place = &self.places[at];
        start.is_none()
            || outcome.visits + place.visits <= MAX_RESUBMITS
                && outcome.waiting.len() + place.keys.len() <= MAX_WAITING
    }

    /// Executes the tables, and keeps the outcome if it may be kept. A call of its own: inlined, its addresses would be
    /// computed for each hit.
    #[inline(never)]
    fn miss<'a, S: Surroundings>(
        &mut self,
        probe: Option<Probe>,
        start: Option<&Start>,
        frame: &mut Passing<'a>,
        window: &mut HeaderWindow,
        around: &mut S,
        outcome: &mut Outcome,
    ) {
        self.counts.misses += 1;
        let lists = frame.lists.get_or_insert_with(|| std::mem::take(&mut outcome.memory).lists());
        let first = start.is_none().then(|| Start::first(&self.metadata, window));
        let Some(start) = start.or(first.as_ref()) else { return };
        let before = if start.depth == 0 { 0 } else { outcome.visits };
        self.counts.cost += frame.tables.segment(start, window, around, outcome, lists);
        if outcome.steps.len() > MAX_STEPS || outcome.hits.len() > MAX_HITS {
            outcome.uncached.get_or_insert(Uncached::Long);
        }
        if start.depth > 0 && outcome.overrun == Some(Overrun::Resubmits) {
            // Earlier segments have their part in it.
            outcome.uncached.get_or_insert(Uncached::Connection);
        }
        match (probe, outcome.uncached) {
            (Some(probe), None) => self.keep(&probe, frame.frame_bytes, before, around, outcome),
            _ => outcome.count(frame.frame_bytes, || around.now_ms()),
        }
        outcome.hits.clear();
    }

    /// Begins with tables that are new to the cache.
    #[cold]
    fn begin(&mut self, tables: &Tables, now_ms: u64) {
        self.flush(now_ms);
        (self.generation, self.seed) = (Some(tables.generation()), tables.seed());
        self.epoch = self.epoch.checked_add(1).unwrap_or_else(|| {
            self.tags.fill((0, 0));
            1
        });
        let mut compared = *tables.compared();
        self.mask = *frame_words(&compared);
        if self.is_tunnel {
            // A port that is a tunnel too gets all of them.
            compared.set_tunnel(&[u64::MAX; Key::TUNNEL_WORDS]);
        }
        let used = |words: std::ops::Range<usize>| {
            let used = words.map(|at| Word { at, mask: compared.words()[at] });
            used.filter(|word| word.mask != 0)
        };
        self.words.clear();
        self.words.extend(used(Field::FRAME_WORDS));
        self.frame_words = self.words.len();
        self.words.extend(used(0..Field::FRAME_WORDS.start).chain(used(Field::FRAME_WORDS.end..Key::WORDS)));
    }

    /// Prepares the look-up of a frame. All frames but those from tunnels have the same metadata when they begin. `None` if the frame begins with
    /// more than its fields.
    #[inline(always)]
    fn probe(&mut self, start: Option<&Start>, window: &HeaderWindow) -> Option<Probe> {
        let first;
        let (from, key, words) = match start {
            None if self.is_tunnel => {
                first = Start::first(&self.metadata, window);
                (0, &first.key, self.words.len())
            }
            None => (0, window.held(), self.frame_words),
            Some(start) if start.saved.is_empty() => (start.number(), &start.key, self.words.len()),
            Some(_) => return None,
        };
        self.probe[0] = from;
        let mut hash = self.seed ^ from;
        for (word, to) in self.words[..words].iter().zip(&mut self.probe[1..]) {
            *to = key.words().get(word.at).copied().unwrap_or(0) & word.mask; // below 51
            let product = u128::from(hash.rotate_left(5) ^ *to) * 0x9e37_79b9_7f4a_7c15;
            hash = (product as u64) ^ (product >> 64) as u64;
        }
        Some(Probe { hash, words: 1 + words })
    }

    /// The places of a hash.
    fn set(&self, hash: u64) -> std::ops::Range<usize> {
        let first = (hash as usize & (self.places.len() / WAYS - 1)) * WAYS;
        first..first + WAYS
    }

    fn tag(&self, hash: u64) -> (u32, u32) {
        (self.epoch, (hash >> 32) as u32)
    }

    /// The words of a place that are compared with those of a look-up.
    fn key(&self, at: usize, probe: &Probe) -> std::ops::Range<usize> {
        let first = at * (1 + self.words.len());
        first..first + probe.words
    }

    #[inline(always)]
    fn find(&self, probe: Probe) -> Option<Found> {
        let (tag, wanted) = (self.tag(probe.hash), &self.probe[..probe.words]);
        let mut places = self.set(probe.hash);
        let at = places.find(|at| self.tags[*at] == tag && self.keys[self.key(*at, &probe)] == *wanted)?;
        Some(Found { at, probe })
    }

    /// Keeps an outcome in place of one that no frame has had since the last replacement, if there is one in the set.
    fn keep<S: Surroundings>(
        &mut self,
        probe: &Probe,
        frame_bytes: usize,
        visits_before: u32,
        around: &mut S,
        outcome: &Outcome,
    ) {
        let hash = probe.hash;
        let set = self.set(hash);
        let is_old = |at: &usize| self.tags[*at].0 != self.epoch || !self.places[*at].is_used;
        let first = (hash >> 16) as usize;
        let mut old = (0..WAYS).map(|way| set.start + (first + way) % WAYS).filter(is_old);
        let at = old.next().unwrap_or(set.start + first % WAYS);
        if old.next().is_none() {
            self.places[set].iter_mut().for_each(|place| place.is_used = false);
        }
        self.tags[at] = self.tag(hash);
        let key = self.key(at, probe);
        self.keys[key].copy_from_slice(&self.probe[..probe.words]);
        let place = &mut self.places[at];
        if place.packets > 0 {
            place.flush(around.now_ms());
        }
        place.is_used = false;
        (place.overrun, place.visits) = (outcome.overrun, outcome.visits - visits_before);
        let guard = outcome.steps.iter().rposition(Step::is_guard);
        place.guarded = guard.map_or(0, |at| at as u32 + 1); // at most `MAX_STEPS`
        refill(&mut place.steps, &outcome.steps);
        refill(&mut place.keys, &outcome.keys);
        refill(&mut place.flows, &outcome.hits);
        count(place, at, frame_bytes, &mut self.counted);
    }
}

/// Replaces the values of a list, which gets no more memory than it needs.
fn refill<T: Clone>(list: &mut Vec<T>, values: &[T]) {
    list.clear();
    list.reserve_exact(values.len());
    list.extend_from_slice(values);
}

/// Counts a frame in a place.
fn count(place: &mut Place, at: usize, frame_bytes: usize, counted: &mut Vec<u32>) {
    if !place.is_counted {
        place.is_counted = true;
        counted.push(at as u32); // as many as there are places, at most
    }
    place.packets += 1;
    place.bytes += frame_bytes as u64;
}

/// A word of the compared fields.
#[derive(Clone, Copy, Debug)]
struct Word {
    /// The index of the word in a key.
    at: usize,
    mask: u64,
}

/// A look-up, whose words are in [`Cache::probe`].
#[derive(Clone, Copy, Debug)]
struct Probe {
    hash: u64,
    words: usize,
}

/// A look-up, and the place that has its outcome.
#[derive(Clone, Copy, Debug)]
struct Found {
    at: usize,
    probe: Probe,
}

/// The passage of one frame.
struct Passing<'a> {
    tables: &'a Tables,
    /// The length with which the frame came.
    frame_bytes: usize,
    /// Made when the frame first goes through the tables.
    lists: Option<Lists<'a>>,
}
