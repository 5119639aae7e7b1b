//! Which program decides about the frames of each port.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pipeline::{
    Admission, BondExits, BondGuard, BondMode, Bonded, FlowProgram, Learning, MacTable, Nowhere, Policer,
    PortNumbers, PortVlans, Program, RateLimit, TablesId, VlanLearning, Wire,
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

/// The ports of a network with bonds.
#[derive(Clone)]
struct BondedNetwork {
    /// All ports, those of bonds included.
    ports: Arc<[PortId]>,
    /// The ports by which frames for bonds leave.
    bonds: Arc<[BondExits]>,
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
        let exits: Arc<[BondExits]> = bonds.of_network(name).map(Bond::exits).collect();
        Network {
            members: members().collect(),
            bonded: (!exits.is_empty())
                .then(|| BondedNetwork { ports: own().map(|(id, _)| id).collect(), bonds: exits }),
            numbers: {
                let tunnels = own().filter(|(_, port)| port.options.is_tunnel).map(|(_, port)| port.number);
                Arc::new(PortNumbers::new(own().map(|(id, port)| (port.number, id))).with_tunnels(tunnels))
            },
            flows: flows.id(name),
            table: tables.of(name),
            has_vlans: own().any(|(_, port)| !port.options.vlans.is_default()),
        }
    }
}

fn port_vlans(port: &Forwarding) -> PortVlans {
    PortVlans::new(&port.options.vlans)
}

/// The guard of a port of a bond that balances.
fn guard(bond: &Bond, port: PortId, network: &Network, options: &crate::PortOptions) -> Option<BondGuard> {
    (bond.mode() == BondMode::BalanceSlb).then(|| BondGuard {
        table: Arc::clone(&network.table),
        port: bond.home(),
        takes_groups: bond.is_active(port),
        vlans: network.has_vlans.then(|| PortVlans::new(&options.vlans)),
    })
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
        let Some(Forwarding { options, number, wire }) = port else { return Arc::new(Nowhere) };
        let policer = Policer::new(options.policing);
        let mut admission = Admission::new(options.addresses.clone(), options.max_frame_bytes, policer);
        if let Some(to) = wire {
            return Arc::new(Wire::new(*to, admission));
        }
        let Some(network) = networks.get(options.network.as_str()) else { return Arc::new(Nowhere) };
        let bond = bonds.of(id);
        if bond.is_some_and(|bond| bond.mode() == BondMode::ActiveBackup && !bond.is_active(id)) {
            return Arc::new(Nowhere);
        }
        if let Some(guard) = bond.and_then(|bond| guard(bond, id, network, options)) {
            admission = admission.guarded(guard);
        }
        // With one other port a flood is no more than a frame for that port.
        let floods = options.floods_per_second.filter(|_| network.members.len() > 2);
        let learning = Learning {
            port: bond.map_or(id, Bond::home),
            table: Arc::clone(&network.table),
            members: Arc::clone(&network.members),
            admission,
            link_local,
            floods: floods.map(|per_second| RateLimit::new(per_second.into(), RateLimit::LEAST_FRAMES)),
        };
        if let Some(tables) = network.flows {
            let (number, numbers) = (*number, Arc::clone(&network.numbers));
            let connections = flows.connections();
            let upcalls = Arc::clone(&flows.upcalls);
            return Arc::new(FlowProgram { learning, tables, number, numbers, connections, upcalls });
        }
        let vlans = network.has_vlans.then(|| Arc::clone(&vlans));
        let Some(BondedNetwork { ports, bonds }) = network.bonded.clone() else {
            return match vlans {
                None => Arc::new(learning),
                Some(vlans) => Arc::new(VlanLearning { learning, vlans }),
            };
        };
        let inner: Box<dyn Program> = match vlans {
            None => Box::new(learning),
            Some(vlans) => Box::new(VlanLearning { learning, vlans }),
        };
        Arc::new(Bonded { inner, bonds, reach: ports })
    };
    (0..).map(PortId).zip(ports).map(program).collect()
}
