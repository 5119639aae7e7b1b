//! Tunnels, and the interfaces at whose addresses they end, for people and programs.
use std::net::IpAddr;

use serde::Serialize;

use crate::registry;
use crate::view::{Link, View};

/// A neighbour whose Ethernet address is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NeighbourReport {
    /// The IP address.
    pub address: IpAddr,
    /// The Ethernet address, as `02:00:00:00:00:01`.
    pub mac: String,
}

/// An interface at whose addresses tunnels end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnderlayReport {
    /// The interface's name.
    pub name: String,
    /// The interface's addresses.
    pub addresses: Vec<IpAddr>,
    /// The neighbours that tunnels use.
    pub neighbours: Vec<NeighbourReport>,
}

/// A route by an underlay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RouteReport {
    /// The network.
    pub network: IpAddr,
    /// The length of the network's prefix.
    pub bits: u8,
    /// The next hop; `None` if the network's addresses are neighbours.
    pub gateway: Option<IpAddr>,
    /// The address of this end.
    pub source: IpAddr,
    /// The name of the underlay.
    pub underlay: String,
}

/// A tunnel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TunnelReport {
    /// The kind: `geneve`, `vxlan` or `gre`.
    pub kind: &'static str,
    /// The UDP port at which frames are received; 0 for GRE.
    pub port: u16,
}

/// Where frames to an address go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HopReport {
    /// The next hop; the address itself if it is a neighbour.
    pub neighbour: IpAddr,
    /// The address of this end.
    pub source: IpAddr,
    /// The name of the underlay.
    pub underlay: String,
}

/// All tunnels at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The underlays, by name.
    pub underlays: Vec<UnderlayReport>,
    /// The routes, the most specific first.
    pub routes: Vec<RouteReport>,
    /// The tunnels, by kind and port.
    pub tunnels: Vec<TunnelReport>,
    /// Where frames to the address go that was asked for; `None` without a route.
    pub hop: Option<HopReport>,
}

fn of_link(link: &Link) -> UnderlayReport {
    let neighbour = |(address, [a, b, c, d, e, f]): &(IpAddr, tunnels::Mac)| NeighbourReport {
        address: *address,
        mac: format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}"),
    };
    UnderlayReport {
        name: link.name.clone(),
        addresses: link.addresses.clone(),
        neighbours: link.neighbours.iter().map(neighbour).collect(),
    }
}

/// All tunnels of this process, and where frames to `to` go.
pub fn report(to: Option<IpAddr>) -> Report {
    of_view(&registry::current(), to)
}

fn of_view(view: &View, to: Option<IpAddr>) -> Report {
    let name = |link: usize| view.links.get(link).map(|link| link.name.clone()).unwrap_or_default();
    let routes = view.routes.all().iter().map(|route| RouteReport {
        network: route.network,
        bits: route.bits,
        gateway: route.gateway,
        source: route.source,
        underlay: name(route.link),
    });
    let tunnel =
        |settings: &tunnels::Settings| TunnelReport { kind: settings.kind.name(), port: settings.port };
    let hop = to.and_then(|to| view.routes.hop(to, None));
    Report {
        underlays: view.links.iter().map(|link| of_link(link)).collect(),
        routes: routes.collect(),
        tunnels: view.tunnels.all().map(|of| tunnel(&of.settings)).collect(),
        hop: hop.map(|hop| HopReport {
            neighbour: hop.neighbour,
            source: hop.source,
            underlay: name(hop.link),
        }),
    }
}
