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
//! A new outcome replaces one that no frame has had since the last replacement in its set. Frames that come once
//! therefore replace each other, and the outcomes of a connection stay.
//!
//! Frames and bytes of a hit are counted in the place alone. [`Cache::flush`] adds them to the flows.
use std::sync::Arc;

use flow::Key;

use crate::fields::{FRAME_WORDS, frame_words};
use crate::outcome::{Outcome, Step, Uncached};
use crate::{Cost, Delivery, Effect, Entry, HeaderWindow, Overrun, Surroundings, Tables};

/// The number of places in a set.
pub const WAYS: usize = 4;
/// The largest number of steps in a kept outcome; it limits the memory of a place.
pub const MAX_STEPS: usize = 64;
/// The largest number of flows in a kept outcome.
pub const MAX_HITS: usize = 512;

type Words = [u64; FRAME_WORDS];

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
    flows: Vec<Arc<Entry>>,
    overrun: Option<Overrun>,
}

impl Place {
    fn flush(&mut self, now_ms: u64) {
        let (packets, bytes) = (std::mem::take(&mut self.packets), std::mem::take(&mut self.bytes));
        if packets > 0 {
            self.flows.iter().for_each(|entry| entry.count_all(packets, bytes, now_ms));
        }
    }
}

/// What a cache has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Frames whose outcome was kept.
    pub hits: u64,
    /// Frames that went through the tables.
    pub misses: u64,
    /// The cost of all look-ups in tables.
    pub cost: Cost,
}

/// The outcomes of one input's frames, in a fixed number of places.
#[derive(Debug)]
pub struct Cache {
    /// The input port, the tunnel and the registers of all frames.
    metadata: Key,
    /// The compared bits of the frame's fields, and the words in which there are some.
    mask: Words,
    words: Vec<u8>,
    seed: u64,
    /// The tables' generation for which the outcomes hold, and a number that is new for each.
    generation: Option<u64>,
    epoch: u32,
    /// By place: the epoch, and some bits of the hash. Zero is no epoch.
    tags: Vec<(u32, u32)>,
    /// The compared fields of each place.
    keys: Vec<Words>,
    places: Vec<Place>,
    /// Places that may have frames that are not flushed.
    counted: Vec<u32>,
    copies: Vec<HeaderWindow>,
    counts: CacheCounts,
}

