//! The right and duty to answer one event.
use std::marker::PhantomData;
use thiserror::Error;

/// Why the embedder cannot do what a peer asks; goes to the log, and to the peer as an error code.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Refusal(pub String);

impl Refusal {
    /// A refusal for this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// The answer to an event that is either done or refused.
pub type Outcome = Result<(), Refusal>;

/// Names the event that an answer is for, and by its type which answer it takes. Not `Clone`: an event
/// is answered once.
#[derive(Debug)]
#[must_use = "the peer waits: give this back with the answer"]
pub struct Ticket<A> {
    pub(crate) sequence: u64,
    answer: PhantomData<fn(A)>,
}

impl<A> Ticket<A> {
    pub(crate) fn new(sequence: u64) -> Self {
        Self { sequence, answer: PhantomData }
    }
}
