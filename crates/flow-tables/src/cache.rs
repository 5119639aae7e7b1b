//! Keeps the outcomes of frames, for later frames with the same fields.
//!
//! A cache has a fixed number of places and compares whole keys, so a frame never gets another frame's outcome, and
//! frames cannot make the cache grow. A cache belongs to one input port: frames of other ports' peers evict nothing
//! from it. A frame whose outcome depends on more than its fields, the tables and the ports goes through the tables
//! each time; [`Uncached`] lists the reasons. A change of the tables, or of the ports by [`Cache::forget`],
//! invalidates all kept outcomes.
use std::sync::Arc;

use flow::Key;

use crate::fields::take_frame;
use crate::outcome::{Outcome, Step, Uncached};
use crate::{Delivery, Entry, HeaderWindow, Overrun, Surroundings, Tables};

/// The largest number of steps in a kept outcome; it limits the memory of a place.
pub const MAX_STEPS: usize = 64;
/// The largest number of flows in a kept outcome.
pub const MAX_HITS: usize = 512;

/// The outcome that is kept of a frame.
#[derive(Debug)]
struct Held {
    key: Key,
    generation: (u64, u64),
    steps: Vec<Step>,
    hits: Vec<Arc<Entry>>,
    overrun: Option<Overrun>,
}

/// The outcomes of one port's frames, in a fixed number of places.
#[derive(Debug)]
pub struct Cache {
    places: Vec<Option<Box<Held>>>,
    copies: Vec<HeaderWindow>,
    ports: u64,
    hits: u64,
}

fn place(seed: u64, key: &Key, places: usize) -> usize {
    let hash = key.words().iter().fold(seed, |hash, word| {
        let product = u128::from(hash.rotate_left(5) ^ word) * 0x9e37_79b9_7f4a_7c15;
        (product as u64) ^ (product >> 64) as u64
    });
    hash as usize % places
}

impl Cache {
    /// A cache with this number of places, at least one. A used place takes about 1 KiB, and for the longest outcome
    /// ([`MAX_STEPS`], [`MAX_HITS`]) 64 KiB.
    pub fn new(places: usize) -> Self {
        let places = (0..places.max(1)).map(|_| None).collect();
        Self { places, copies: Vec::new(), ports: 0, hits: 0 }
    }

    /// Invalidates all kept outcomes, because ports have changed.
    pub fn forget(&mut self) {
        self.ports += 1;
    }

    /// The number of frames whose outcome was kept.
    pub fn hits(&self) -> u64 {
        self.hits
    }

    /// Works like [`Tables::execute`] on a frame's window, which it changes. Deliveries, bytes and the flows that count
    /// the frame are the same as there.
    pub fn execute<S: Surroundings>(
        &mut self,
        tables: &Tables,
        window: &mut HeaderWindow,
        metadata: &Key,
        around: &mut S,
        outcome: &mut Outcome,
    ) {
        let mut key = *metadata;
        take_frame(&mut key, window.held());
        let generation = (tables.generation(), self.ports);
        let place = place(tables.seed(), &key, self.places.len());
        outcome.clear();
        if let Some(held) = &self.places[place]
            && held.generation == generation
            && held.key == key
        {
            self.hits += 1;
            outcome.overrun = held.overrun;
            outcome.hits.extend(held.hits.iter().cloned());
            replay(&held.steps, window, &mut self.copies, outcome);
            return;
        }
        tables.execute_window(window.clone(), metadata, around, outcome);
        if outcome.steps.len() > MAX_STEPS || outcome.hits.len() > MAX_HITS {
            outcome.uncached.get_or_insert(Uncached::Long);
        }
        if outcome.uncached.is_none() {
            let (steps, hits) = (outcome.steps.clone(), outcome.hits.clone());
            self.places[place] =
                Some(Box::new(Held { key, generation, steps, hits, overrun: outcome.overrun }));
        }
    }
}

fn replay(steps: &[Step], window: &mut HeaderWindow, copies: &mut Vec<HeaderWindow>, outcome: &mut Outcome) {
    copies.clear();
    for step in steps {
        match step {
            Step::Write(key) => {
                window.write(key);
            }
            Step::Copy => copies.push(window.clone()),
            Step::Return => {
                if let Some(before) = copies.pop() {
                    *window = before;
                }
            }
            Step::Deliver(delivery) => {
                let header = outcome.keep(window.bytes(), window.frame_bytes());
                outcome.deliveries.push(Delivery { header, ..(**delivery).clone() });
            }
        }
    }
}
