//! Notes about the receivers of a burst's frames, written before the receivers can see the frames.
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};

use virtqueue::Position;

use crate::area::{self, Area, FRAME_WORDS, MAX_NOTES, NOTE_WORDS, Words};
use crate::past::{Frames, Note, Past};
use crate::receiver::ReceiverLog;

/// Words of a transmitq: the process that has it, where the ring stood when the burst began, the number of notes, and
/// from the next line on the notes.
const PROCESS: usize = 0;
const BEGAN_AT: usize = 1;
const NOTES: usize = 2;
const FIRST_NOTE: usize = 8;

/// The third word of a note: the first and the last of a run of frames, and this. 0 where a bit for each frame follows.
const RUN: u64 = 1 << 32;

/// The log of one transmitq. One worker at a time uses it, except for an abandoned worker that continues. A clone
/// writes to the same words.
#[derive(Clone, Debug)]
pub struct SenderLog {
    words: Words,
    process: u64,
    past: Option<Past>,
}

impl SenderLog {
    /// The log of a pair in these words, whose ring starts at this position; `None` if there is no such pair.
    pub fn new(area: &Area, pair: u16, at: Position) -> Option<Self> {
        let words = area.sender(pair)?;
        let past = past_at(&words, area.process(), at);
        Some(SenderLog { words, process: area.process(), past })
    }

    /// Notes that a burst of `frames` frames was taken from the ring at position `at`. The notes of the previous
    /// burst are cleared.
    #[inline(never)] // the loop around it keeps its registers
    pub fn begin(&mut self, at: Position, frames: usize) {
        if let Some(past) = &mut self.past
            && !past.advance(frames)
        {
            self.past = None;
        }
        // First: killed behind this, there are no notes.
        self.words[NOTES].store(0, Release);
        self.words[BEGAN_AT].store(area::mark(at), Release);
        self.words[PROCESS].store(self.process, Release);
    }

    /// Notes that these frames of the burst, in ascending order, are about to be published to a receiveq at position
    /// `at`.
    #[inline(never)] // as above
    pub fn note(&self, to: &ReceiverLog, at: Position, which: &[u16]) {
        let ([first, ..], [.., last]) = (which, which) else { return };
        to.moves(at);
        let count = self.words[NOTES].load(Relaxed) as usize;
        let notes = &self.words[FIRST_NOTE..];
        let Some(note) = notes.get(count * NOTE_WORDS..).filter(|_| count < MAX_NOTES) else { return };
        let Some(note) = note.first_chunk::<NOTE_WORDS>() else { return };
        let [area, place] = to.name(at);
        note[0].store(area, Relaxed);
        note[1].store(place, Relaxed);
        // Nearly always they follow each other, and two numbers say which they are.
        let is_run = usize::from(last - first) + 1 == which.len();
        note[2].store(if is_run { RUN | u64::from(*last) << 16 | u64::from(*first) } else { 0 }, Relaxed);
        if !is_run {
            note[3..].iter().zip(set(which)).for_each(|(word, frames)| word.store(frames, Relaxed));
        }
        self.words[NOTES].store(count as u64 + 1, Release);
    }

    /// Notes that the burst was given back to its sender. Its notes are cleared, so that they do not match a ring
    /// that is made anew.
    #[inline(always)]
    pub fn completed(&self) {
        self.words[NOTES].store(0, Release);
    }

    /// The notes of an earlier process about the frames of this burst.
    #[inline(always)]
    pub fn past(&self) -> Option<&Past> {
        self.past.as_ref()
    }
}

/// The notes of an earlier process, if the ring is still at the start of that process's burst: the burst was then not
/// completed.
fn past_at(words: &Words, process: u64, at: Position) -> Option<Past> {
    let (noted_by, count) = (words[PROCESS].load(Relaxed), words[NOTES].load(Relaxed));
    if noted_by == process || words[BEGAN_AT].load(Relaxed) != area::mark(at) || count == 0 {
        return None;
    }
    let notes = words[FIRST_NOTE..].chunks_exact(NOTE_WORDS).take(count as usize);
    let note = |words: &[AtomicU64]| Note {
        to: [words[0].load(Relaxed), words[1].load(Relaxed)],
        frames: match words[2].load(Relaxed) {
            0 => Frames::Set(std::array::from_fn(|at| words[3 + at].load(Relaxed))),
            run => Frames::Run { first: run as u16, last: (run >> 16) as u16 },
        },
    };
    Some(Past::new(noted_by, notes.map(note).collect()))
}

/// A bit for each of these frames.
#[cold]
fn set(which: &[u16]) -> [u64; FRAME_WORDS] {
    let mut frames = [0; FRAME_WORDS];
    for index in which {
        if let Some(word) = frames.get_mut(usize::from(*index) / 64) {
            *word |= 1 << (index % 64);
        }
    }
    frames
}
