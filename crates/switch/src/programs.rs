//! Which program decides about the frames of each port.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pipeline::{
    Admission, FlowProgram, Learning, MacTable, Nowhere, Policer, PortNumbers, PortVlans, Program, RateLimit,
    TablesId, VlanLearning, Wire,
};

use crate::PortId;
use crate::flow_sets::FlowSets;
use crate::setup::Forwarding;
use crate::tables::{OwnAddresses, Tables};

/// The programs of all ports, by port.
pub(crate) type Programs = Arc<[Arc<dyn Program>]>;

/// The forwarding of each port, by its number. Frames of a port without forwarding go nowhere.
pub(crate) type Places<'a> = [Option<&'a Forwarding>];

fn places<'a>(ports: &'a Places<'_>) -> impl Iterator<Item = (PortId, &'a Forwarding)> {
    (0..).map(PortId).zip(ports).filter_map(|(id, port)| Some((id, (*port)?)))
}

fn learning<'a>(ports: &'a Places<'_>) -> impl Iterator<Item = (PortId, &'a Forwarding)> {
    places(ports).filter(|(_, port)| port.wire.is_none())
}

/// Addresses that only the ports which list them may use.
pub(crate) fn own_addresses(ports: &Places<'_>) -> OwnAddresses {
    let mut own = OwnAddresses::new();
    for (id, port) in learning(ports) {
        let addresses = port.options.addresses.iter().flatten().map(|address| (*address, id));
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
    members: Arc<[PortId]>,
    /// The OpenFlow numbers of its members.
    numbers: Arc<PortNumbers>,
    /// The tables by which its members forward, if they do.
    flows: Option<TablesId>,
    table: Arc<MacTable>,
    /// Whether a port of the network has a VLAN option.
    has_vlans: bool,
}

impl Network {
    fn new(name: &str, ports: &Places<'_>, tables: &Tables, flows: &FlowSets) -> Self {
        let own = || learning(ports).filter(move |(_, port)| port.options.network == name);
        Network {
            members: own().map(|(id, _)| id).collect(),
            numbers: Arc::new(PortNumbers::new(own().map(|(id, port)| (port.number, id)))),
            flows: flows.id(name),
            table: tables.of(name),
            has_vlans: own().any(|(_, port)| !port.options.vlans.is_default()),
        }
    }
}

fn port_vlans(port: &Forwarding) -> PortVlans {
    PortVlans::new(&port.options.vlans)
}

/// The programs of all ports: a wire, or learning in a network, or forwarding by flow tables there.
pub(crate) fn programs(ports: &Places<'_>, tables: &Tables, link_local: bool, flows: &FlowSets) -> Programs {
    let network = |name| (name, Network::new(name, ports, tables, flows));
    let networks: BTreeMap<&str, Network> = networks(ports).into_iter().map(network).collect();
    let vlans: Arc<[PortVlans]> = match networks.values().any(|network| network.has_vlans) {
        true => ports.iter().map(|port| port.map_or_else(PortVlans::default, port_vlans)).collect(),
        false => Arc::default(),
    };
    let program = |(id, port): (PortId, &Option<&Forwarding>)| -> Arc<dyn Program> {
        let Some(Forwarding { options, number, wire }) = port else { return Arc::new(Nowhere) };
        let policer = Policer::new(options.policing);
        let admission = Admission::new(options.addresses.clone(), options.max_frame_bytes, policer);
        if let Some(to) = wire {
            return Arc::new(Wire::new(*to, admission));
        }
        let Some(network) = networks.get(options.network.as_str()) else { return Arc::new(Nowhere) };
        // With one other port a flood is no more than a frame for that port.
        let floods = options.floods_per_second.filter(|_| network.members.len() > 2);
        let learning = Learning {
            port: id,
            table: Arc::clone(&network.table),
            members: Arc::clone(&network.members),
            admission,
            link_local,
            floods: floods.map(|per_second| RateLimit::new(per_second.into(), RateLimit::LEAST_FRAMES)),
        };
        match (network.flows, network.has_vlans) {
            (Some(tables), _) => {
                let (number, numbers) = (*number, Arc::clone(&network.numbers));
                Arc::new(FlowProgram { learning, tables, number, numbers })
            }
            (None, true) => Arc::new(VlanLearning { learning, vlans: Arc::clone(&vlans) }),
            (None, false) => Arc::new(learning),
        }
    };
    (0..).map(PortId).zip(ports).map(program).collect()
}
