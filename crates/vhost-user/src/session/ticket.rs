//! The obligation to answer one event.
use std::marker::PhantomData;
use thiserror::Error;

/// Why the embedder cannot do what a peer asks for. The reason is logged, and the peer gets an error code.
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

/// Identifies the event of an answer. Its type says which answer the event takes. It is not `Clone`, because an event
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
