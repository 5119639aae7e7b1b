//! One switch continues in place of another, which runs in another process and has stopped.
//!
//! The old switch stops at the end of a burst, when everything is completed. Sources stop first, so that no frame
//! is in flight when the sinks stop. Until its operator ends it, the old switch keeps and changes nothing, and can
//! continue at any time. When the new switch has all ports and no frame moves, it asks its operator whether it may
//! continue.
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use port::PortState;
use virtio::net::MacAddress;

use crate::control::Control;
use crate::error::ChangeError;
use crate::port_entry::PortEntry;
use crate::setup::Forwarding;
use crate::switch_state::{AddedPort, Inherited, SavedConnections, SwitchState};
use crate::{Operator, PortId, RunError, flow_ms};

/// The time of flows and connections.
fn flow_time() -> Duration {
    Duration::from_millis(flow_ms(Instant::now()))
}

impl Control {
    /// Stops all ports and returns the state that another process needs to continue.
    pub(crate) fn stand_still(&mut self) -> Result<SwitchState, ChangeError> {
        let stations = self
            .attachments
            .common
            .tables
            .stations()
            .into_iter()
            .map(|station| (station.vlan, station.address, self.port_name(station.port).to_owned()));
        let mut state = SwitchState { stations: stations.collect(), ..SwitchState::default() };
        self.stations.clone_from(&state.stations);
        self.attachments.close();
        for index in 0..self.entries.len() {
            if self.entries[index].is_mirror() {
                continue;
            }
            match self.call(index, |port, context| port.hand_over(context)) {
                Ok(None) => {}
                Ok(Some(Ok(Some(port)))) => {
                    self.entries[index].elsewhere = true;
                    state.ports.insert(self.entries[index].name.clone(), port);
                }
                Ok(Some(Ok(None))) => self.end_for_now(index)?,
                Ok(Some(Err(error))) => {
                    // The port stands still although it failed, so it is resumed too.
                    self.entries[index].elsewhere = true;
                    self.resume()?;
                    return Err(ChangeError::Start(error));
                }
                Err(error) => return Err(self.must_end(error)),
            }
        }
        state.connections = self.saved_connections();
        Ok(state)
    }

    /// The tracked connections.
    fn saved_connections(&self) -> SavedConnections {
        let ports = self.present().map(|(id, entry)| (id.0, entry.name.clone())).collect();
        SavedConnections { bytes: self.attachments.common.flows().save_connections(flow_time()), ports }
    }

    /// Adds the tracked connections of another switch: those of ports that this switch has too.
    fn restore_connections(&self, saved: &SavedConnections) {
        let SavedConnections { bytes, ports } = saved;
        if bytes.is_empty() {
            return;
        }
        let places: BTreeMap<&str, PortId> =
            self.present().map(|(id, entry)| (entry.name.as_str(), id)).collect();
        let port = |there: PortId| places.get(ports.get(&there.0)?.as_str()).copied();
        self.attachments.common.flows().connections().restore(bytes, port, flow_time());
    }

    fn end_for_now(&mut self, index: usize) -> Result<(), ChangeError> {
        let ended = self.call(index, |port, context| port.end(context));
        self.entries[index].runs = false;
        self.attachments.clear(PortId(index as u16));
        self.ended_for_now.push(index);
        ended.map(drop).map_err(|error| self.must_end(error))
    }

    /// Continues, because the other process did not take over.
    pub(crate) fn resume(&mut self) -> Result<(), ChangeError> {
        for index in 0..self.entries.len() {
            if std::mem::take(&mut self.entries[index].elsewhere) {
                self.call(index, |port, context| port.resume(context))
                    .map_err(|error| self.must_end(error))?;
            }
        }
        for index in std::mem::take(&mut self.ended_for_now) {
            self.entries[index].runs = true;
            let started = self.call(index, |port, context| port.start(context));
            if let Some(Err(error)) = started.map_err(|error| self.must_end(error))? {
                self.end_port(index, error).map_err(|error| self.must_end(error))?;
            }
        }
        let stations = std::mem::take(&mut self.stations);
        self.learn(stations);
        self.attachments.open();
        Ok(())
    }

    fn learn(&self, stations: Vec<(u16, MacAddress, String)>) {
        let place = |(id, entry): (PortId, &'_ PortEntry)| {
            (entry.name.clone(), (id, entry.forwarding.options.network.clone()))
        };
        let places: BTreeMap<String, (PortId, String)> = self.present().map(place).collect();
        for (vlan, address, name) in stations {
            if let Some((port, network)) = places.get(&name) {
                // A refused address is learned from its next frame, or belongs to another port now.
                let _ = self.attachments.common.tables.of(network).learn_in(vlan, address, *port);
            }
        }
    }

    /// Starts all ports, or continues those of another switch that stands still.
    pub(crate) fn start_ports(&mut self, operator: &mut dyn Operator) -> Result<(), RunError> {
        if operator.takes_over() {
            self.attachments.pool.begun();
        }
        let Some(inherited) = operator.inherit().map_err(RunError::TakeOver)? else {
            return (0..self.entries.len()).try_for_each(|index| self.start_port(index, None));
        };
        let Inherited { state: SwitchState { mut ports, stations, connections }, added, tables } = inherited;
        let refused = |error: ChangeError| RunError::TakeOver(error.to_string());
        for AddedPort { name, port, options } in added {
            let forwarding = Forwarding { options, number: 0, wire: None, forwards: true };
            self.enter(&name, port, forwarding).map_err(refused)?;
        }
        for (network, tables) in tables {
            self.set_flows(Some(&network), Some(tables)).map_err(refused)?;
        }
        self.update_programs();
        self.restore_connections(&connections);
        for index in 0..self.entries.len() {
            let state = ports.remove(&self.entries[index].name);
            self.start_port(index, state)?;
        }
        if let Some(name) = ports.keys().next() {
            let why =
                format!("the running switch has a port '{name}'; name it here too, or remove it there first");
            return Err(RunError::TakeOver(why));
        }
        self.learn(stations);
        operator.take_charge().map_err(RunError::TakeOver)?;
        self.entries.iter_mut().for_each(|entry| entry.elsewhere = false);
        Ok(())
    }

    fn start_port(&mut self, index: usize, state: Option<PortState>) -> Result<(), RunError> {
        let entry = &mut self.entries[index];
        (entry.runs, entry.elsewhere) = (true, state.is_some());
        let started = self.try_call(index, |port, context| match state {
            Some(state) => port.take_over(state, context),
            None => port.start(context),
        });
        let started = started.map_err(|panicked| panicked.port(self.entries[index].name.clone()))?;
        if let Some(Err(error)) = started {
            if !self.entries[index].elsewhere {
                self.entries[index].runs = false;
                self.attachments.clear(PortId(index as u16));
            }
            return Err(RunError::Start { name: self.entries[index].name.clone(), error });
        }
        self.read_reports()
    }
}
