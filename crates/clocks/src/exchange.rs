//! The words over which one end asks, and the other answers.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use measure::Failure;
use memory::{AtomicSlice, Mapping};

use crate::now::now_ns;

/// Words of 64 bits of a cache line: each word is written by one end, and has a line of its own.
const LINE_WORDS: usize = 8;

#[derive(Clone, Copy)]
enum Word {
    /// Who asks: how often it has done so.
    Asked = 0,
    /// Who answers: the question that `Time` answers.
    Answered = LINE_WORDS as isize,
    /// Who answers: its clock then, ns.
    Time = 2 * LINE_WORDS as isize,
}

const WORDS: usize = 3 * LINE_WORDS;

/// Bytes of all.
pub const BYTES: u64 = (WORDS * size_of::<u64>()) as u64;

/// Questions and answers, at either end. Whatever the other end writes, there is nothing here to wait for: it may only
/// lie about its time.
#[derive(Debug)]
pub struct Exchange {
    words: AtomicSlice<AtomicU64>,
}

impl Exchange {
    /// [`BYTES`] bytes at `offset` in memory that both ends map.
    ///
    /// # Errors
    /// They are not all in it.
    pub fn at(mapping: &Arc<Mapping>, offset: u64) -> Result<Self, Failure> {
        let words = AtomicSlice::new(mapping, offset, WORDS, offset).map_err(|error| {
            Failure::new("finding the words for questions of the time", error, "share a whole page of memory")
        });
        Ok(Exchange { words: words? })
    }

    /// Maps shared memory for them alone.
    ///
    /// # Errors
    /// It is too small, or cannot be mapped.
    pub fn map(memory: impl AsFd, offset: u64) -> Result<Self, Failure> {
        let mapping = Mapping::shared(memory, 0, offset + BYTES).map_err(|error| {
            Failure::new("mapping memory for questions of the time", error, "share a whole page of memory")
        });
        Exchange::at(&Arc::new(mapping?), offset)
    }

    fn word(&self, word: Word) -> &AtomicU64 {
        &self.words[word as usize]
    }

    /// Asks what time it is: the question's number.
    pub(crate) fn ask(&self) -> u64 {
        let question = self.word(Word::Asked).load(Ordering::Relaxed).wrapping_add(1);
        self.word(Word::Asked).store(question, Ordering::Release);
        question
    }

    /// The other end's time, once it has answered that question.
    pub(crate) fn answer_to(&self, question: u64) -> Option<u64> {
        // Pairs with the store in `answer`: the time belongs to the question.
        let is_answered = self.word(Word::Answered).load(Ordering::Acquire) == question;
        is_answered.then(|| self.word(Word::Time).load(Ordering::Relaxed))
    }

    /// Answers with this end's CLOCK_MONOTONIC, if there is a question that was not answered yet. Whether there was.
    pub fn answer(&self) -> bool {
        let question = self.word(Word::Asked).load(Ordering::Acquire);
        if question == self.word(Word::Answered).load(Ordering::Relaxed) {
            return false;
        }
        self.word(Word::Time).store(now_ns(), Ordering::Relaxed);
        self.word(Word::Answered).store(question, Ordering::Release);
        true
    }
}