impl Cache {
    /// A cache for frames with this input port, tunnel and registers, and at least this number of places. A place takes
    /// 208 bytes, a step of an outcome 128 bytes and a flow 8 bytes: the longest outcome ([`MAX_STEPS`], [`MAX_HITS`])
    /// takes 12 KiB. The memory of an outcome is reused for later ones in its place.
    pub fn new(places: usize, metadata: &Key) -> Self {
        let places = places.div_ceil(WAYS).max(1).next_power_of_two() * WAYS;
        let mut all = Vec::new();
        all.resize_with(places, Place::default);
        Self {
            metadata: *metadata,
            mask: [0; FRAME_WORDS],
            words: Vec::with_capacity(FRAME_WORDS),
            seed: 0,
            generation: None,
            epoch: 0,
            tags: vec![(0, 0); places],
            keys: vec![[0; FRAME_WORDS]; places],
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
        let frame_bytes = window.frame_bytes();
        let mut key = *frame_words(window.held());
        key.iter_mut().zip(&self.mask).for_each(|(word, mask)| *word &= mask);
        let hash = self.hash(&key);
        if let Some(at) = self.find(hash, &key) {
            self.counts.hits += 1;
            let place = &mut self.places[at];
            place.is_used = true;
            count(place, at, frame_bytes, &mut self.counted);
            outcome.overrun = place.overrun;
            self.replay(at, window, outcome);
            return;
        }
        self.counts.misses += 1;
        let cost = tables.execute_window(window.clone(), &self.metadata, around, outcome);
        self.counts.cost.tuples += cost.tuples;
        self.counts.cost.compared += cost.compared;
        if outcome.steps.len() > MAX_STEPS || outcome.hits.len() > MAX_HITS {
            outcome.uncached.get_or_insert(Uncached::Long);
        }
        if outcome.uncached.is_none() {
            self.keep(hash, &key, frame_bytes, around, outcome);
        } else {
            outcome.count(frame_bytes, || around.now_ms());
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
        self.mask = *frame_words(tables.compared());
        self.words.clear();
        let used = self.mask.iter().enumerate().filter(|(_, mask)| **mask != 0);
        self.words.extend(used.map(|(at, _)| at as u8)); // 15 words
    }

    fn hash(&self, key: &Words) -> u64 {
        self.words.iter().fold(self.seed, |hash, at| {
            let word = key.get(usize::from(*at)).copied().unwrap_or(0);
            let product = u128::from(hash.rotate_left(5) ^ word) * 0x9e37_79b9_7f4a_7c15;
            (product as u64) ^ (product >> 64) as u64
        })
    }

    /// The places of a hash.
    fn set(&self, hash: u64) -> std::ops::Range<usize> {
        let first = hash as usize % (self.places.len() / WAYS) * WAYS;
        first..first + WAYS
    }

    fn tag(&self, hash: u64) -> (u32, u32) {
        (self.epoch, (hash >> 32) as u32)
    }

    fn find(&self, hash: u64, key: &Words) -> Option<usize> {
        let tag = self.tag(hash);
        self.set(hash).find(|at| self.tags[*at] == tag && self.keys[*at] == *key)
    }

    /// Keeps an outcome in place of one that no frame has had since the last replacement, if there is one in the set.
    fn keep<S: Surroundings>(
        &mut self,
        hash: u64,
        key: &Words,
        frame_bytes: usize,
        around: &mut S,
        outcome: &Outcome,
    ) {
        let set = self.set(hash);
        let is_old = |at: &usize| self.tags[*at].0 != self.epoch || !self.places[*at].is_used;
        let first = (hash >> 16) as usize;
        let mut old = (0..WAYS).map(|way| set.start + (first + way) % WAYS).filter(is_old);
        let at = old.next().unwrap_or(set.start + first % WAYS);
        if old.next().is_none() {
            self.places[set].iter_mut().for_each(|place| place.is_used = false);
        }
        self.tags[at] = self.tag(hash);
        self.keys[at] = *key;
        let place = &mut self.places[at];
        if place.packets > 0 {
            place.flush(around.now_ms());
        }
        place.is_used = false;
        place.overrun = outcome.overrun;
        refill(&mut place.steps, &outcome.steps);
        refill(&mut place.flows, &outcome.hits);
        count(place, at, frame_bytes, &mut self.counted);
    }

    /// Repeats the steps of a place on a frame's window.
    fn replay(&mut self, at: usize, window: &mut HeaderWindow, outcome: &mut Outcome) {
        self.copies.clear();
        let mut tunnel = None;
        for step in &self.places[at].steps {
            match step {
                Step::Write(words) => write(words, &self.mask, window),
                Step::Copy => self.copies.push(window.clone()),
                Step::Return => {
                    if let Some(before) = self.copies.pop() {
                        *window = before;
                    }
                }
                Step::Tunnel(words) => tunnel = Some(*words),
                Step::Deliver { port, queue, cut } => {
                    let (header, tunnel) = (outcome.keep(window), tunnel.take());
                    let delivery = Delivery { port: *port, queue: *queue, cut: *cut, header, tunnel };
                    outcome.deliveries.push(delivery);
                }
                Step::Normal => {
                    let header = outcome.keep(window);
                    outcome.effects.push(Effect::Normal(header));
                }
            }
        }
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

/// Writes the compared bits of these fields. The frame keeps its other bits, which no action has written.
fn write(words: &Words, mask: &Words, window: &mut HeaderWindow) {
    let mut merged = *frame_words(window.held());
    for (word, (new, mask)) in merged.iter_mut().zip(words.iter().zip(mask)) {
        *word = *word & !mask | new & mask;
    }
    let mut key = *window.held();
    key.set_words(flow::Field::FRAME_WORDS.start, &merged);
    window.write(&key);
}
