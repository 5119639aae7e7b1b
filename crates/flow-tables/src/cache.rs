//! Keeps the outcomes of frames, for later frames with the same fields.
//!
//! A cache belongs to one input: the frames of one port, or of one tunnel. Frames of other inputs evict nothing from it.
//! It has a fixed number of places, in sets of [`WAYS`], and at most [`MASKS`] masks. A frame is compared with the places of
//! one set under each mask: these are the look-ups of a hit, whatever other frames there are.
//!
//! A mask has the bits on which the passages of earlier frames depended: bits by which flows match or do not match, and bits
//! that the actions of matching flows read or write. They are compared whole and not by a hash alone, so a frame never gets
//! the outcome of a frame that takes another way. A frame whose outcome depends on more than its fields, the tables and the
//! ports goes through the tables each time; [`Uncached`] lists the reasons. A change of the tables, or of the ports by
//! [`Cache::forget`], invalidates all kept outcomes.
//!
//! A plain frame is compared by its first bytes, under the bits of the mask that lie there. If its outcome is nothing but ports
//! and a change of these bytes, its fields are not read at all: [`Departure`].
//!
//! An outcome ends where connection tracking sends a frame to a table. The frame is tracked, and is looked up again: now
//! also by that table, its registers, and the state, zone, mark, label and first direction of its connection, as far as
//! flows match them. So connections in the same state share an outcome, and a frame costs one look-up more for each `ct`.
//!
//! A meter, a comparison of the length, a label that was removed and an address translation whose frame does not go to a
//! table decide about the steps that follow. They are part of the outcome, as they were for its first frame. For a frame
//! about which they decide otherwise, the outcome is taken back: the frame goes through the tables, which ask neither the
//! meter nor connection tracking again.
//!
//! A new outcome replaces one that no frame has had since the last replacement in its set. Frames that come once
//! therefore replace each other, and the outcomes of a connection stay.
//!
//! Frames and bytes of a hit are counted in the place alone. [`Cache::flush`] adds them to the flows.
mod departure;
mod look_up;
mod masks;
mod probe;
mod replay;

use std::sync::Arc;

use flow::{Field, Key};

use crate::execute::{MAX_RESUBMITS, MAX_WAITING};
use crate::lists::Lists;
use crate::outcome::{Outcome, Step, Uncached};
use crate::passage::execute_all;
use crate::plain::{HEAD_WORDS, PlainFrame};
use crate::segment::Start;
use crate::{Cost, Entry, HeaderWindow, Overrun, Surroundings, Tables};

pub use departure::Departure;
pub use masks::MASKS;
use masks::{Form, Masks, STARTS};
use probe::{Found, Probe, probe};
pub use probe::{LookUp, Looked};

/// The number of places in a set.
pub const WAYS: usize = 4;
/// The largest number of steps in a kept outcome; it limits the memory of a place.
pub const MAX_STEPS: usize = 64;
/// The largest number of flows in a kept outcome.
pub const MAX_HITS: usize = 512;

