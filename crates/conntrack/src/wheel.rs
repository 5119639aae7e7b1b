//! A timer wheel: the places of connections by the second in which they are looked at.
//!
//! A frame that prolongs a connection writes nothing here: when the wheel comes to the connection, it is put into the slot
//! of its present deadline. Deadlines beyond the last slot take several turns.
use crate::links::{Links, List};

/// Slots of one second each.
const SLOTS: u64 = 512;

/// The wheel. Times are in milliseconds.
#[derive(Debug)]
pub(crate) struct Wheel {
    slots: Vec<List>,
    links: Links,
    /// The second whose slot is emptied next.
    next: u64,
}

fn second(time: u64) -> u64 {
    time.div_ceil(1000)
}

impl Wheel {
    pub fn new(places: usize, now: u64) -> Self {
        let slots = vec![List::default(); SLOTS as usize];
        Self { slots, links: Links::new(places), next: now / 1000 }
    }

    /// Makes room for another place.
    pub fn grow(&mut self) {
        self.links.grow();
    }

    /// The second in which a place with this deadline is looked at.
    pub fn due(&self, deadline: u64) -> u64 {
        second(deadline).clamp(self.next, self.next + SLOTS - 1)
    }

    /// Adds a place to the slot of a second, which is one of [`Wheel::due`].
    pub fn insert(&mut self, place: u32, due: u64) {
        self.links.push(&mut self.slots[(due % SLOTS) as usize], place);
    }

    /// Removes a place from the slot of a second.
    pub fn remove(&mut self, place: u32, due: u64) {
        self.links.remove(&mut self.slots[(due % SLOTS) as usize], place);
    }

    /// A place whose second has come. The caller removes it from its slot. `None` if there is none before `now`.
    pub fn ripe(&mut self, now: u64) -> Option<u32> {
        // After a pause longer than a turn, one turn finds all.
        self.next = self.next.max((now / 1000).saturating_sub(SLOTS - 1));
        while self.next <= now / 1000 {
            if let Some(place) = self.slots[(self.next % SLOTS) as usize].first() {
                return Some(place);
            }
            self.next += 1;
        }
        None
    }
}
