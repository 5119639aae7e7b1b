//! What a port watches.
use crate::Token;

/// The listening socket, or the time to try again.
pub(super) const LINK: Token = Token(0);
/// The connection.
pub(super) const PEER: Token = Token(1);
/// The socket of the back-end's own requests.
pub(super) const CHANNEL: Token = Token(2);
/// The control queue's kick.
pub(super) const CONTROL: Token = Token(3);
/// Shared memory that is lost.
pub(super) const MEMORY: Token = Token(4);
/// Truncation of the file of deliveries.
pub(super) const DELIVERIES: Token = Token(5);
