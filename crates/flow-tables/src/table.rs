//! The flows of one table, and the choice of the flow for a frame.
use std::sync::Arc;

use flow::{Action, Field, Flow, Key, Match};

use crate::Entry;
use crate::classifier::{Classifier, Cost, Slot};
use crate::words::Consulted;

/// The flows of one table. Flows that are dimensions of conjunctions have a classifier of their own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    plain: Classifier,
    parts: Classifier,
}

impl Table {
    pub(crate) fn new(seed: u64) -> Self {
        Self { plain: Classifier::new(seed), parts: Classifier::new(seed) }
    }

    fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.plain.slots().chain(self.parts.slots())
    }

    /// All flows, in no order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.slots().map(Slot::entry)
    }

    /// All flows, the one with the highest priority first; flows of one priority by their age.
    pub(crate) fn in_order(&self) -> Vec<&Arc<Entry>> {
        let mut slots: Vec<_> = self.slots().collect();
        slots.sort_by_key(|slot| slot.rank());
        slots.into_iter().map(Slot::entry).collect()
    }

    pub(crate) fn get(&self, priority: u16, wanted: &Match) -> Option<Arc<Entry>> {
        self.plain.get(priority, wanted).or_else(|| self.parts.get(priority, wanted))
    }

    /// Inserts a flow. A flow with the same match and priority is replaced, and returned.
    pub(crate) fn insert(&mut self, entry: Arc<Entry>) -> Option<Arc<Entry>> {
        let (own, other) = match is_part(&entry.flow) {
            true => (&mut self.parts, &mut self.plain),
            false => (&mut self.plain, &mut self.parts),
        };
        let old = other.remove(entry.flow.priority, &entry.flow.wanted);
        own.insert(entry).or(old)
    }

    pub(crate) fn remove(&mut self, priority: u16, wanted: &Match) -> Option<Arc<Entry>> {
        self.plain.remove(priority, wanted).or_else(|| self.parts.remove(priority, wanted))
    }

    /// Whether the table needs a tuple more for this flow.
    pub(crate) fn needs_tuple(&self, flow: &Flow) -> bool {
        let own = if is_part(flow) { &self.parts } else { &self.plain };
        own.needs_tuple(&flow.wanted)
    }

    pub(crate) fn tuples(&self) -> usize {
        self.plain.tuples() + self.parts.tuples()
    }

    /// The flow of the highest priority that matches. A conjunction counts if a flow of each of its dimensions matches,
    /// all with the same priority, which is higher than that of other flows that match, and if a flow for its
    /// `conj_id` matches.
    pub(crate) fn lookup<'a>(
        &'a self,
        key: &Key,
        cost: &mut Cost,
        consulted: &mut Consulted,
        found: &mut Found<'a>,
    ) -> Option<&'a Arc<Entry>> {
        let plain = self.plain.lookup(key, cost, consulted);
        if self.parts.tuples() == 0 {
            return plain;
        }
        let Found { slots, met } = found;
        self.parts.matching(key, plain.map(|entry| entry.flow.priority), slots, cost, consulted);
        for same in slots.chunk_by(|one, other| one.priority() == other.priority()) {
            complete(same, met);
            for (id, of, clauses) in met.iter() {
                if clauses.count_ones() == u32::from(*of) {
                    let mut key = *key;
                    key.set(Field::ConjId, (*id).into());
                    if let Some(entry) = self.plain.lookup(&key, cost, consulted) {
                        return Some(entry);
                    }
                }
            }
        }
        plain
    }
}

/// An empty list with the memory of another list. (The standard library collects in place.)
pub(crate) fn emptied<T: 'static>(mut list: Vec<&T>) -> Vec<&'static T> {
    list.clear();
    list.into_iter().map_while(|_| None).collect()
}

/// Lists that a look-up of conjunctions needs. Their memory is reused from frame to frame.
#[derive(Debug, Default)]
pub(crate) struct Found<'a> {
    /// Flows that match and are dimensions of conjunctions.
    slots: Vec<&'a Slot>,
    /// Conjunctions with their number of dimensions, and the dimensions that are met.
    met: Vec<(u32, u8, u64)>,
}

impl Found<'_> {
    pub(crate) fn emptied(self) -> Found<'static> {
        Found { slots: emptied(self.slots), met: self.met }
    }
}

fn parts(flow: &Flow) -> impl Iterator<Item = (u32, u8, u8)> {
    flow.actions.iter().filter_map(|action| match action {
        Action::Conjunction { id, clause, of } => Some((*id, *clause, *of)),
        _ => None,
    })
}

fn is_part(flow: &Flow) -> bool {
    parts(flow).next().is_some()
}

/// The conjunctions of these flows, with the dimensions that are met.
fn complete(slots: &[&Slot], met: &mut Vec<(u32, u8, u64)>) {
    met.clear();
    for (id, clause, of) in slots.iter().flat_map(|slot| parts(&slot.entry().flow)) {
        let bit = 1_u64.checked_shl(clause.into()).unwrap_or(0);
        match met.iter_mut().find(|(other, parts, _)| (*other, *parts) == (id, of)) {
            Some((_, _, clauses)) => *clauses |= bit,
            None => met.push((id, of, bit)),
        }
    }
}