/// Words of the compared fields, and one for the number of the mask.
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
    /// How plain frames leave, if that is all that becomes of them.
    departure: Departure,
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
    /// The masks under which frames were looked up, at most [`MASKS`] for each hit or miss.
    pub masks: u64,
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
    /// The bits that may be compared.
    compared: Key,
    /// The masks of frames by the place where they begin. The first are those of frames that come.
    masks: Vec<Masks>,
    /// The number of the last mask.
    last_mask: u64,
    /// Words of a place, as many as there are words with bits that may be compared or in a plain frame's head, and one.
    stride: usize,
    /// The present look-up: the number of the mask, and the compared bits.
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
    /// 152 bytes, and 8 bytes for each word in which there are compared bits, 72 to 416. A step of an outcome takes 128
    /// bytes, one that sends a tracked frame to a table 408 more, a flow 8 bytes, and a change of plain frames 152: the
    /// longest outcome ([`MAX_STEPS`], [`MAX_HITS`]) takes 37 KiB. The memory of an outcome is reused for later ones in its
    /// place.
    pub fn new(places: usize, metadata: &Key) -> Self {
        let places = places.div_ceil(WAYS).max(1).next_power_of_two() * WAYS;
        let mut all = Vec::new();
        all.resize_with(places, Place::default);
        Self {
            metadata: *metadata,
            is_tunnel: false,
            compared: Key::ZERO,
            masks: vec![Masks::new(0)],
            last_mask: 0,
            stride: MAX_WORDS,
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
        let frame = Passing { tables, plain: None, frame_bytes: window.frame_bytes(), lists: None };
        self.pass(frame, None, window, around, outcome);
    }

    /// Works like [`Cache::execute`] for the plain frame in the window, with what [`Cache::look_up`] has found.
    pub fn execute_plain<S: Surroundings>(
        &mut self,
        frame: &PlainFrame<'_>,
        looked: Looked,
        tables: &Tables,
        window: &mut HeaderWindow,
        around: &mut S,
        outcome: &mut Outcome,
    ) {
        let plain = Some(*frame).filter(|_| !self.is_tunnel);
        let frame = Passing { tables, plain, frame_bytes: window.frame_bytes(), lists: None };
        self.pass(frame, looked.0, window, around, outcome);
    }

    /// Takes a frame through its segments. `looked` is what was found for the first segment of a plain frame.
    #[inline(always)]
    fn pass<S: Surroundings>(
        &mut self,
        mut frame: Passing<'_>,
        looked: Option<Found>,
        window: &mut HeaderWindow,
        around: &mut S,
        outcome: &mut Outcome,
    ) {
        outcome.clear();
        if self.generation != Some(frame.tables.generation()) {
            self.begin(frame.tables, around.now_ms());
        }
        execute_all(window, outcome, |start, window, outcome| {
            let found = match &frame.plain {
                Some(_) if start.is_none() => looked,
                _ => self.find(start.as_ref(), window),
            };
            match found {
                Some(found) if self.is_within_limits(found.at, start.as_ref(), outcome) => {
                    self.hit(found, start, &mut frame, window, around, outcome);
                }
                _ => {
                    self.miss(start.as_ref(), &mut frame, window, around, outcome);
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
        let masks = self.masks_of(start);
        let preferred = masks.map_or([&Key::ZERO; 2], |masks| self.masks[masks].preferred());
        outcome.consulted.prefer(preferred, self.is_frame_alone(start));
        self.counts.cost += frame.tables.segment(start, window, around, outcome, lists);
        if outcome.steps.len() > MAX_STEPS || outcome.hits.len() > MAX_HITS {
            outcome.uncached.get_or_insert(Uncached::Long);
        }
        if start.depth > 0 && outcome.overrun == Some(Overrun::Resubmits) {
            // Earlier segments have their part in it.
            outcome.uncached.get_or_insert(Uncached::Connection);
        }
        match (masks, outcome.uncached) {
            (Some(masks), None) => self.keep(masks, start, frame, before, around, outcome),
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
        self.compared = *tables.compared();
        if self.is_tunnel {
            // A port that is a tunnel too gets all of them.
            self.compared.set_tunnel(&[u64::MAX; Key::TUNNEL_WORDS]);
        }
        self.stride = 1 + HEAD_WORDS.max(self.compared.words().iter().filter(|word| **word != 0).count());
        let (first, others) = self.masks.split_at_mut(1);
        first.iter_mut().for_each(|masks| masks.begin(Some(0)));
        others.iter_mut().for_each(|masks| masks.begin(None));
    }

    /// Whether frames with this start have the same registers, connection and tunnel, so that only their own fields are
    /// compared.
    fn is_frame_alone(&self, start: &Start) -> bool {
        start.depth == 0 && !self.is_tunnel
    }

    /// The masks of frames with this start. `None` if the frame begins with more than its fields.
    fn masks_of(&mut self, start: &Start) -> Option<usize> {
        if start.depth == 0 {
            return Some(0);
        }
        if !start.saved.is_empty() {
            return None;
        }
        let from = start.number();
        let with = |from: Option<u64>| self.masks.iter().position(|masks| masks.from == from);
        if let Some(known) = with(Some(from)) {
            return Some(known);
        }
        let room = with(None);
        if room.is_none() && self.masks.len() < STARTS {
            self.masks.push(Masks::new(from));
            return Some(self.masks.len() - 1);
        }
        // Without room, the outcomes of frames that begin in another place are not found any more.
        let at = room.unwrap_or(1 + from as usize % (STARTS - 1));
        self.masks[at].begin(Some(from));
        Some(at)
    }

    /// Keeps an outcome in place of one that no frame has had since the last replacement, if there is one in the set.
    fn keep<S: Surroundings>(
        &mut self,
        masks: usize,
        start: &Start,
        frame: &Passing<'_>,
        visits_before: u32,
        around: &mut S,
        outcome: &Outcome,
    ) {
        let mut bits = outcome.consulted.among(&self.compared);
        if self.is_frame_alone(start) {
            bits.clear_words(0..Field::FRAME_WORDS.start);
            bits.clear_words(Field::FRAME_WORDS.end..Key::WORDS);
        } else if self.is_tunnel {
            bits.set_tunnel(&[u64::MAX; Key::TUNNEL_WORDS]);
        }
        let mask = self.masks[masks].take(&bits, &mut self.last_mask);
        let of = self.masks[masks].get(mask);
        let plain = frame.plain.as_ref().filter(|_| start.depth == 0);
        let Probe { hash, words } = match plain {
            Some(plain) => {
                probe(of.form(Form::Plain(plain.kind())), self.seed, &plain.words(), &mut self.probe)
            }
            None => probe(of.form(Form::Fields), self.seed, start.key.words(), &mut self.probe),
        };
        let set = self.set(hash);
        let first = (hash >> 16) as usize;
        let ways = (0..WAYS).map(|way| set.start + (first + way) % WAYS);
        let is_free = |at: &usize| self.tags[*at].0 != self.epoch;
        let is_old = |at: &usize| is_free(at) || !self.places[*at].is_used;
        let mut old = ways.clone().filter(is_old);
        let oldest = old.next().unwrap_or(set.start + first % WAYS);
        let at = ways.clone().find(is_free).unwrap_or(oldest);
        if old.next().is_none() {
            self.places[set].iter_mut().for_each(|place| place.is_used = false);
        }
        self.tags[at] = self.tag(hash);
        let key = self.key(at, words);
        self.keys[key].copy_from_slice(&self.probe[..words]);
        let place = &mut self.places[at];
        if place.packets > 0 {
            place.flush(around.now_ms());
        }
        place.is_used = false;
        match plain {
            Some(plain) => {
                place.departure.set(self.masks[masks].get(mask).head(plain.kind()), plain, outcome);
            }
            None => place.departure.forget(),
        }
        (place.overrun, place.visits) = (outcome.overrun, outcome.visits - visits_before);
        let guard = outcome.steps.iter().rposition(Step::is_guard);
        place.guarded = guard.map_or(0, |at| at as u32 + 1); // at most `MAX_STEPS`
        refill(&mut place.steps, &outcome.steps);
        refill(&mut place.keys, &outcome.keys);
        refill(&mut place.flows, &outcome.hits);
        count(place, at, frame.frame_bytes, &mut self.counted);
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

/// The passage of one frame.
struct Passing<'a> {
    tables: &'a Tables,
    /// The frame as it came, if it is plain.
    plain: Option<PlainFrame<'a>>,
    /// The length with which the frame came.
    frame_bytes: usize,
    /// Made when the frame first goes through the tables.
    lists: Option<Lists<'a>>,
}
