//! A hash table from tuples to the places of connections, of a fixed size.
//!
//! A slot holds the upper half of a hash and a reference to one direction of a connection. Removal closes the gap, so a
//! table that was full once is as fast afterwards as before.

/// One direction of the connection in a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference(u32);

impl Reference {
    pub fn new(place: u32, direction: crate::Direction) -> Self {
        Self(place << 1 | direction as u32)
    }

    pub fn place(self) -> u32 {
        self.0 >> 1
    }

    pub fn direction(self) -> crate::Direction {
        if self.0 & 1 == 0 { crate::Direction::Original } else { crate::Direction::Reply }
    }
}

/// A used slot: the tag, and a reference plus one. An empty slot is zero, so that memory of a table is not touched before it
/// is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    tag: u32,
    reference: Reference,
}

impl Slot {
    fn read(word: u64) -> Option<Slot> {
        let reference = (word as u32).checked_sub(1)?;
        Some(Slot { tag: (word >> 32) as u32, reference: Reference(reference) })
    }

    fn word(self) -> u64 {
        u64::from(self.tag) << 32 | u64::from(self.reference.0 + 1)
    }
}

/// The table. It is at most half full, and one slot is always empty: each search ends there.
#[derive(Debug)]
pub(crate) struct Index {
    slots: Vec<u64>,
    mask: usize,
    used: usize,
    /// The largest number of references.
    limit: usize,
}

fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

impl Index {
    /// A table for this many references.
    pub fn new(references: usize) -> Self {
        let slots = (references * 2).next_power_of_two().max(2);
        Self { slots: vec![0; slots], mask: slots - 1, used: 0, limit: references.min(slots - 1) }
    }

    fn home(&self, tag: u32) -> usize {
        // The tag alone decides, so that a removal finds the homes of those that follow.
        (u64::from(tag).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & self.mask
    }

    /// The reference with this hash for which `is_wanted` is true.
    pub fn find(&self, hash: u64, mut is_wanted: impl FnMut(Reference) -> bool) -> Option<Reference> {
        let mut at = self.home(tag(hash));
        while let Some(slot) = Slot::read(self.slots[at]) {
            if slot.tag == tag(hash) && is_wanted(slot.reference) {
                return Some(slot.reference);
            }
            at = (at + 1) & self.mask;
        }
        None
    }

    /// Adds a reference, which is not in the table yet. Returns false if the table has as many as it was made for.
    pub fn insert(&mut self, hash: u64, reference: Reference) -> bool {
        if self.used >= self.limit {
            return false;
        }
        self.used += 1;
        let mut at = self.home(tag(hash));
        while self.slots[at] != 0 {
            at = (at + 1) & self.mask;
        }
        self.slots[at] = Slot { tag: tag(hash), reference }.word();
        true
    }

    /// Removes a reference.
    pub fn remove(&mut self, hash: u64, reference: Reference) {
        let mut at = self.home(tag(hash));
        loop {
            match Slot::read(self.slots[at]) {
                None => return,
                Some(slot) if slot.reference == reference => break,
                Some(_) => at = (at + 1) & self.mask,
            }
        }
        // Each follower moves into the gap unless its home lies behind the gap.
        let mut next = at;
        loop {
            next = (next + 1) & self.mask;
            let Some(slot) = Slot::read(self.slots[next]) else { break };
            let from_home = next.wrapping_sub(self.home(slot.tag)) & self.mask;
            if from_home >= next.wrapping_sub(at) & self.mask {
                self.slots[at] = slot.word();
                at = next;
            }
        }
        self.slots[at] = 0;
        self.used -= 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Direction;

    /// A table that has all its references, and even a table of one, still ends each search.
    #[test]
    fn a_full_table_refuses_references_and_its_searches_end() {
        for references in [0, 1, 2, 3, 64] {
            let mut index = Index::new(references);
            let reference = |at: usize| Reference::new(at as u32, Direction::Original);
            let taken = (0..2 * references + 2).filter(|at| index.insert(7 << 32, reference(*at))).count();
            assert_eq!(taken, references);
            assert_eq!(index.find(7 << 32, |_| false), None);
            index.remove(7 << 32, reference(references)); // is not there
            (0..references).for_each(|at| index.remove(7 << 32, reference(at)));
            assert!(index.slots.iter().all(|word| *word == 0));
            assert_eq!(index.insert(8 << 32, reference(0)), references > 0);
        }
    }

    proptest! {
        #[test]
        fn what_was_inserted_is_found_until_it_is_removed(
            steps in proptest::collection::vec((0..16_u32, 0..4_u64, any::<bool>()), 1..300)
        ) {
            let mut index = Index::new(16);
            let mut all: Vec<(u64, Reference)> = Vec::new();
            for (place, hash, insert) in steps {
                // Few hashes, so that many references share their homes.
                let (hash, reference) = (hash << 32, Reference::new(place, Direction::Original));
                let known = all.iter().position(|(_, other)| *other == reference);
                match (known, insert) {
                    (None, true) => {
                        assert!(index.insert(hash, reference));
                        all.push((hash, reference));
                    }
                    (Some(at), false) => {
                        let (hash, reference) = all.remove(at);
                        index.remove(hash, reference);
                    }
                    _ => {}
                }
                for (hash, reference) in &all {
                    prop_assert_eq!(index.find(*hash, |other| other == *reference), Some(*reference));
                }
                prop_assert_eq!(index.slots.iter().filter(|word| **word != 0).count(), all.len());
            }
        }
    }
}
