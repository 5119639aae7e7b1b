//! The next hop to an address.
use std::net::IpAddr;

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The network, whose bits behind the prefix are ignored.
    pub network: IpAddr,
    /// The length of the prefix.
    pub bits: u8,
    /// The next hop; `None` if the network's addresses are neighbours.
    pub gateway: Option<IpAddr>,
    /// The address of this end.
    pub source: IpAddr,
    /// Lower values come first among routes to one network.
    pub metric: u32,
    /// The link, a number of the caller's.
    pub link: usize,
}

/// Where frames to an address go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The neighbour.
    pub neighbour: IpAddr,
    /// The address of this end.
    pub source: IpAddr,
    /// The link.
    pub link: usize,
}

/// Routes, and the addresses of links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// The most specific first.
    routes: Vec<Route>,
    /// By link.
    addresses: Vec<Vec<IpAddr>>,
}

/// Whether an address has the first `bits` bits of a network. Addresses of different families never do.
fn is_in(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let number = |address| match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)) << 96, 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    };
    let ((one, width), (other, of)) = (number(address), number(network));
    width == of && bits <= width && (one ^ other).checked_shr(128 - u32::from(bits)).unwrap_or(0) == 0
}

impl Routes {
    /// These routes, and the addresses of each link, by its number.
    pub fn new(mut routes: Vec<Route>, addresses: Vec<Vec<IpAddr>>) -> Self {
        routes.sort_by_key(|route| (std::cmp::Reverse(route.bits), route.metric));
        Routes { routes, addresses }
    }

    /// The routes, the most specific first.
    pub fn all(&self) -> &[Route] {
        &self.routes
    }

    /// Whether frames that take this route may have this source: one of its link's addresses.
    fn has(&self, route: &Route, source: IpAddr) -> bool {
        let is_of_link = || self.addresses.get(route.link).is_some_and(|all| all.contains(&source));
        source == route.source || source.is_ipv4() == route.network.is_ipv4() && is_of_link()
    }

    /// The next hop to an address: by the longest prefix, and among these by the lowest metric. With `source`, only
    /// routes by links with this address count, and it is the hop's.
    pub fn hop(&self, to: IpAddr, source: Option<IpAddr>) -> Option<Hop> {
        let fits = |route: &&Route| {
            is_in(to, route.network, route.bits) && source.is_none_or(|source| self.has(route, source))
        };
        let route = self.routes.iter().find(fits)?;
        let (neighbour, source) = (route.gateway.unwrap_or(to), source.unwrap_or(route.source));
        Some(Hop { neighbour, source, link: route.link })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(network: &str, bits: u8, gateway: Option<&str>, source: &str, link: usize) -> Route {
        let address = |text: &str| text.parse().unwrap();
        Route {
            network: address(network),
            bits,
            gateway: gateway.map(address),
            source: address(source),
            metric: 0,
            link,
        }
    }

    #[test]
    fn the_longest_prefix_wins_and_families_are_apart() {
        let routes = vec![
            route("0.0.0.0", 0, Some("192.0.2.254"), "192.0.2.1", 0),
            route("192.0.2.0", 24, None, "192.0.2.1", 0),
            route("fd00::", 64, None, "fd00::1", 1),
        ];
        let routes = Routes::new(routes, Vec::new());
        let hop = |to: &str, source: Option<&str>| {
            let hop = routes.hop(to.parse().unwrap(), source.map(|source| source.parse().unwrap()));
            hop.map(|hop| (hop.neighbour.to_string(), hop.link))
        };
        assert_eq!(hop("192.0.2.9", None), Some(("192.0.2.9".to_owned(), 0)));
        assert_eq!(hop("198.51.100.1", None), Some(("192.0.2.254".to_owned(), 0)));
        assert_eq!(hop("198.51.100.1", Some("192.0.2.7")), None);
        assert_eq!(hop("fd00::5", None), Some(("fd00::5".to_owned(), 1)));
        assert_eq!(hop("fd01::5", None), None);
    }

    /// A host with two links in one network, and with a second address on one of them.
    #[test]
    fn a_source_may_be_any_address_of_a_link() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let routes = ["192.0.2.1", "192.0.2.2"].into_iter().zip(0..);
        let routes = routes.map(|(source, link)| route("192.0.2.0", 24, None, source, link)).collect();
        let links = vec![vec![address("192.0.2.1")], vec![address("192.0.2.2"), address("203.0.113.7")]];
        let routes = Routes::new(routes, links);
        let hop = |source: &str| routes.hop(address("192.0.2.9"), Some(address(source)));
        for (source, link) in [("192.0.2.1", 0), ("192.0.2.2", 1), ("203.0.113.7", 1)] {
            let wanted = Hop { neighbour: address("192.0.2.9"), source: address(source), link };
            assert_eq!(hop(source), Some(wanted));
        }
        assert_eq!((hop("203.0.113.8"), hop("fd00::1")), (None, None));
    }
}
