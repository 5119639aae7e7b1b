//! Tracked connections of a running switch, for people and programs.
use std::net::IpAddr;
use std::time::{Duration, Instant};

use pipeline::{ListFrom, Listed, MAX_CONNECTIONS, Page, Tuple, flow_ms};
use serde::Serialize;

use crate::View;

/// One direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TupleReport {
    /// The sender.
    pub source: IpAddr,
    /// The receiver.
    pub destination: IpAddr,
    /// The sender's port; for ICMP the identifier; 0 for protocols without ports.
    pub source_port: u16,
    /// The receiver's port; for ICMP the type in the upper eight bits, and the code.
    pub destination_port: u16,
}

/// A tracked connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConnectionReport {
    /// The zone.
    pub zone: u16,
    /// The number of the IP protocol.
    pub protocol: u8,
    /// The tuple with which frames of the first direction arrive.
    pub original: TupleReport,
    /// The tuple with which answers arrive.
    pub reply: TupleReport,
    /// The mark.
    pub mark: u32,
    /// The label, as a hexadecimal number.
    pub label: String,
    /// The seconds for which the connection is kept without another frame.
    pub seconds: u64,
    /// The state of TCP or SCTP, by Open vSwitch's name.
    pub state: Option<&'static str>,
    /// The window scales of TCP that the ends have offered.
    pub window_scales: [Option<u8>; 2],
    /// The helper that reads the frames of a control channel, by Open vSwitch's name.
    pub helper: Option<&'static str>,
}

/// A part of a list of connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConnectionsReport {
    /// The connections.
    pub connections: Vec<ConnectionReport>,
    /// The place from which the list goes on; `None` at its end.
    pub next: Option<u64>,
}

/// A zone, its limit and its connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ZoneReport {
    /// The zone.
    pub zone: u16,
    /// The number of connections that the zone may have; `None` for no limit of its own or of all zones.
    pub limit: Option<u32>,
    /// The number of connections that the zone has.
    pub count: u32,
}

/// Numbers of connections, and limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LimitsReport {
    /// The number of connections of the switch.
    pub connections: u64,
    /// The number of connections that the switch can have.
    pub most: u32,
    /// The limit of each zone without a limit of its own.
    pub default: Option<u32>,
    /// The zones.
    pub zones: Vec<ZoneReport>,
}

fn of_tuple(tuple: &Tuple) -> TupleReport {
    TupleReport {
        source: tuple.source.address,
        destination: tuple.destination.address,
        source_port: tuple.source.port,
        destination_port: tuple.destination.port,
    }
}

fn of_listed(listed: &Listed) -> ConnectionReport {
    ConnectionReport {
        zone: listed.zone,
        protocol: listed.original.protocol,
        original: of_tuple(&listed.original),
        reply: of_tuple(&listed.reply),
        mark: listed.mark.mark,
        label: format!("{:#x}", listed.mark.label),
        seconds: listed.timeout.as_secs(),
        state: listed.state,
        window_scales: listed.window_scales,
        helper: listed.helper,
    }
}

impl View<'_> {
    /// Changes the limits of zones: of all that have no limit of their own, and of zones. `None` removes a limit.
    pub fn limit_zones(&mut self, default: Option<Option<u32>>, zones: &[(u16, Option<u32>)]) {
        let connections = self.control.attachments.common.flows().connections();
        let mut limits = connections.zone_limits();
        if let Some(default) = default {
            limits.default = default;
        }
        for (zone, limit) in zones {
            match limit {
                Some(limit) => _ = limits.zones.insert(*zone, *limit),
                None => _ = limits.zones.remove(zone),
            }
        }
        connections.limit_zones(limits);
    }

    /// The limits of these zones, or without zones of those that have a limit of their own.
    pub fn zone_limits(&self, zones: &[u16]) -> LimitsReport {
        let connections = self.control.attachments.common.flows().connections();
        let limits = connections.zone_limits();
        let own: Vec<u16> = limits.zones.keys().copied().collect();
        let zones = if zones.is_empty() { &own[..] } else { zones };
        let report =
            |&zone: &u16| ZoneReport { zone, limit: limits.of(zone), count: connections.held_in(zone) };
        LimitsReport {
            connections: connections.counters().kept,
            most: MAX_CONNECTIONS,
            default: limits.default,
            zones: zones.iter().map(report).collect(),
        }
    }

    /// A part of the tracked connections of a zone, or with `None` of all zones, from a place on: about `enough`. The first
    /// part begins at place 0.
    pub fn connections(&self, zone: Option<u16>, from: u64, enough: usize) -> ConnectionsReport {
        let now = Duration::from_millis(flow_ms(Instant::now()));
        let flows = self.control.attachments.common.flows();
        let Page { connections, next } = flows.list_connections(ListFrom(from), zone, enough, now);
        let connections = connections.iter().map(of_listed).collect();
        ConnectionsReport { connections, next: next.map(|next| next.0) }
    }
}
