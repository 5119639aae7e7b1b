//! The bonds of a switch: which ports are one link, and which of them carry frames.
use std::collections::BTreeMap;
use std::time::Duration;

use pipeline::{BondExits, BondMode, Carriers};

use crate::PortId;
use crate::balance::Balance;
use crate::places::{Places, learning};
use crate::snapshot::BondSnapshot;

/// Several ports that are one link.
#[derive(Clone, Debug)]
pub(crate) struct Bond {
    network: String,
    name: String,
    mode: BondMode,
    /// All ports. The network knows the bond by the first.
    members: Vec<PortId>,
    /// The ports that are up.
    up: Vec<PortId>,
    active: Option<PortId>,
    /// The interval in which load is moved.
    rebalance_interval: Option<Duration>,
    balance: Balance,
}

impl Bond {
    /// The network of the bond.
    pub fn network(&self) -> &str {
        &self.network
    }

    /// The port by which the network knows the bond.
    pub fn home(&self) -> PortId {
        self.members.first().copied().unwrap_or(PortId(0))
    }

    pub fn mode(&self) -> BondMode {
        self.mode
    }

    pub fn is_active(&self, port: PortId) -> bool {
        self.active == Some(port)
    }

    /// The port by which frames for several stations are received.
    pub fn active(&self) -> Option<PortId> {
        self.active
    }

    pub fn exits(&self) -> BondExits {
        let port = self.home();
        let exits = match (self.mode, self.balance.buckets(&self.up)) {
            (BondMode::BalanceSlb, Some(buckets)) => Carriers::ByStation(buckets),
            _ => Carriers::One(self.active.unwrap_or(port)),
        };
        BondExits { port, exits }
    }
}

/// All bonds of a switch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bonds(Vec<Bond>);

impl Bonds {
    /// The bonds of these ports. A port that was active in `before` stays active while it is up.
    pub fn new(ports: &Places<'_>, is_up: impl Fn(PortId) -> bool, before: &Bonds) -> Self {
        let mut found = BTreeMap::<(&str, &str), Bond>::new();
        for (id, port) in learning(ports) {
            let Some(options) = &port.options.bond else { continue };
            let (network, name) = (port.options.network.as_str(), options.name.as_str());
            let made = || Bond {
                network: network.to_owned(),
                name: name.to_owned(),
                mode: options.mode,
                members: Vec::new(),
                up: Vec::new(),
                active: None,
                rebalance_interval: options.rebalance_interval,
                balance: Balance::default(),
            };
            let bond = found.entry((network, name)).or_insert_with(made);
            bond.members.push(id);
            if is_up(id) {
                bond.up.push(id);
            }
        }
        let mut bonds: Vec<Bond> = found.into_values().collect();
        for bond in &mut bonds {
            let same = before.0.iter().find(|old| (&old.network, &old.name) == (&bond.network, &bond.name));
            let stays = same.and_then(|old| old.active).filter(|port| bond.up.contains(port));
            bond.active = stays.or_else(|| bond.up.first().copied());
            bond.balance = same.map(|old| old.balance.clone()).unwrap_or_default();
            bond.balance.keep(&bond.up);
        }
        Bonds(bonds)
    }

    /// The bond of a port.
    pub fn of(&self, port: PortId) -> Option<&Bond> {
        self.0.iter().find(|bond| bond.members.contains(&port))
    }

    /// The port by which the network knows a port: itself, unless it is one of a bond.
    pub fn home(&self, port: PortId) -> PortId {
        self.of(port).map_or(port, Bond::home)
    }

    /// The bonds of a network.
    pub fn of_network<'a>(&'a self, network: &'a str) -> impl Iterator<Item = &'a Bond> {
        self.0.iter().filter(move |bond| bond.network == network)
    }

