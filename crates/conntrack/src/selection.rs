//! Which connections are meant.
use std::net::IpAddr;

use crate::connection::Connection;
use crate::{Direction, Tuple};

/// The properties of one direction of connections. A property that is `None` is not compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TupleSelection {
    /// The sender's address.
    pub source: Option<IpAddr>,
    /// The receiver's address.
    pub destination: Option<IpAddr>,
    /// The sender's port; for ICMP the identifier, as in [`Tuple`].
    pub source_port: Option<u16>,
    /// The receiver's port; for ICMP type and code, as in [`Tuple`]. The second number has the bits that are compared.
    pub destination_port: Option<(u16, u16)>,
}

impl TupleSelection {
    /// The value of `destination_port` for a type and a code of ICMP; `None` if neither is given.
    pub fn icmp(kind: Option<u8>, code: Option<u8>) -> Option<(u16, u16)> {
        let [kind, code] = [(kind, 8), (code, 0)]
            .map(|(part, shift)| part.map_or((0, 0), |part| (u16::from(part) << shift, 0xff << shift)));
        Some((kind.0 | code.0, kind.1 | code.1)).filter(|(_, bits)| *bits != 0)
    }

    fn has(&self, tuple: &Tuple) -> bool {
        let Self { source, destination, source_port, destination_port } = *self;
        source.is_none_or(|address| address == tuple.source.address)
            && destination.is_none_or(|address| address == tuple.destination.address)
            && source_port.is_none_or(|port| port == tuple.source.port)
            && destination_port.is_none_or(|(port, bits)| (port ^ tuple.destination.port) & bits == 0)
    }
}

/// Connections that have all given properties. A property that is `None` is not compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The zone.
    pub zone: Option<u16>,
    /// The number of the IP protocol.
    pub protocol: Option<u8>,
    /// The direction of the first frame.
    pub original: TupleSelection,
    /// The direction of the answers.
    pub reply: TupleSelection,
    /// The mark, and its bits that are compared.
    pub mark: Option<(u32, u32)>,
    /// The label, and its bits that are compared.
    pub label: Option<(u128, u128)>,
}

impl Selection {
    /// All connections of a zone; `None` for those of all zones.
    pub fn of_zone(zone: Option<u16>) -> Self {
        Self { zone, ..Self::default() }
    }

    /// Whether the selection has all properties of one direction. Such a selection means the connection of frames in this
    /// direction, which may be that of the answers (as in Open vSwitch).
    fn is_one_tuple(&self) -> bool {
        let TupleSelection { source, destination, source_port, destination_port } = self.original;
        let has_rest = self.reply != TupleSelection::default() || self.mark.is_some() || self.label.is_some();
        let has_ports = source_port.is_some() && destination_port.is_some_and(|(_, bits)| bits == u16::MAX);
        source.is_some() && destination.is_some() && has_ports && self.protocol.is_some() && !has_rest
    }

    pub(crate) fn has(&self, connection: &Connection) -> bool {
        let [original, reply] =
            [Direction::Original, Direction::Reply].map(|of| &connection.tuples[of as usize]);
        let mark = connection.mark;
        self.zone.is_none_or(|zone| zone == connection.zone)
            && self.protocol.is_none_or(|protocol| protocol == original.protocol)
            && (self.original.has(original) || self.is_one_tuple() && self.original.has(reply))
            && self.reply.has(reply)
            && self.mark.is_none_or(|(value, bits)| (value ^ mark.mark) & bits == 0)
            && self.label.is_none_or(|(value, bits)| (value ^ mark.label) & bits == 0)
    }
}
