//! Which program decides about the frames of each port.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pipeline::{
    Admission, BondExits, BondGuard, BondMode, Bonded, BondedNetwork, FlowProgram, Guard, Learning, MacTable,
    Nowhere, Policer, PortNumbers, PortVlans, Program, RateLimit, TablesId, VlanLearning, Wire,
};

use crate::PortId;
use crate::bonds::{Bond, Bonds};
use crate::flow_sets::FlowSets;
use crate::places::{Places, learning};
use crate::setup::Forwarding;
use crate::tables::{OwnAddresses, Tables};

/// The programs of all ports, by port.
pub(crate) type Programs = Arc<[Arc<dyn Program>]>;

/// Addresses that only the ports which list them may use.
pub(crate) fn own_addresses(ports: &Places<'_>, bonds: &Bonds) -> OwnAddresses {
    let mut own = OwnAddresses::new();
    for (id, port) in learning(ports) {
        let home = bonds.home(id);
        let addresses = port.options.addresses.iter().flatten().map(|address| (*address, home));
        own.entry(port.options.network.clone()).or_default().extend(addresses);
    }
    own
}

/// The networks of ports that learn.
pub(crate) fn networks<'a>(ports: &'a Places<'_>) -> BTreeSet<&'a str> {
    learning(ports).map(|(_, port)| port.options.network.as_str()).collect()
}

/// Ports that learn from each other.
struct Network {
    /// The members; for each bond only one port.
    members: Arc<[PortId]>,
    /// The additional data of its programs, if it has bonds.
    bonded: Option<BondedNetwork>,
    /// The OpenFlow numbers of its members.
    numbers: Arc<PortNumbers>,
    /// The tables by which its members forward, if they have tables.
    flows: Option<TablesId>,
    table: Arc<MacTable>,
    /// Whether a port of the network has a VLAN option.
    has_vlans: bool,
}

impl Network {
    fn new(name: &str, ports: &Places<'_>, tables: &Tables, flows: &FlowSets, bonds: &Bonds) -> Self {
        let own = || learning(ports).filter(move |(_, port)| port.options.network == name);
        let members = || own().map(|(id, _)| id).filter(|id| bonds.home(*id) == *id);
        let all: Vec<PortId> = own().map(|(id, _)| id).collect();
        Network {
            members: members().collect(),
            bonded: bonded_network(name, &all, bonds),
            numbers: Arc::new(numbers(&own().collect::<Vec<_>>())),
            flows: flows.id(name),
            table: tables.of(name),
            has_vlans: own().any(|(_, port)| !port.options.vlans.is_default()),
        }
    }
}

/// The OpenFlow numbers of these ports, which of them are tunnels, and which of them are not live.
pub(crate) fn numbers(ports: &[(PortId, &Forwarding)]) -> PortNumbers {
    let tunnels = ports.iter().filter(|(_, port)| port.options.is_tunnel).map(|(_, port)| port.number);
    let silent = ports.iter().filter(|(_, port)| !port.forwards).map(|(_, port)| port.number);
    PortNumbers::new(ports.iter().map(|(id, port)| (port.number, *id)))
        .with_tunnels(tunnels)
        .with_silent(silent)
}

fn port_vlans(port: &Forwarding) -> PortVlans {
    PortVlans::new(&port.options.vlans)
}

/// The bonds of a network and all of its ports, if it has bonds.
pub(crate) fn bonded_network(name: &str, ports: &[PortId], bonds: &Bonds) -> Option<BondedNetwork> {
    let exits: Arc<[BondExits]> = bonds.of_network(name).map(Bond::exits).collect();
    (!exits.is_empty()).then(|| BondedNetwork { bonds: exits, ports: ports.into() })
}

