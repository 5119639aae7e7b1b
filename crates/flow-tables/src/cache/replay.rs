//! Repeats a kept outcome on a later frame.
use flow::{Field, Key};

use super::{Cache, Found, Passing, count};
use crate::fields::{FRAME_WORDS, frame_words};
use crate::outcome::{Answer, Step};
use crate::segment::{Saved, Start, Waiting};
use crate::{Delivery, Effect, HeaderWindow, Outcome, Surroundings, Tables};

/// Why a kept outcome is not that of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Differs {
    /// A meter drops the frame.
    Dropped,
    /// The frame has another length, its addresses were translated otherwise, or others were behind its label.
    Changed,
}

impl Cache {
    /// Repeats the outcome of a place, if it is that of the frame.
    #[inline(always)]
    pub(super) fn hit<'a, S: Surroundings>(
        &mut self,
        found: Found,
        start: &mut Option<Start>,
        frame: &mut Passing<'a>,
        window: &mut HeaderWindow,
        around: &mut S,
        outcome: &mut Outcome,
    ) {
        self.counts.hits += 1;
        let place = &mut self.places[found.at];
        place.is_used = true;
        outcome.overrun = place.overrun;
        if place.guarded > 0 {
            return self.hit_guarded(found, start, frame, window, around, outcome);
        }
        count(place, found.at, frame.frame_bytes, &mut self.counted);
        self.replay::<S, false>(found, frame.tables, start, window, around, outcome);
    }

    /// Repeats an outcome that may not be that of the frame.
    #[inline(never)]
    fn hit_guarded<'a, S: Surroundings>(
        &mut self,
        found: Found,
        start: &mut Option<Start>,
        frame: &mut Passing<'a>,
        window: &mut HeaderWindow,
        around: &mut S,
        outcome: &mut Outcome,
    ) {
        let at = found.at;
        // The first step finds the window as it was.
        let before = (self.places[at].guarded > 1).then(|| window.clone());
        let progress = outcome.progress();
        outcome.answers.clear();
        let Some(differs) = self.replay::<S, true>(found, frame.tables, start, window, around, outcome)
        else {
            return count(&mut self.places[at], at, frame.frame_bytes, &mut self.counted);
        };
        if let Some(before) = before {
            *window = before;
        }
        outcome.go_back(progress);
        self.counts.hits -= 1;
        if differs == Differs::Changed {
            // The new outcome takes the place of this one.
            self.tags[at] = (0, 0);
        }
        self.miss(start.as_ref(), frame, window, around, outcome);
        outcome.answers.clear();
        *start = None;
    }

    /// Repeats the steps of a place on a frame's window. The start becomes that of the next segment if its frame is in the
    /// window, and none otherwise. If the outcome is not that of the frame, the start stays. `GUARDED` says whether the place
    /// has a guard: others do without the code for it.
    #[inline(always)]
    fn replay<S: Surroundings, const GUARDED: bool>(
        &mut self,
        found: Found,
        tables: &Tables,
        start: &mut Option<Start>,
        window: &mut HeaderWindow,
        around: &mut S,
        outcome: &mut Outcome,
    ) -> Option<Differs> {
        let Self { places, copies, masks, metadata, .. } = self;
        copies.clear();
        let (place, mask) = (&places[found.at], &masks[found.masks].get(found.mask).frame);
        let guarded = if GUARDED { place.guarded as usize } else { 0 };
        let depth = start.as_ref().map_or(0, |start| start.depth);
        if depth > 0 {
            outcome.visits += place.visits;
        }
        let mut keys = place.keys.iter();
        let (waiting, mut tunnel) = (outcome.waiting.len(), None);
        for (index, step) in place.steps.iter().enumerate() {
            match step {
                Step::Write(words) => write(words, mask, window),
                Step::Copy => copies.push(window.clone()),
                Step::Return => {
                    if let Some(before) = copies.pop() {
                        *window = before;
                    }
                }
                Step::Tunnel(words) => tunnel = Some(words),
                Step::Deliver { port, queue, cut } => {
                    let header = outcome.keep(window);
                    let delivery = Delivery { port: *port, queue: *queue, cut: *cut, header, tunnel: None };
                    outcome.deliveries.push(delivery);
                    if let (Some(words), Some(last)) = (tunnel.take(), outcome.deliveries.last_mut()) {
                        last.tunnel = Some(*words);
                    }
                }
                Step::Normal => {
                    let header = outcome.keep(window);
                    outcome.effects.push(Effect::Normal(header));
                }
                _ if !GUARDED && step.is_guard() => {}
                Step::Meter(meter) => {
                    let meter = tables.meter(*meter);
                    let passes =
                        meter.is_none_or(|meter| meter.passes(window.frame_bytes(), around.now_ms()));
                    outcome.answers.push(Answer::Passes(passes));
                    if !passes {
                        return Some(Differs::Dropped);
                    }
                }
                Step::PushMpls(kind) if window.push_mpls(*kind) => {}
                Step::PopMpls(kind) if window.pop_mpls(*kind) => {}
                Step::PushMpls(_) | Step::PopMpls(_) => return Some(Differs::Changed),
                Step::Larger(bytes, larger) => {
                    if (window.unpadded_bytes() > usize::from(*bytes)) != *larger {
                        return Some(Differs::Changed);
                    }
                }
                Step::Expect(words) => {
                    if !is_same(words, mask, window) {
                        return Some(Differs::Changed);
                    }
                }
                Step::Track(track, None) => {
                    let connection = around.track(track, window);
                    if index < guarded {
                        outcome.answers.push(Answer::Tracked(window.clone(), connection));
                    }
                    window.refresh();
                }
                Step::Track(track, Some(then)) => {
                    if depth == 0 {
                        outcome.visits = place.visits;
                    }
                    let key = *keys.next().unwrap_or(&*metadata); // as many as such steps
                    let behind = Start { then: *then, depth: depth + 1, saved: Saved::default(), key };
                    if index + 1 == place.steps.len() && outcome.waiting.len() == waiting {
                        let behind = start.insert(behind);
                        let connection = around.track(track, window);
                        behind.take(&connection, track.zone, window);
                        return None;
                    }
                    let mut waiting = Waiting { window: window.clone(), start: behind };
                    let connection = around.track(track, &mut waiting.window);
                    if index < guarded {
                        outcome.answers.push(Answer::Tracked(waiting.window.clone(), connection.clone()));
                    }
                    waiting.start.take(&connection, track.zone, &mut waiting.window);
                    outcome.waiting.push(waiting);
                }
            }
        }
        *start = None;
        None
    }
}

/// Writes the compared bits of these fields. The frame keeps its other bits, which no action has written.
fn write(words: &[u64; FRAME_WORDS], mask: &[u64; FRAME_WORDS], window: &mut HeaderWindow) {
    let mut merged = *frame_words(window.held());
    for (word, (new, mask)) in merged.iter_mut().zip(words.iter().zip(mask)) {
        *word = *word & !mask | new & mask;
    }
    let mut key: Key = *window.held();
    key.set_words(Field::FRAME_WORDS.start, &merged);
    window.write(&key);
}

/// Whether the frame has these compared bits.
fn is_same(words: &[u64; FRAME_WORDS], mask: &[u64; FRAME_WORDS], window: &HeaderWindow) -> bool {
    let present = frame_words(window.held()).iter().zip(words.iter().zip(mask));
    present.fold(0, |differ, (present, (word, mask))| differ | (present ^ word) & mask) == 0
}