    /// The bonds in which another port is active than in `before`.
    pub fn changed<'a>(&'a self, before: &'a Bonds) -> impl Iterator<Item = &'a Bond> {
        self.0.iter().filter(|bond| {
            let same = before.0.iter().find(|old| (&old.network, &old.name) == (&bond.network, &bond.name));
            let left = same.and_then(|old| old.active);
            left.is_some() && bond.active.is_some() && left != bond.active
        })
    }

    /// Moves load between the ports of bonds whose interval has ended. Returns whether any was moved.
    pub fn rebalance(&mut self, second: u32) -> bool {
        let balancing = self.0.iter_mut().filter(|bond| bond.mode == BondMode::BalanceSlb);
        balancing.fold(false, |any, bond| {
            let interval = bond.rebalance_interval;
            interval.is_some_and(|interval| bond.balance.look(second, interval, &bond.up)) || any
        })
    }

    /// A port's part in its bond.
    pub fn snapshot(&self, port: PortId) -> Option<BondSnapshot> {
        let bond = self.of(port)?;
        Some(BondSnapshot {
            name: bond.name.clone(),
            mode: bond.mode.name(),
            is_enabled: bond.up.contains(&port),
            is_active: bond.is_active(port),
            load: match bond.exits().exits {
                Carriers::ByStation(buckets) => bond.balance.of_port(port, &buckets),
                Carriers::One(_) => BTreeMap::new(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::{BondOptions, Forwarding, PortOptions};

    fn port(bond: Option<&str>, mode: BondMode) -> Forwarding {
        let bond = bond.map(|name| BondOptions { mode, ..BondOptions::new(name) });
        Forwarding {
            options: PortOptions { bond, ..PortOptions::default() },
            wire: None,
            number: 0,
            forwards: true,
        }
    }

    fn one(bonds: &Bonds) -> PortId {
        match bonds.of(PortId(2)).unwrap().exits() {
            BondExits { port: PortId(1), exits: Carriers::One(port) } => port,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_active_port_stays_until_it_is_down() {
        let (none, member) = (port(None, BondMode::default()), port(Some("b"), BondMode::ActiveBackup));
        let ports = [Some(&none), Some(&member), Some(&member), None, Some(&member)];
        let of = |up: &[u16], before: &Bonds| Bonds::new(&ports, |port| up.contains(&port.0), before);
        let none_is_up = of(&[], &Bonds::default());
        assert_eq!(one(&none_is_up), PortId(1));
        let second = of(&[2, 4], &none_is_up);
        assert_eq!(one(&second), PortId(2));
        let still = of(&[1, 2, 4], &second);
        assert!(one(&still) == PortId(2) && still.changed(&second).next().is_none());
        let other = of(&[1, 4], &still);
        assert!(one(&other) == PortId(1) && other.changed(&still).count() == 1);
        let snapshot = still.snapshot(PortId(4)).unwrap();
        assert!(snapshot.is_enabled && !snapshot.is_active && snapshot.mode == "active-backup");
        assert!(still.of(PortId(0)).is_none() && still.home(PortId(4)) == PortId(1));
    }

    #[test]
    fn all_ports_that_are_up_share_a_balancing_bond() {
        let member = port(Some("b"), BondMode::BalanceSlb);
        let other = port(Some("other"), BondMode::BalanceSlb);
        let ports = [Some(&member), Some(&other), Some(&member)];
        let bonds = Bonds::new(&ports, |_| true, &Bonds::default());
        let BondExits { port: PortId(0), exits: Carriers::ByStation(buckets) } =
            bonds.of(PortId(2)).unwrap().exits()
        else {
            panic!()
        };
        let used = |port| buckets.ports().contains(&PortId(port));
        assert!(used(0) && !used(1) && used(2));
        assert_eq!((bonds.of_network("").count(), bonds.of_network("x").count()), (2, 0));
        let down = Bonds::new(&ports, |_| false, &bonds);
        assert!(matches!(down.of(PortId(2)).unwrap().exits().exits, Carriers::One(PortId(0))));
    }
}
