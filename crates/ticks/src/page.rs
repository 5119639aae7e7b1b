//! The memory that source and receiver share.
//!
//! It consists of words of 64 bits. Each word is written by one end only. A tick's slot is written like a sequence
//! lock: its number is cleared, its times are written, and its number is set. A reader that finds the same number
//! before and after has times that belong together.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use clocks::Exchange;
use measure::Failure;
use memory::{AtomicSlice, Mapping};

/// The size in bytes, a power of two because it becomes a PCI BAR.
pub const BYTES: u64 = 8 << 20;

/// Ticks that are kept before they are overwritten: a minute at 1 ms.
pub const SLOTS: usize = 1 << 16;
/// The words of a slot are named by [`Field`]; a slot is one cache line.
const SLOT_WORDS: usize = 8;
/// The offset of the hints for a daemon that raises the receiver: after the single words.
pub const HINTS_AT: u64 = 2048;
const _: () =
    assert!(HINTS_AT >= 512 && HINTS_AT + pv_sched::HINTS_BYTES <= (SLOTS_AT * size_of::<u64>()) as u64);

/// Slots begin after one page of single words, each in a cache line of its own.
const SLOTS_AT: usize = 512;

/// Single words.
#[derive(Clone, Copy)]
enum Word {
    /// Written by the source: the number of the last tick; 0 before the first.
    Latest = 0,
    /// Written by the source: whether it has sent its last tick.
    Ended = 8,
    /// Written by the receiver: a step of [`Step`].
    Step = 16,
    /// Written by both ends: questions about the time and their answers, in three lines.
    Exchange = 24,
    /// Written by the receiver: how many of its kernel's handler times are in the page.
    Handlers = 48,
}

/// A word of a slot.
#[derive(Clone, Copy)]
enum Field {
    /// Source.
    Number = 0,
    /// Source, ns.
    Due = 1,
    /// Source, ns.
    Sent = 2,
    /// Written by the receiver: its clock when it ran, ns.
    Received = 3,
    /// Written by the receiver: its clock when the tick's work was done, ns.
    Done = 4,
    /// Written by the receiver: its clock at the handler of the interrupt with this slot's number, ns. Interrupts are
    /// numbered separately from ticks, because they can merge.
    Handler = 5,
}

/// The progress of the receiver; 0 while it aligns its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// The receiver waits for ticks.
    Ready = 1,
    /// The receiver has seen the end, and has aligned its clock again.
    Done = 2,
}

/// One tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// The tick's number, from 1.
    pub number: u64,
    /// When the tick was due, ns of the source's CLOCK_MONOTONIC.
    pub due_ns: u64,
    /// When the tick was sent, on the same clock.
    pub sent_ns: u64,
}

/// A tick, with the times that its receiver wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The tick.
    pub tick: Tick,
    /// When the receiver ran, ns of the receiver's CLOCK_MONOTONIC.
    pub received_ns: u64,
    /// When the tick's work was done, on the same clock.
    pub done_ns: u64,
}

