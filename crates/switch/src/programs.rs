//! Which program decides about the frames of each port.
use std::sync::Arc;

use pipeline::{
    Admission, Learning, MacTable, Nowhere, Policer, PortVlans, Program, RateLimit, VlanLearning, Wire,
};
use virtio::net::MacAddress;

use crate::PortId;
use crate::setup::Forwarding;

/// The programs of all ports, by port.
pub(crate) type Programs = Arc<[Arc<dyn Program>]>;

/// Ports by number; a place may have none, and then no frame goes anywhere from there.
pub(crate) type Places<'a> = [Option<&'a Forwarding>];

fn places<'a>(ports: &'a Places<'_>) -> impl Iterator<Item = (PortId, &'a Forwarding)> {
    (0..).map(PortId).zip(ports).filter_map(|(id, port)| Some((id, (*port)?)))
}

fn learning<'a>(ports: &'a Places<'_>) -> impl Iterator<Item = (PortId, &'a Forwarding)> {
    places(ports).filter(|(_, port)| port.wire.is_none())
}

/// Addresses that only the ports which list them may use.
pub(crate) fn own_addresses(ports: &Places<'_>) -> Vec<(MacAddress, PortId)> {
    let own = |(id, port): (PortId, &Forwarding)| {
        port.options.addresses.iter().flatten().map(move |address| (*address, id)).collect::<Vec<_>>()
    };
    learning(ports).flat_map(own).collect()
}

fn port_vlans(port: &Forwarding) -> PortVlans {
    PortVlans::new(&port.options.vlans)
}

/// The programs of all ports: a wire, or learning in one network.
pub(crate) fn programs(ports: &Places<'_>, table: &Arc<MacTable>, link_local: bool) -> Programs {
    let members: Arc<[PortId]> = learning(ports).map(|(id, _)| id).collect();
    let has_vlans = learning(ports).any(|(_, port)| !port.options.vlans.is_default());
    let vlans: Arc<[PortVlans]> = match has_vlans {
        true => ports.iter().map(|port| port.map_or_else(PortVlans::default, port_vlans)).collect(),
        false => Arc::default(),
    };
    let program = |(id, port): (PortId, &Option<&Forwarding>)| -> Arc<dyn Program> {
        let Some(Forwarding { options, wire }) = port else { return Arc::new(Nowhere) };
        let policer = Policer::new(options.policing);
        let admission = Admission::new(options.addresses.clone(), options.max_frame_bytes, policer);
        if let Some(to) = wire {
            return Arc::new(Wire::new(*to, admission));
        }
        // With one other port a flood is no more than a frame for that port.
        let floods = options.floods_per_second.filter(|_| members.len() > 2);
        let learning = Learning {
            port: id,
            table: Arc::clone(table),
            members: Arc::clone(&members),
            admission,
            link_local,
            floods: floods.map(|per_second| RateLimit::new(per_second.into(), RateLimit::LEAST_FRAMES)),
        };
        match has_vlans {
            true => Arc::new(VlanLearning { learning, vlans: Arc::clone(&vlans) }),
            false => Arc::new(learning),
        }
    };
    (0..).map(PortId).zip(ports).map(program).collect()
}
