//! Putting a switch together.
use std::sync::Arc;
use std::time::Duration;

use flow_tables::Tables;
use port::Port;
use virtio::net::MacAddress;

use crate::port_number;
use crate::{
    BondMode, MAX_PORTS, Policing, PortId, RunError, SetupError, Snapshot, TableOptions, VlanOptions,
    WorkerOptions,
};

/// Options of the whole switch.
#[derive(Clone, Debug)]
pub struct Options {
    /// One worker for each entry, pinned to that CPU if the entry has one.
    pub workers: Vec<Option<usize>>,
    /// Options of all workers.
    pub worker: WorkerOptions,
    /// Learned addresses.
    pub table: TableOptions,
    /// Whether frames to 01:80:c2:00:00:00 to 0f are forwarded. These addresses belong to one link (spanning tree,
    /// LLDP, LACP, 802.1X; IEEE 802.1Q §8.6.3). Wires forward them anyway.
    pub forward_link_local: bool,
    /// How long one pass of a worker may take before the worker counts as stuck. The queues that it holds are lost
    /// then. Another thread takes over all others.
    pub worker_deadline: Duration,
    /// Whether the control thread reads the queues' counters once a second, to report how long no frame has
    /// passed.
    pub watch_activity: bool,
    /// Flow tables by which all ports forward that are no end of a wire, in place of learning.
    pub flows: Option<Arc<Tables>>,
}

impl Default for Options {
    /// One worker on any CPU.
    fn default() -> Self {
        Options {
            workers: vec![None],
            worker: WorkerOptions::default(),
            table: TableOptions::default(),
            forward_link_local: false,
            worker_deadline: Duration::from_secs(1),
            watch_activity: false,
            flows: None,
        }
    }
}

/// A port's place in a bond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BondOptions {
    /// The name of the bond. All ports of one network with this name are one link.
    pub name: String,
    /// How its ports share frames.
    pub mode: BondMode,
    /// How often load is moved between the ports of a bond that balances; `None` for never.
    pub rebalance_interval: Option<Duration>,
}

impl BondOptions {
    /// The default interval, as in Open vSwitch.
    pub const REBALANCE_INTERVAL: Duration = Duration::from_secs(10);

    /// A bond of this name, one port of which carries all frames.
    pub fn new(name: &str) -> Self {
        BondOptions {
            name: name.to_owned(),
            mode: BondMode::default(),
            rebalance_interval: Some(Self::REBALANCE_INTERVAL),
        }
    }
}

/// Options for the frames from one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortOptions {
    /// The only source addresses that frames from the port may have. Other ports must not use them unless they
    /// list them too. `None` allows every address that is no group address and not in another port's list.
    pub addresses: Option<Vec<MacAddress>>,
    /// The longest frame in bytes, from destination address to payload's end. For a frame that is still to be
    /// segmented, the payload of its segments counts.
    pub max_frame_bytes: Option<u32>,
    /// Frames a second that may go to more than one port (broadcast, multicast, unknown receivers), so that a loop
    /// or a misbehaving guest leaves room in the queues of other ports; `None` for no limit. If there is only one
    /// other port, frames to it are not limited.
    pub floods_per_second: Option<u32>,
    /// The highest rates at which frames may come from the port. Frames above are dropped and counted.
    pub policing: Policing,
    /// The network whose ports it reaches; by default one without a name.
    pub network: String,
    /// The port's OpenFlow number; by default its place among the ports, counted from 1, or the next free number.
    pub number: Option<u16>,
    /// The VLANs of the port. In a network without a port that has a VLAN option, tags are ignored.
    pub vlans: VlanOptions,
    /// The bond that the port is a part of.
    pub bond: Option<BondOptions>,
    /// Whether the port is a tunnel: flows give it the tunnel fields of each frame.
    pub is_tunnel: bool,
}

impl Default for PortOptions {
    fn default() -> Self {
        PortOptions {
            addresses: None,
            max_frame_bytes: None,
            floods_per_second: Some(20_000),
            policing: Policing::default(),
            network: String::new(),
            number: None,
            vlans: VlanOptions::default(),
            bond: None,
            is_tunnel: false,
        }
    }
}

