//! The two directions of a port.

/// A direction, seen from the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// Frames that the guest sends: a [`Source`](crate::Source).
    FromGuest,
    /// Frames that the guest receives: a [`Sink`](crate::Sink).
    ToGuest,
}
