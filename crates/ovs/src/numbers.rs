//! OpenFlow numbers of ports.

use std::collections::{BTreeMap, BTreeSet};

use control::{NUMBER_OPTION, OptionValue, PortDescription};

use crate::{Interface, Place};

/// The largest number of a port (OpenFlow's `OFPP_MAX` of version 1.0).
const MOST: u16 = 0xfeff;

/// The number of each interface by its name. A name keeps its number as long as the interface exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    given: BTreeMap<String, u16>,
}

impl Numbers {
    /// Gives each port among the interfaces a number: its former number, the one that it requests, or the lowest free
    /// one. Numbers of removed ports become free.
    pub fn give(&mut self, interfaces: &[Interface]) {
        let ports = || interfaces.iter().filter(|interface| interface.place == Place::Port);
        let names: BTreeSet<&str> = ports().map(|port| port.name.as_str()).collect();
        self.given.retain(|name, _| names.contains(name.as_str()));
        let mut taken: BTreeSet<u16> = self.given.values().copied().collect();
        let (asking, others): (Vec<_>, Vec<_>) = ports().partition(|port| port.asked.is_some());
        let mut lowest = 1;
        for port in asking.into_iter().chain(others) {
            if self.given.contains_key(&port.name) {
                continue;
            }
            let asked = port.asked.filter(|number| (1..=MOST).contains(number) && !taken.contains(number));
            let number = asked.or_else(|| {
                lowest = (lowest..=MOST).find(|number| !taken.contains(number))?;
                Some(lowest)
            });
            if let Some(number) = number {
                taken.insert(number);
                self.given.insert(port.name.clone(), number);
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
        self.given.get(name).copied()
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
            place: Place::Port,
        };
        asked.iter().map(port).collect()
    }

    #[test]
    fn a_port_keeps_its_number_and_one_that_asks_comes_first() {
        let mut numbers = Numbers::default();
        numbers.give(&ports(&[("a", None), ("b", Some(1)), ("c", Some(1)), ("d", Some(0xffff))]));
        let of = |numbers: &Numbers| ["a", "b", "c", "d"].map(|name| numbers.of(name));
        assert_eq!(of(&numbers), [Some(4), Some(1), Some(2), Some(3)]);
        let local = Interface { place: Place::Local, ..ports(&[("a", None)]).remove(0) };
        numbers.give(&[vec![local], ports(&[("d", Some(1)), ("b", Some(9))])].concat());
        assert_eq!(of(&numbers), [None, Some(1), None, Some(3)]);
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
