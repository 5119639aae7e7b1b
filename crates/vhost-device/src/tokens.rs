//! Tokens for what a back-end watches.
use std::ops::Range;

use crate::Token;

/// The listening socket, or the timer for the next attempt to connect.
pub(crate) const LINK: Token = Token(0);
/// The connection.
pub(crate) const PEER: Token = Token(1);
/// The socket of the back-end's own requests.
pub(crate) const CHANNEL: Token = Token(2);
/// The descriptor that reports lost shared memory.
pub(crate) const MEMORY: Token = Token(4);

/// Tokens for the program that runs a [`Backend`](crate::Backend) and watches more in the same context.
pub const FREE_TOKENS: Range<u32> = 8..FIRST_KICK;

/// The kicks of the first ring, if the control thread serves it; those of the others follow.
const FIRST_KICK: u32 = 16;

/// The token for the kick of a ring that the control thread serves.
pub(crate) fn kick(index: usize) -> Token {
    Token(FIRST_KICK + index as u32)
}

/// The ring whose kick has this token.
pub(crate) fn kicked(token: Token) -> Option<usize> {
    Some(token.0.checked_sub(FIRST_KICK)? as usize)
}