/// A port that learns, in its network.
struct Seat<'a> {
    id: PortId,
    port: &'a Forwarding,
    network: &'a Network,
    bond: Option<&'a Bond>,
    /// The VLANs of all ports, if the network has VLANs.
    vlans: Option<Arc<[PortVlans]>>,
    link_local: bool,
    flows: &'a FlowSets,
}

impl Seat<'_> {
    fn program(&self, admission: Admission) -> Arc<dyn Program> {
        match self.bond {
            Some(bond) if bond.mode() == BondMode::BalanceSlb => {
                self.admitting(admission.guarded(self.guard(bond)))
            }
            Some(bond) if !bond.is_active(self.id) => Arc::new(Nowhere),
            _ => self.admitting(admission),
        }
    }

    /// The guard of a port of a bond that balances.
    fn guard(&self, bond: &Bond) -> BondGuard {
        BondGuard {
            table: Arc::clone(&self.network.table),
            port: bond.home(),
            takes_groups: bond.is_active(self.id),
            vlans: self.vlans.is_some().then(|| port_vlans(self.port)),
        }
    }

    fn admitting<G: Guard + 'static>(&self, admission: Admission<G>) -> Arc<dyn Program> {
        let Network { members, bonded, numbers, flows, table, .. } = self.network;
        // If there is only one other port, a flood is no more than a frame for that port.
        let floods = self.port.options.floods_per_second.filter(|_| members.len() > 2);
        let learning = Learning {
            port: self.bond.map_or(self.id, Bond::home),
            table: Arc::clone(table),
            members: Arc::clone(members),
            admission,
            link_local: self.link_local,
            floods: floods.map(|per_second| RateLimit::new(per_second.into(), RateLimit::LEAST_FRAMES)),
        };
        if let Some(tables) = *flows {
            let (number, numbers) = (self.port.number, Arc::clone(numbers));
            let connections = self.flows.connections();
            let upcalls = Arc::clone(&self.flows.upcalls);
            return Arc::new(FlowProgram {
                learning,
                bonds: bonded.clone(),
                tables,
                number,
                numbers,
                connections,
                upcalls,
            });
        }
        match (bonded.clone(), self.vlans.clone()) {
            (None, None) => Arc::new(learning),
            (None, Some(vlans)) => Arc::new(VlanLearning { learning, vlans }),
            (Some(network), None) => Arc::new(Bonded { inner: Box::new(learning), network }),
            (Some(network), Some(vlans)) => {
                Arc::new(Bonded { inner: Box::new(VlanLearning { learning, vlans }), network })
            }
        }
    }
}

/// The programs of all ports: a wire, or learning in a network, or forwarding by flow tables there.
pub(crate) fn programs(
    ports: &Places<'_>,
    tables: &Tables,
    link_local: bool,
    flows: &FlowSets,
    bonds: &Bonds,
) -> Programs {
    let network = |name| (name, Network::new(name, ports, tables, flows, bonds));
    let networks: BTreeMap<&str, Network> = networks(ports).into_iter().map(network).collect();
    let vlans: Arc<[PortVlans]> = match networks.values().any(|network| network.has_vlans) {
        true => ports.iter().map(|port| port.map_or_else(PortVlans::default, port_vlans)).collect(),
        false => Arc::default(),
    };
    let program = |(id, port): (PortId, &Option<&Forwarding>)| -> Arc<dyn Program> {
        let Some(port) = *port else { return Arc::new(Nowhere) };
        let options = &port.options;
        let policer = Policer::new(options.policing);
        let admission = Admission::new(options.addresses.clone(), options.max_frame_bytes, policer);
        if let Some(to) = port.wire {
            return Arc::new(Wire::new(to, admission));
        }
        let Some(network) = networks.get(options.network.as_str()) else { return Arc::new(Nowhere) };
        let vlans = network.has_vlans.then(|| Arc::clone(&vlans));
        Seat { id, port, network, bond: bonds.of(id), vlans, link_local, flows }.program(admission)
    };
    (0..).map(PortId).zip(ports).map(program).collect()
}
