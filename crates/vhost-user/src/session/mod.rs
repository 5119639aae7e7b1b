//! The state of each end and its next steps, without I/O: messages go in, events and replies come out.
pub mod backend;
pub mod frontend;
mod postcopy;
mod ticket;

pub use ticket::{Outcome, Refusal, Ticket};

use crate::violation::Violation;
use thiserror::Error;

/// Why a session cannot continue. In each case the socket must be closed.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum SessionError {
    /// The peer broke the protocol in a message without an error reply.
    #[error("closing the vhost-user session: {0}")]
    Violation(#[from] Violation),
    /// The embedder refused, and the message has no error reply.
    #[error("closing the vhost-user session: {message} was refused: {reason}")]
    Refused {
        /// The message's name.
        message: &'static str,
        /// The embedder's reason.
        reason: Refusal,
    },
    /// The session had failed before. A new session needs a new connection.
    #[error("this vhost-user session is closed; start a new one with a new connection")]
    Closed,
    /// A message came while an event waits for its answer. Messages are answered in their order, so `answer` must be
    /// called before reading on.
    #[error("an event of this vhost-user session still waits for its answer; answer before reading on")]
    Unanswered,
    /// The ticket belongs to another session or to an earlier event.
    #[error("this ticket does not belong to the event that waits for an answer")]
    WrongTicket,
}
