//! What actions ask of connection tracking, and its answer.
use flow::{Field, Match, Nat};

/// What `ct` asks of connection tracking.
#[derive(Clone, Copy, Debug)]
pub struct Track<'a> {
    /// The connection is kept.
    pub commit: bool,
    /// One in the other direction is replaced.
    pub force: bool,
    /// The zone.
    pub zone: u16,
    /// The control port of the protocol whose data connections are related; 0 for none.
    pub helper: u16,
    /// Address translation.
    pub nat: Option<&'a Nat>,
    /// What is written into the connection's mark and label.
    pub written: &'a Match,
}

/// What is known of a frame's connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// Bits of `ct_state`.
    pub state: u32,
    /// Its mark.
    pub mark: u32,
    /// Its label.
    pub label: u128,
    /// Addresses, protocol and ports of its first direction (`ct_nw_src` and so on).
    pub original: Vec<(Field, u128)>,
}
