//! OpenFlow numbers of ports.

use std::collections::{BTreeMap, BTreeSet};

use control::{NUMBER_OPTION, OptionValue, PortDescription};

use crate::{Interface, Place};

/// The largest number of a port (OpenFlow's `OFPP_MAX` of version 1.0).
const MOST: u16 = 0xfeff;

/// The number of each interface by its name. A name keeps its number as long as the interface is a port of its bridge and
/// requests no other number that is free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    given: BTreeMap<String, Given>,
}

/// A number in a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Given {
    bridge: String,
    number: u16,
}

impl Numbers {
    /// Gives each port among the interfaces a number of its own in its bridge: its number so far, the one that it requests,
    /// the one that a switch gave it before, or the lowest free one. Numbers of removed ports become free.
    pub fn give(&mut self, interfaces: &[Interface]) {
        let ports = || interfaces.iter().filter(|interface| interface.place == Place::Port);
        let places: BTreeSet<_> = ports().map(|port| (port.name.as_str(), port.bridge.as_str())).collect();
        self.given.retain(|name, given| places.contains(&(name.as_str(), given.bridge.as_str())));
        // A request that changed is met if the number is free.
        let taken: BTreeSet<_> =
            self.given.values().map(|given| (given.bridge.clone(), given.number)).collect();
        for port in ports() {
            let asked = port.asked.filter(|asked| (1..=MOST).contains(asked));
            if asked.is_some_and(|asked| !taken.contains(&(port.bridge.clone(), asked))) {
                self.given.remove(&port.name);
            }
        }
        // A number that was given before goes before a request that was not met.
        let wanted: [fn(&Interface) -> Option<u16>; 4] = [
            |port| port.asked.filter(|number| port.former == Some(*number)),
            |port| port.former.filter(|_| port.asked.is_none()),
            |port| port.asked,
            |port| port.former,
        ];
        let known = ports().filter_map(|port| Some((port.bridge.as_str(), self.of(&port.name)?)));
        let mut taken: BTreeSet<(&str, u16)> = known.collect();
        let mut left: Vec<&Interface> = ports().filter(|port| !self.given.contains_key(&port.name)).collect();
        let mut give = |port: &Interface, number| {
            self.given.insert(port.name.clone(), Given { bridge: port.bridge.clone(), number });
        };
        for wanted in wanted {
            left.retain(|port| {
                let number = wanted(port).filter(|number| (1..=MOST).contains(number));
                let free = number.filter(|number| taken.insert((&port.bridge, *number)));
                free.map(|number| give(port, number)).is_none()
            });
        }
        let mut lowest = BTreeMap::new();
        for port in left {
            let bridge = port.bridge.as_str();
            let lowest = lowest.entry(bridge).or_insert(1);
            if let Some(number) = (*lowest..=MOST).find(|number| taken.insert((bridge, *number))) {
                *lowest = number;
                give(port, number);
            }
        }
    }

    /// Writes the numbers into the descriptions of ports.
    pub fn describe(&self, ports: &mut BTreeMap<String, PortDescription>) {
        for (name, port) in ports {
            let number = self.of(name).map(|number| OptionValue::Number(number.into()));
            port.options.extend(number.map(|number| (NUMBER_OPTION.to_owned(), number)));
        }
    }