pub(crate) struct NamedPort {
    pub name: String,
    pub port: Box<dyn Port>,
    pub forwarding: Forwarding,
}

/// The settings from which a port's program is made.
#[derive(Clone, Debug)]
pub(crate) struct Forwarding {
    pub options: PortOptions,
    /// The port's OpenFlow number.
    pub number: u16,
    pub wire: Option<PortId>,
    /// Whether frames arrive at the port's other end, as far as the port knows ([`Port::forwards`]).
    pub forwards: bool,
}

/// A switch that does not run yet.
pub struct Switch {
    pub(crate) options: Options,
    pub(crate) ports: Vec<NamedPort>,
}

/// How a switch ended.
#[derive(Debug)]
pub struct Ended {
    /// The counters at the end.
    pub snapshot: Snapshot,
    /// The error that ended the switch; `Ok` if its operator ended it.
    pub result: Result<(), RunError>,
}

impl Switch {
    /// A switch without ports.
    ///
    /// # Errors
    /// `options` names no worker, or the burst is not 1 to 1024 frames.
    pub fn new(options: Options) -> Result<Self, SetupError> {
        if options.workers.is_empty() {
            return Err(SetupError::NoWorker);
        }
        if !(1..=1024).contains(&options.worker.burst) {
            return Err(SetupError::Burst(options.worker.burst));
        }
        Ok(Switch { options, ports: Vec::new() })
    }

    /// Adds a port that learns addresses.
    ///
    /// # Errors
    /// Another port has this name or OpenFlow number, [`MAX_PORTS`] ports are there, or the port has VLANs and the switch
    /// flow tables.
    pub fn add_port(
        &mut self,
        name: impl Into<String>,
        port: Box<dyn Port>,
        options: PortOptions,
    ) -> Result<PortId, SetupError> {
        let name = name.into();
        if self.ports.iter().any(|port| port.name == name) {
            return Err(SetupError::NameTwice(name));
        }
        if self.ports.len() == MAX_PORTS {
            return Err(SetupError::TooManyPorts(self.ports.len() + 1));
        }
        if self.options.flows.is_some() && !options.vlans.is_default() {
            return Err(SetupError::VlansBesideFlows(name));
        }
        let id = PortId(self.ports.len() as u16);
        let own = self.ports.iter().filter(|port| port.forwarding.options.network == options.network);
        let taken: Vec<u16> = own.map(|port| port.forwarding.number).collect();
        let number = port_number::choose(options.number, id.0 + 1, &taken)
            .map_err(|number| SetupError::NumberTwice { port: name.clone(), number })?;
        self.ports.push(NamedPort {
            name,
            port,
            forwarding: Forwarding { options, number, wire: None, forwards: true },
        });
        Ok(id)
    }

    /// Connects two ports by a wire: each frame from one goes to the other, whatever its addresses.
    ///
    /// # Errors
    /// A name is unknown, both names are the same, or a port is an end of a wire already.
    pub fn add_wire(&mut self, a: &str, b: &str) -> Result<(), SetupError> {
        let (a_id, b_id) = (self.find(a)?, self.find(b)?);
        if a_id == b_id {
            return Err(SetupError::ToItself(a.to_owned()));
        }
        for (port, peer) in [(a_id, b_id), (b_id, a_id)] {
            let port = &mut self.ports[usize::from(port.0)];
            if port.forwarding.wire.is_some_and(|wire| wire != peer) {
                return Err(SetupError::ConnectedTwice(port.name.clone()));
            }
        }
        self.ports[usize::from(a_id.0)].forwarding.wire = Some(b_id);
        self.ports[usize::from(b_id.0)].forwarding.wire = Some(a_id);
        Ok(())
    }

    fn find(&self, name: &str) -> Result<PortId, SetupError> {
        let known = || self.ports.iter().map(|port| port.name.as_str()).collect::<Vec<_>>().join(", ");
        let at = self.ports.iter().position(|port| port.name == name);
        let at = at.ok_or_else(|| SetupError::NoSuchPort { port: name.to_owned(), known: known() })?;
        Ok(PortId(at as u16))
    }
}
