//! The state of a frame's connection, as `ct_state` of Open vSwitch (ovs-fields(7)).
use std::ops::BitOr;

/// Bits of `ct_state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State(u32);

impl State {
    /// No bit: the frame was not tracked.
    pub const NONE: State = State(0);
    /// `new`: the connection is not kept yet, or no answer was seen.
    pub const NEW: State = State(1);
    /// `est`: frames were seen in both directions.
    pub const ESTABLISHED: State = State(1 << 1);
    /// `rel`: the frame is related to a connection: an ICMP error about it, or a connection that a helper expected.
    pub const RELATED: State = State(1 << 2);
    /// `rpl`: the frame has the direction of answers.
    pub const REPLY: State = State(1 << 3);
    /// `inv`: the frame belongs to no connection and cannot begin one.
    pub const INVALID: State = State(1 << 4);
    /// `trk`: the frame was tracked.
    pub const TRACKED: State = State(1 << 5);
    /// `snat`: the frame's source was translated.
    pub const SOURCE_TRANSLATED: State = State(1 << 6);
    /// `dnat`: the frame's destination was translated.
    pub const DESTINATION_TRANSLATED: State = State(1 << 7);

    /// The bits as a number.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Whether all of these bits are set.
    pub fn has(self, bits: State) -> bool {
        self.0 & bits.0 == bits.0
    }
}

impl BitOr for State {
    type Output = State;

    fn bitor(self, other: State) -> State {
        State(self.0 | other.0)
    }
}
