//! The request of actions to connection tracking, and its answer.
use std::net::IpAddr;

use flow::{Field, Nat};

/// The request of `ct` to connection tracking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Track {
    /// Whether the connection is kept.
    pub commit: bool,
    /// Whether a connection in the other direction is replaced.
    pub force: bool,
    /// The zone.
    pub zone: u16,
    /// The control port of the protocol whose data connections are related; 0 for none.
    pub helper: u16,
    /// Address translation.
    pub nat: Option<Nat>,
    /// The bits that are written to the connection's mark and label.
    pub written: Written,
    /// Whether the frame was tracked in this zone before.
    pub is_seen: bool,
}

/// Bits of a connection's mark and label, and their values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The value of the mark.
    pub mark: u32,
    /// The bits of the mark that are written.
    pub mark_mask: u32,
    /// The value of the label.
    pub label: u128,
    /// The bits of the label that are written.
    pub label_mask: u128,
}

impl Written {
    /// Adds bits of a field. Fields other than the mark and the label are ignored.
    pub(crate) fn add(&mut self, field: Field, value: u128, mask: u128) {
        match field {
            Field::CtMark => {
                let (value, mask) = (value as u32, mask as u32); // the field has 32 bits
                self.mark = self.mark & !mask | value & mask;
                self.mark_mask |= mask;
            }
            Field::CtLabel => {
                self.label = self.label & !mask | value & mask;
                self.label_mask |= mask;
            }
            _ => {}
        }
    }
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
    /// The connection's first direction (`ct_nw_src` and so on), if it is known.
    pub original: Option<Original>,
}

/// The first direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Original {
    /// The sender's address.
    pub source: IpAddr,
    /// The receiver's address, of the same version of IP.
    pub destination: IpAddr,
    /// The number of the protocol.
    pub protocol: u8,
    /// The ports of both, or the type and the code of ICMP.
    pub ports: [u16; 2],
}
