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

/// Routes, the most specific first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes(Vec<Route>);

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
    /// These routes.
    pub fn new(mut routes: Vec<Route>) -> Self {
        routes.sort_by_key(|route| (std::cmp::Reverse(route.bits), route.metric));
        Routes(routes)
    }

    /// The next hop to an address: by the longest prefix, and among these by the lowest metric. With `source`, only
    /// routes from this address count.
    pub fn hop(&self, to: IpAddr, source: Option<IpAddr>) -> Option<Hop> {
        let fits = |route: &&Route| {
            is_in(to, route.network, route.bits) && source.is_none_or(|source| source == route.source)
        };
        let route = self.0.iter().find(fits)?;
        Some(Hop { neighbour: route.gateway.unwrap_or(to), source: route.source, link: route.link })
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
        let routes = Routes::new(vec![
            route("0.0.0.0", 0, Some("192.0.2.254"), "192.0.2.1", 0),
            route("192.0.2.0", 24, None, "192.0.2.1", 0),
            route("fd00::", 64, None, "fd00::1", 1),
        ]);
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
}
