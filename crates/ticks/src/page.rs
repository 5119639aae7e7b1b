//! The memory that both ends share.
//!
//! Words of 64 bits, each written by one end only. A tick's slot is written like a sequence lock: its number is
//! cleared, its times are written, its number is set; who finds the same number before and after has times that
//! belong together.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use measure::Failure;
use memory::{AtomicSlice, Mapping};

/// Its size: a power of two, for it becomes a PCI BAR.
pub const BYTES: u64 = 256 << 10;

/// Ticks that can be told apart before they are overwritten: four seconds at 1 ms.
const SLOTS: usize = 4096;
/// Number, due, sent; the fourth keeps two slots in one cache line and none across two.
const SLOT_WORDS: usize = 4;
/// Slots begin after one page of single words, each in a cache line of its own.
const SLOTS_AT: usize = 512;

/// Single words.
#[derive(Clone, Copy)]
enum Word {
    /// Source: the number of the last tick; 0 before the first.
    Latest = 0,
    /// Source: whether it has sent its last tick.
    Ended = 8,
    /// Receiver: a step of [`Step`].
    Step = 16,
    /// Receiver: how often it has asked for the time.
    Asked = 24,
    /// Source: the question that `Time` answers.
    Answered = 32,
    /// Source: its clock at the answer, ns.
    Time = 40,
}

/// How far the receiver is; 0 while it aligns its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// It waits for ticks.
    Ready = 1,
    /// It has seen the end, and aligned its clock again.
    Done = 2,
}

/// One tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// Its number, from 1 on.
    pub number: u64,
    /// When it was to be sent, ns of the source's CLOCK_MONOTONIC.
    pub due_ns: u64,
    /// When it was sent.
    pub sent_ns: u64,
}

/// The shared page, mapped.
#[derive(Debug)]
pub struct Page {
    words: AtomicSlice<AtomicU64>,
}

impl Page {
    /// Maps it.
    ///
    /// # Errors
    /// The memory is smaller than [`BYTES`], or cannot be mapped.
    pub fn map(memory: impl AsFd) -> Result<Self, Failure> {
        let failed = |error: String| {
            Failure::new("mapping the page of the ticks", error, "start both ends from the same binary")
        };
        let mapping = Mapping::shared(memory, 0, BYTES).map_err(|error| failed(error.to_string()))?;
        let words = AtomicSlice::new(&Arc::new(mapping), 0, BYTES as usize / size_of::<u64>(), 0);
        Ok(Page { words: words.map_err(|error| failed(error.to_string()))? })
    }

    fn word(&self, word: Word) -> &AtomicU64 {
        &self.words[word as usize]
    }

    fn slot(&self, number: u64) -> &[AtomicU64] {
        let at = SLOTS_AT + (number % SLOTS as u64) as usize * SLOT_WORDS;
        &self.words[at..at + SLOT_WORDS]
    }

    /// Writes a tick. The times are visible to whoever sees its number, and its number to whoever sees it as latest.
    pub(crate) fn put(&self, tick: Tick) {
        let slot = self.slot(tick.number);
        slot[0].store(0, Ordering::Relaxed);
        // The cleared number goes before the new times; pairs with the fence in `tick`.
        fence(Ordering::Release);
        slot[1].store(tick.due_ns, Ordering::Relaxed);
        slot[2].store(tick.sent_ns, Ordering::Relaxed);
        slot[0].store(tick.number, Ordering::Release);
        self.word(Word::Latest).store(tick.number, Ordering::Release);
    }

    /// The number of the last tick that was sent; 0 before the first.
    pub(crate) fn latest(&self) -> u64 {
        self.word(Word::Latest).load(Ordering::Acquire)
    }

    /// A tick that was sent; none where later ones have overwritten it.
    pub(crate) fn tick(&self, number: u64) -> Option<Tick> {
        let slot = self.slot(number);
        let before = slot[0].load(Ordering::Acquire);
        let (due_ns, sent_ns) = (slot[1].load(Ordering::Relaxed), slot[2].load(Ordering::Relaxed));
        // Times that are newer than the number come with a number that has changed; pairs with the fence in `put`.
        fence(Ordering::Acquire);
        let after = slot[0].load(Ordering::Relaxed);
        (before == number && after == number).then_some(Tick { number, due_ns, sent_ns })
    }

    pub(crate) fn end(&self) {
        self.word(Word::Ended).store(1, Ordering::Release);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.word(Word::Ended).load(Ordering::Acquire) != 0
    }

    pub(crate) fn set_step(&self, step: Step) {
        self.word(Word::Step).store(step as u64, Ordering::Release);
    }

    pub(crate) fn has_reached(&self, step: Step) -> bool {
        self.word(Word::Step).load(Ordering::Acquire) >= step as u64
    }

    /// The receiver asks what time it is.
    pub(crate) fn ask(&self, question: u64) {
        self.word(Word::Asked).store(question, Ordering::Release);
    }

    /// The source's time, once it has answered that question.
    pub(crate) fn answer(&self, question: u64) -> Option<u64> {
        // Pairs with the store in `answer_with`: the time belongs to the question.
        let answered = self.word(Word::Answered).load(Ordering::Acquire) == question;
        answered.then(|| self.word(Word::Time).load(Ordering::Relaxed))
    }

    /// The source answers, if there is a question that it has not answered.
    pub(crate) fn answer_with(&self, now_ns: impl FnOnce() -> u64) -> bool {
        let question = self.word(Word::Asked).load(Ordering::Acquire);
        if question == self.word(Word::Answered).load(Ordering::Relaxed) {
            return false;
        }
        self.word(Word::Time).store(now_ns(), Ordering::Relaxed);
        self.word(Word::Answered).store(question, Ordering::Release);
        true
    }
}
