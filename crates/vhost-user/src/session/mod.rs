//! What each end knows and must do next, without any I/O: messages go in, events and replies come out.
pub mod backend;
pub mod frontend;
mod postcopy;
mod ticket;

pub use ticket::{Outcome, Refusal, Ticket};

use crate::violation::Violation;
use thiserror::Error;

/// Why a session cannot go on. Whatever it is, the socket is to be closed.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum SessionError {
    /// The peer broke the protocol where no error reply is possible.
    #[error("closing the vhost-user session: {0}")]
    Violation(#[from] Violation),
    /// The embedder refused, and the message leaves no room for an error reply.
    #[error("closing the vhost-user session: {message} was refused: {reason}")]
    Refused {
        /// The message's name.
        message: &'static str,
        /// What the embedder said.
        reason: Refusal,
    },
    /// The session had failed before; start a new one with a new connection.
    #[error("this vhost-user session is closed; start a new one with a new connection")]
    Closed,
    /// A message came in while an event waits for its answer. Messages are answered in their order, so
    /// call `answer` before reading on.
    #[error("an event of this vhost-user session still waits for its answer; answer before reading on")]
    Unanswered,
    /// A ticket of another session or of an earlier event.
    #[error("this ticket does not belong to the event that waits for an answer")]
    WrongTicket,
}
