//! Finds the kept outcome of a frame, by its fields or by its first bytes.
use super::masks::Form;
use super::probe::{Found, LookUp, Looked, probe};
use super::{Cache, WAYS, count};
use crate::plain::PlainFrame;
use crate::segment::Start;
use crate::{HeaderWindow, Tables};

/// Whether the words are the same. A loop: a call would cost more for so few words.
#[inline(always)]
fn is_equal(one: &[u64], other: &[u64]) -> bool {
    one.iter().zip(other).fold(0, |differ, (one, other)| differ | (one ^ other)) == 0
}

impl Cache {
    /// Looks up a plain frame that came through no tunnel. A frame that does not depart has to go through
    /// [`Cache::execute_plain`] before another frame is looked up.
    #[inline(always)]
    pub fn look_up(&mut self, tables: &Tables, frame: &PlainFrame<'_>) -> LookUp<'_> {
        if self.generation != Some(tables.generation()) || self.is_tunnel {
            return LookUp::Other(Looked::NOTHING);
        }
        let found = self.search(0, Form::Plain(frame.kind()), &frame.words());
        if let Some(found) = found {
            let place = &mut self.places[found.at];
            if place.departure.is_for(frame) {
                place.is_used = true;
                count(place, found.at, frame.frame_bytes(), &mut self.counted);
                self.counts.hits += 1;
                return LookUp::Departs(&self.places[found.at].departure);
            }
        }
        LookUp::Other(Looked(found))
    }

    /// Looks a frame up under each mask of those frames that begin where this frame does.
    #[inline(always)]
    pub(super) fn find(&mut self, start: Option<&Start>, window: &HeaderWindow) -> Option<Found> {
        let first;
        let (masks, key) = match start {
            None if self.is_tunnel => {
                first = Start::first(&self.metadata, window);
                (0, &first.key)
            }
            // All other frames have the same metadata when they begin.
            None => (0, window.held()),
            Some(start) if start.saved.is_empty() => {
                let from = start.number();
                (self.masks.iter().position(|masks| masks.from == Some(from))?, &start.key)
            }
            Some(_) => return None,
        };
        self.search(masks, Form::Fields, key.words())
    }

    /// Looks a frame up by its words in this form.
    #[inline(always)]
    fn search<const WORDS: usize>(&mut self, masks: usize, form: Form, of: &[u64; WORDS]) -> Option<Found> {
        for turn in 0..self.masks[masks].order().len() {
            self.counts.masks += 1;
            let masks_of = &self.masks[masks];
            let mask = masks_of.order()[turn];
            let probe = probe(masks_of.get(mask).form(form), self.seed, of, &mut self.probe);
            let (tag, wanted) = (self.tag(probe.hash), &self.probe[..probe.words]);
            let mut places = self.set(probe.hash);
            let at = places
                .find(|at| self.tags[*at] == tag && is_equal(&self.keys[self.key(*at, probe.words)], wanted));
            if let Some(at) = at {
                self.masks[masks].hit(mask);
                return Some(Found { at, masks, mask });
            }
        }
        None
    }

    /// The places of a hash.
    pub(super) fn set(&self, hash: u64) -> std::ops::Range<usize> {
        let first = (hash as usize & (self.places.len() / WAYS - 1)) * WAYS;
        first..first + WAYS
    }

    pub(super) fn tag(&self, hash: u64) -> (u32, u32) {
        (self.epoch, (hash >> 32) as u32)
    }

    /// The words of a place that are compared with those of a look-up.
    pub(super) fn key(&self, at: usize, words: usize) -> std::ops::Range<usize> {
        let first = at * self.stride;
        first..first + words
    }
}
