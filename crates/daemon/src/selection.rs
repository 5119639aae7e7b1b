//! Which tracked connections an operator or a controller means.
use std::net::{IpAddr, Ipv6Addr};

use control::{ConnectionFilter, TupleFilter};
use openflow::{CtFlush, Tuple};
use switch::{Selection, TupleSelection};

/// The protocols of connections whose ports are an identifier, a type and a code (IANA).
const ICMP: [u8; 2] = [1, 58];

/// The connections of an operator's filter. The error is a text for the user.
pub fn of_filter(filter: &ConnectionFilter) -> Result<Selection, String> {
    let tuple = |of: &TupleFilter| TupleSelection {
        source: of.source,
        destination: of.destination,
        source_port: of.source_port,
        destination_port: TupleSelection::icmp(of.icmp_type, of.icmp_code)
            .or(of.destination_port.map(|port| (port, u16::MAX))),
    };
    Ok(Selection {
        zone: filter.zone,
        protocol: filter.protocol,
        original: tuple(&filter.original),
        reply: tuple(&filter.reply),
        mark: filter.mark,
        label: filter.label()?,
    })
}

/// The connections that a controller ends.
pub fn of_message(message: &CtFlush) -> Selection {
    let address = |of: u128| {
        let address = Ipv6Addr::from(of);
        Some(address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4)).filter(|_| of != 0)
    };
    let is_icmp = ICMP.contains(&message.protocol);
    let tuple = |of: &Option<Tuple>| {
        let of = of.clone().filter(|of| !of.is_empty()).unwrap_or_default();
        let port = |port: Option<u16>| port.filter(|port| *port != 0);
        TupleSelection {
            source: of.source.and_then(address),
            destination: of.destination.and_then(address),
            source_port: if is_icmp { of.icmp_id } else { port(of.source_port) },
            destination_port: match is_icmp {
                true => TupleSelection::icmp(of.icmp_type, of.icmp_code),
                false => port(of.destination_port).map(|port| (port, u16::MAX)),
            },
        }
    };
    Selection {
        zone: message.zone,
        protocol: Some(message.protocol).filter(|protocol| *protocol != 0),
        original: tuple(&message.original),
        reply: tuple(&message.reply),
        mark: message.mark.map(|mark| (mark, message.mark_mask.unwrap_or(u32::MAX))),
        label: message.label.map(|label| (label, message.label_mask.unwrap_or(u128::MAX))),
    }
}
