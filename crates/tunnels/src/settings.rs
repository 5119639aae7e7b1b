//! The settings of a tunnel port.
use std::net::IpAddr;

use crate::Kind;
use crate::bfd::Timing;

/// The settings of a tunnel port. `None` is the value `flow` of Open vSwitch: flows set the field of each frame that is
/// sent, and received frames may have any value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The kind.
    pub kind: Kind,
    /// The address of the other end.
    pub remote: Option<IpAddr>,
    /// The address of this end; `None` is any address of this end.
    pub local: Option<IpAddr>,
    /// The key; `None` leaves it to flows.
    pub key: Option<u64>,
    /// The UDP port of both ends; 0 for GRE.
    pub port: u16,
    /// Whether sent frames have a checksum. UDP over IPv6 always has one (RFC 8200 §8.1).
    pub checksum: bool,
    /// The type of service of sent frames, without the bits of ECN.
    pub tos: u8,
    /// The hop limit of sent frames.
    pub ttl: u8,
    /// The intervals of the session that checks the path to the other end (BFD), if there is one.
    pub bfd: Option<Timing>,
}

impl Settings {
    /// The hop limit unless another one is set, as in Open vSwitch.
    pub const TTL: u8 = 64;

    /// A tunnel of this kind to this end, with key 0.
    pub fn new(kind: Kind, remote: Option<IpAddr>) -> Self {
        Settings {
            kind,
            remote,
            local: None,
            key: Some(0),
            port: kind.default_port(),
            checksum: false,
            tos: 0,
            ttl: Self::TTL,
            bfd: None,
        }
    }
}
