//! What a port watches.
use crate::Token;

/// The listening socket, or the time to try again.
pub(super) const LINK: Token = Token(0);
/// The connection.
pub(super) const PEER: Token = Token(1);
/// The socket of the back-end's own requests.
pub(super) const CHANNEL: Token = Token(2);
/// Shared memory that is lost.
pub(super) const MEMORY: Token = Token(4);
/// Truncation of the file of deliveries.
pub(super) const DELIVERIES: Token = Token(5);

/// The kicks of the first ring, if the control thread serves it; those of the others follow.
const FIRST_KICK: u32 = 16;

/// The kicks of a ring that the control thread serves.
pub(super) fn kick(index: usize) -> Token {
    Token(FIRST_KICK + index as u32)
}

/// The ring whose kicks these are.
pub(super) fn kicked(token: Token) -> Option<usize> {
    Some(token.0.checked_sub(FIRST_KICK)? as usize)
}
