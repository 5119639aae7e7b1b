//! Flow tables of a running switch, and the ports that they concern.
use std::sync::Arc;
use std::time::Duration;

use flow_tables::Tables;
use pipeline::{ControllersFrame, Injected, PortId, Selection, Upcall, Wanted};

use crate::View;
use crate::control::{Control, Operator};
use crate::error::{ChangeError, RunError};
use crate::port_entry::PortEntry;
use crate::programs::{bonded_network, numbers};
use crate::worker_pool::system;

/// A port that forwards by flow tables or by addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedPort {
    /// The port's name.
    pub name: String,
    /// The port's network.
    pub network: String,
    /// The port's OpenFlow number, which is its own in its network.
    pub number: u16,
    /// Whether a queue of the port runs.
    pub is_up: bool,
    /// Whether frames arrive at the port's other end, as far as the port knows.
    pub forwards: bool,
    /// Whether the port has an option for VLANs. Such a port does not forward by flow tables.
    pub has_vlans: bool,
}

/// A frame for controllers, or a flow to be learned.
#[derive(Debug)]
pub struct Raised {
    /// The network of the flow tables whose flows ask for it; `None` for the tables of all networks without tables of their
    /// own.
    pub network: Option<String>,
    /// What is asked for.
    pub wanted: Wanted,
}

impl View<'_> {
    /// The flow tables of a network, or with `None` the tables of all networks without tables of their own.
    pub fn flows(&self, network: Option<&str>) -> Option<Arc<Tables>> {
        self.control.attachments.common.flows().get(network)
    }

    /// Replaces the flow tables by which the ports of a network forward; with `None` as the network, the tables of all
    /// networks without tables of their own. Without tables the ports learn addresses. After the function returns, no
    /// frame is forwarded by the former tables.
    ///
    /// # Errors
    /// A port that would forward by the tables has VLANs.
    pub fn set_flows(
        &mut self,
        network: Option<&str>,
        tables: Option<Arc<Tables>>,
    ) -> Result<(), ChangeError> {
        self.control.set_flows(network, tables)
    }

    /// Brings the counters of all flows up to date: they have each frame that a worker was done with before the call.
    pub fn count_flows(&mut self) {
        self.control.attachments.pool.count_flows();
    }

    /// Takes at most `most` frames for controllers and requests for flows to be learned, from each port in turn.
    pub fn take_raised(&mut self, most: usize) -> Vec<Raised> {
        let flows = self.control.attachments.common.flows();
        let all = flows.upcalls.take(most).into_iter();
        let raised = all.filter_map(|Upcall { tables, wanted }| {
            Some(Raised { network: flows.network(tables)?.map(str::to_owned), wanted })
        });
        raised.collect()
    }

    /// Ends the tracked connections of these selections.
    pub fn flush_connections(&mut self, which: &[Selection]) {
        self.control.attachments.common.flows().flush_connections(which);
    }

    /// Executes the actions of a controller's frame, in a network or in that of its input port. Without flow tables of the
    /// network the frame is dropped.
    pub fn inject(&mut self, network: Option<&str>, frame: ControllersFrame) {
        self.control.inject(network, frame);
    }

    /// The ports that are no end of a wire and no mirror.
    pub fn numbered_ports(&self) -> Vec<NumberedPort> {
        let ports = self.control.present().filter(|(_, entry)| entry.forwarding.wire.is_none());
        let numbered = ports.map(|(_, entry)| NumberedPort {
            name: entry.name.clone(),
            network: entry.forwarding.options.network.clone(),
            number: entry.forwarding.number,
            is_up: entry.link.is_up,
            forwards: entry.forwarding.forwards,
            has_vlans: !entry.forwarding.options.vlans.is_default(),
        });
        numbered.collect()
    }
}

impl Control {
    /// Tells the operator of frames for controllers and of flows to be learned, then waits for other events: the keys of
    /// the descriptors that are ready.
    pub(crate) fn wait(&mut self, operator: &mut dyn Operator) -> Result<Vec<u64>, RunError> {
        let upcalls = Arc::clone(&self.attachments.common.upcalls);
        if upcalls.any() {
            operator.raised(&mut View { control: self });
        }
        let timeout = if upcalls.any() { Duration::ZERO } else { self.timeout() };
        Ok(self.attachments.poller.wait(Some(timeout)).map_err(system("epoll_wait"))?.collect())
    }

    fn inject(&mut self, network: Option<&str>, frame: ControllersFrame) {
        let of_network = |entry: &PortEntry| {
            entry.forwarding.wire.is_none()
                && network.is_none_or(|network| network == entry.forwarding.options.network)
        };
        let own = || self.present().filter(|(_, entry)| of_network(entry));
        let from = own().find(|(_, entry)| entry.forwarding.number == frame.input).or_else(|| own().next());
        let Some((port, entry)) = from else { return };
        let network = entry.forwarding.options.network.clone();
        let flows = self.attachments.common.flows();
        let Some(tables) = flows.id(&network) else { return };
        let members = self.present().filter(|(_, entry)| {
            entry.forwarding.wire.is_none() && entry.forwarding.options.network == network
        });
        let members: Vec<_> = members.map(|(id, entry)| (id, &entry.forwarding)).collect();
        let all: Vec<PortId> = members.iter().map(|(id, _)| *id).collect();
        let program = Injected {
            tables,
            home: (entry.forwarding.number == frame.input).then(|| self.bonds.home(port)),
            numbers: Arc::new(numbers(&members)),
            members: all.iter().copied().filter(|id| self.bonds.home(*id) == *id).collect(),
            bonds: bonded_network(&network, &all, &self.bonds),
            addresses: self.attachments.common.tables.of(&network),
            connections: flows.connections(),
            upcalls: Arc::clone(&flows.upcalls),
            frame,
        };
        let worker = self.attachments.plan.source(port, 0);
        self.attachments.pool.inject(worker, Arc::new(program));
    }

    pub(crate) fn set_flows(
        &mut self,
        network: Option<&str>,
        tables: Option<Arc<Tables>>,
    ) -> Result<(), ChangeError> {
        let mut sets = self.attachments.common.flows();
        let Some((id, was_there)) = sets.set(network, tables.clone()) else {
            // There is a place for each network, so nothing was to be removed.
            return Ok(());
        };
        let beside_vlans = |(_, entry): &(_, &PortEntry)| {
            let options = &entry.forwarding.options;
            !options.vlans.is_default()
                && entry.forwarding.wire.is_none()
                && sets.id(&options.network) == Some(id)
        };
        if tables.is_some()
            && !was_there
            && let Some((_, entry)) = self.present().find(beside_vlans)
        {
            return Err(ChangeError::VlansBesideFlows(entry.name.clone()));
        }
        let ends = tables.is_none();
        self.attachments.common.set_flows(sets);
        if ends {
            // First, so that no program asks for tables that are gone.
            self.update_programs();
        }
        self.attachments.pool.set_flows(id, tables.as_ref());
        if ends {
            self.attachments.common.upcalls.end_tables(id);
        }
        if !ends && !was_there {
            self.update_programs();
        }
        Ok(())
    }
}