    /// The number of an interface.
    pub fn of(&self, name: &str) -> Option<u16> {
        self.given.get(name).map(|given| given.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(asked: &[(&str, Option<u16>)]) -> Vec<Interface> {
        let port = |(name, asked): &(&str, Option<u16>)| Interface {
            bridge: String::new(),
            name: (*name).to_owned(),
            kind: String::new(),
            row: ovsdb::Uuid::default(),
            asked: *asked,
            former: None,
            place: Place::Port,
        };
        asked.iter().map(port).collect()
    }

    #[test]
    fn a_port_keeps_its_number_and_one_that_asks_comes_first() {
        let mut numbers = Numbers::default();
        numbers.give(&ports(&[("a", None), ("b", Some(1)), ("c", Some(1)), ("d", Some(0xffff))]));
        let of = |numbers: &Numbers| ["a", "b", "c", "d"].map(|name| numbers.of(name));
        assert_eq!(of(&numbers), [Some(2), Some(1), Some(3), Some(4)]);
        let local = Interface { place: Place::Local, ..ports(&[("a", None)]).remove(0) };
        numbers.give(&[vec![local], ports(&[("d", Some(1)), ("b", Some(9))])].concat());
        assert_eq!(of(&numbers), [None, Some(9), None, Some(4)]);
    }

    #[test]
    fn a_changed_request_is_met_if_the_number_is_free() {
        let mut numbers = Numbers::default();
        numbers.give(&ports(&[("a", Some(1)), ("b", Some(1))]));
        numbers.give(&ports(&[("a", Some(24)), ("b", Some(0xffff))]));
        assert_eq!(["a", "b"].map(|name| numbers.of(name)), [Some(24), Some(2)]);
        numbers.give(&ports(&[("a", None), ("b", Some(24))]));
        assert_eq!(["a", "b"].map(|name| numbers.of(name)), [Some(24), Some(2)]);
    }

    #[test]
    fn each_bridge_counts_for_itself() {
        let of_bridge = |bridge: &str, all: Vec<Interface>| -> Vec<Interface> {
            all.into_iter().map(|port| Interface { bridge: bridge.to_owned(), ..port }).collect()
        };
        let mut numbers = Numbers::default();
        let tunnel = of_bridge("br-int", ports(&[("tunnel", None)]));
        let card = of_bridge("br-phys", ports(&[("card", None)]));
        numbers.give(&[tunnel.clone(), card.clone()].concat());
        assert_eq!(["tunnel", "card"].map(|name| numbers.of(name)), [Some(1), Some(1)]);
        let tunnel: Vec<_> = tunnel.into_iter().map(|port| Interface { former: Some(1), ..port }).collect();
        let more = of_bridge("br-int", ports(&[("vif", Some(1)), ("late", Some(1))]));
        numbers.give(&[tunnel.clone(), card.clone(), more.clone()].concat());
        let of = |numbers: &Numbers| ["tunnel", "card", "vif", "late"].map(|name| numbers.of(name));
        assert_eq!(of(&numbers), [Some(1), Some(1), Some(2), Some(3)]);
        // A switch that is started again gives the numbers that the one before it gave.
        let again = |(port, former): (&Interface, u16)| Interface { former: Some(former), ..port.clone() };
        let all = [tunnel, card, more].concat();
        let all: Vec<_> = all.iter().zip([1, 1, 2, 3]).map(again).collect();
        let mut other = Numbers::default();
        other.give(&all);
        assert_eq!(of(&other), of(&numbers));
        // A port that moves to another bridge gets a number there.
        other.give(&of_bridge("br-phys", ports(&[("vif", None), ("card", None)])));
        assert_eq!(of(&other), [None, Some(1), Some(2), None]);
        // A number of another bridge is free.
        let asks = of_bridge("br-phys", ports(&[("card", Some(3))]));
        let rest = of_bridge("br-int", ports(&[("tunnel", None), ("vif", None), ("late", None)]));
        numbers.give(&[rest, asks].concat());
        assert_eq!(of(&numbers), [Some(1), Some(3), Some(2), Some(3)]);
    }

    #[test]
    fn more_ports_than_numbers_leave_some_without() {
        let names: Vec<String> = (0..=u32::from(MOST)).map(|port| port.to_string()).collect();
        let all: Vec<(&str, Option<u16>)> = names.iter().map(|name| (name.as_str(), None)).collect();
        let mut numbers = Numbers::default();
        numbers.give(&ports(&all));
        assert_eq!(names.iter().filter(|name| numbers.of(name).is_none()).count(), 1);
    }
}