/// The shared page, mapped.
#[derive(Debug)]
pub struct Page {
    words: AtomicSlice<AtomicU64>,
    exchange: Exchange,
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
        let mapping = Arc::new(mapping);
        let words = AtomicSlice::new(&mapping, 0, BYTES as usize / size_of::<u64>(), 0);
        let words = words.map_err(|error| failed(error.to_string()))?;
        let exchange_at = Word::Exchange as u64 * size_of::<u64>() as u64;
        Ok(Page { words, exchange: Exchange::at(&mapping, exchange_at)? })
    }

    fn word(&self, word: Word) -> &AtomicU64 {
        &self.words[word as usize]
    }

    fn slot(&self, number: u64) -> &[AtomicU64] {
        let at = SLOTS_AT + (number % SLOTS as u64) as usize * SLOT_WORDS;
        &self.words[at..at + SLOT_WORDS]
    }

    /// Writes a tick: first its times, then its number, then the latest number. A reader that sees a number therefore
    /// sees the times and numbers that were written before it.
    pub(crate) fn put(&self, tick: Tick) {
        let slot = self.slot(tick.number);
        slot[Field::Number as usize].store(0, Ordering::Relaxed);
        // The cleared number goes before the new times; pairs with the fence in `record`.
        fence(Ordering::Release);
        slot[Field::Due as usize].store(tick.due_ns, Ordering::Relaxed);
        slot[Field::Sent as usize].store(tick.sent_ns, Ordering::Relaxed);
        slot[Field::Received as usize].store(0, Ordering::Relaxed);
        slot[Field::Number as usize].store(tick.number, Ordering::Release);
        self.word(Word::Latest).store(tick.number, Ordering::Release);
    }

    /// The number of the last tick that was sent; 0 before the first.
    pub fn latest(&self) -> u64 {
        self.word(Word::Latest).load(Ordering::Acquire)
    }

    /// A tick that was sent; `None` if later ones have overwritten it.
    pub(crate) fn tick(&self, number: u64) -> Option<Tick> {
        self.slot_of(number).map(|[due_ns, sent_ns, ..]| Tick { number, due_ns, sent_ns })
    }

    /// A tick with its receiver's times; `None` if it was overwritten or not received.
    pub fn record(&self, number: u64) -> Option<Record> {
        let [due_ns, sent_ns, received_ns, done_ns] = self.slot_of(number)?;
        let tick = Tick { number, due_ns, sent_ns };
        (received_ns != 0).then_some(Record { tick, received_ns, done_ns })
    }

    fn slot_of(&self, number: u64) -> Option<[u64; 4]> {
        let slot = self.slot(number);
        let before = slot[Field::Number as usize].load(Ordering::Acquire);
        let times = [Field::Due, Field::Sent, Field::Received, Field::Done]
            .map(|field| slot[field as usize].load(Ordering::Relaxed));
        // Times that are newer than the number come with a number that has changed; pairs with the fence in `put`.
        fence(Ordering::Acquire);
        let after = slot[Field::Number as usize].load(Ordering::Relaxed);
        (before == number && after == number).then_some(times)
    }

    /// Writes the receiver's times of a tick that it has just seen.
    pub(crate) fn set_received(&self, number: u64, received_ns: u64, done_ns: u64) {
        let slot = self.slot(number);
        slot[Field::Done as usize].store(done_ns, Ordering::Relaxed);
        slot[Field::Received as usize].store(received_ns, Ordering::Release);
    }

    /// Writes the times at which the receiver's kernel handled interrupts, in order. If there are too many, only the
    /// first ones.
    pub fn set_handlers(&self, times_ns: &[u64]) {
        let times_ns = &times_ns[..times_ns.len().min(SLOTS)];
        for (number, time_ns) in times_ns.iter().enumerate() {
            self.slot(number as u64)[Field::Handler as usize].store(*time_ns, Ordering::Relaxed);
        }
        self.word(Word::Handlers).store(times_ns.len() as u64, Ordering::Release);
    }

    /// The times that [`Page::set_handlers`] wrote.
    pub fn handlers(&self) -> Vec<u64> {
        let count = self.word(Word::Handlers).load(Ordering::Acquire).min(SLOTS as u64);
        (0..count).map(|number| self.slot(number)[Field::Handler as usize].load(Ordering::Relaxed)).collect()
    }

    /// Reads a word of each page, so that no page fault occurs while ticks are sent.
    pub(crate) fn touch(&self) {
        const SMALL_PAGE: usize = 4096 / size_of::<u64>();
        for at in (0..BYTES as usize / size_of::<u64>()).step_by(SMALL_PAGE) {
            std::hint::black_box(self.words[at].load(Ordering::Relaxed));
        }
    }

    /// Resets the page for one more run over the same memory. Neither end may use it then.
    pub fn reset(&self) {
        for word in [Word::Latest, Word::Ended, Word::Step, Word::Handlers] {
            self.word(word).store(0, Ordering::Release);
        }
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

    /// The words through which the receiver asks for the source's time.
    pub(crate) fn exchange(&self) -> &Exchange {
        &self.exchange
    }
}
