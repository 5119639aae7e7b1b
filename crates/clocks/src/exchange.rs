//! The shared words for questions and answers about the time.

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
    /// Written by the end that asks: the number of its questions.
    Asked = 0,
    /// Written by the end that answers: the number of the question that `Time` answers.
    Answered = LINE_WORDS as isize,
    /// Written by the end that answers: its clock at that time, ns.
    Time = 2 * LINE_WORDS as isize,
}

const WORDS: usize = 3 * LINE_WORDS;

/// Bytes of all words.
pub const BYTES: u64 = (WORDS * size_of::<u64>()) as u64;

/// Questions and answers about the time, for both ends. Nothing here waits for the other end, whatever that writes. The
/// other end can only state a wrong time.
#[derive(Debug)]
pub struct Exchange {
    words: AtomicSlice<AtomicU64>,
}

impl Exchange {
    /// The [`BYTES`] bytes at `offset` in memory that both ends map.
    ///
    /// # Errors
    /// The bytes are not all inside the mapping.
    pub fn at(mapping: &Arc<Mapping>, offset: u64) -> Result<Self, Failure> {
        let words = AtomicSlice::new(mapping, offset, WORDS, offset).map_err(|error| {
            Failure::new("finding the words for questions of the time", error, "share a whole page of memory")
        });
        Ok(Exchange { words: words? })
    }

    /// Maps the bytes at `offset` of a shared memory file.
    ///
    /// # Errors
    /// The memory is too small, or cannot be mapped.
    pub fn map(memory: impl AsFd, offset: u64) -> Result<Self, Failure> {
        let mapping = Mapping::shared(memory, 0, offset + BYTES).map_err(|error| {
            Failure::new("mapping memory for questions of the time", error, "share a whole page of memory")
        });
        Exchange::at(&Arc::new(mapping?), offset)
    }

    fn word(&self, word: Word) -> &AtomicU64 {
        &self.words[word as usize]
    }

    /// Asks for the time. Returns the question's number.
    pub(crate) fn ask(&self) -> u64 {
        let question = self.word(Word::Asked).load(Ordering::Relaxed).wrapping_add(1);
        self.word(Word::Asked).store(question, Ordering::Release);
        question
    }

    /// The other end's time, if it has answered that question.
    pub(crate) fn answer_to(&self, question: u64) -> Option<u64> {
        // Pairs with the store in `answer`: the time belongs to the question.
        let is_answered = self.word(Word::Answered).load(Ordering::Acquire) == question;
        is_answered.then(|| self.word(Word::Time).load(Ordering::Relaxed))
    }

    /// Answers with this end's CLOCK_MONOTONIC, if there is an unanswered question. Returns whether there was one.
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
