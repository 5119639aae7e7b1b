//! The flows of one table, and the choice of the flow for a frame.
use std::sync::Arc;

use flow::{Action, Field, Flow, Key, Match};

use crate::Entry;
use crate::classifier::{Classifier, Cost};

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

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.plain.entries().into_iter().chain(self.parts.entries())
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

    pub(crate) fn tuples(&self) -> usize {
        self.plain.tuples() + self.parts.tuples()
    }

    /// The flow of the highest priority that matches. A conjunction counts if a flow of each of its dimensions matches,
    /// all with the same priority, which is higher than that of other flows that match, and if a flow for its
    /// `conj_id` matches.
    pub(crate) fn lookup(&self, key: &Key, cost: &mut Cost) -> Option<Arc<Entry>> {
        let plain = self.plain.lookup(key, cost);
        let mut parts = Vec::new();
        self.parts.matching(key, plain.map(|entry| entry.flow.priority), &mut parts, cost);
        for same in parts.chunk_by(|one, other| one.flow.priority == other.flow.priority) {
            for id in complete(same) {
                let mut key = *key;
                key.set(Field::ConjId, id.into());
                if let Some(entry) = self.plain.lookup(&key, cost) {
                    return Some(Arc::clone(entry));
                }
            }
        }
        plain.map(Arc::clone)
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

/// Conjunctions of which each dimension has a flow among these.
fn complete(entries: &[Arc<Entry>]) -> Vec<u32> {
    let mut met: Vec<(u32, u8, u64)> = Vec::new();
    for (id, clause, of) in entries.iter().flat_map(|entry| parts(&entry.flow)) {
        let bit = 1_u64.checked_shl(clause.into()).unwrap_or(0);
        match met.iter_mut().find(|(other, parts, _)| (*other, *parts) == (id, of)) {
            Some((_, _, clauses)) => *clauses |= bit,
            None => met.push((id, of, bit)),
        }
    }
    let complete = met.into_iter().filter(|(_, of, clauses)| clauses.count_ones() == u32::from(*of));
    complete.map(|(id, ..)| id).collect()
}
