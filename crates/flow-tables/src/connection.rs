//! The request of actions to connection tracking, and its answer.
use flow::{Field, Match, Nat};

/// The request of `ct` to connection tracking.
#[derive(Clone, Copy, Debug)]
pub struct Track<'a> {
    /// Whether the connection is kept.
    pub commit: bool,
    /// Whether a connection in the other direction is replaced.
    pub force: bool,
    /// The zone.
    pub zone: u16,
    /// The control port of the protocol whose data connections are related; 0 for none.
    pub helper: u16,
    /// Address translation.
    pub nat: Option<&'a Nat>,
    /// The values that are written to the connection's mark and label.
    pub written: &'a Match,
}

/// The state of a frame's connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// The bits of `ct_state`.
    pub state: u32,
    /// Its mark.
    pub mark: u32,
    /// Its label.
    pub label: u128,
    /// The addresses, protocol and ports of the connection's first direction (`ct_nw_src` and so on), if it is known.
    pub original: Option<[(Field, u128); 5]>,
}
