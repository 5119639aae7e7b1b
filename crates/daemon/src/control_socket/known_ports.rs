//! The ports that came by the command line or by requests: all but those of a configuration file. Some belong to an
//! owner, such as a database.
use std::collections::BTreeMap;

use control::PortDescription;
use control::protocol::Change;
use switch::{AddedPort, View};

use super::wires::Wires;
use crate::error::Invalid;
use crate::ports::{self, NamedSpec, PortDefaults};
use crate::wanted_ports::WantedPorts;

/// The ports of owners, by owner and name.
pub type OwnedPorts = BTreeMap<String, BTreeMap<String, PortDescription>>;

pub struct KnownPorts {
    defaults: PortDefaults,
    ports: WantedPorts,
    wires: Wires,
    /// The ports of owners, by owner.
    owned: BTreeMap<String, WantedPorts>,
}

impl KnownPorts {
    pub fn new(defaults: PortDefaults, there: Vec<NamedSpec>, wires: &[(String, String)]) -> Self {
        KnownPorts {
            defaults,
            ports: WantedPorts::new(there),
            wires: Wires::of(wires),
            owned: BTreeMap::new(),
        }
    }

    pub fn forget(&mut self, name: &str) {
        self.ports.forget(name);
    }

    /// The owner of a port, if it has one.
    pub fn owner(&self, name: &str) -> Option<&str> {
        self.owned.iter().find(|(_, ports)| ports.has(name)).map(|(owner, _)| owner.as_str())
    }

    /// The descriptions of the ports of owners.
    pub fn owned(&self) -> OwnedPorts {
        self.owned.iter().map(|(owner, ports)| (owner.clone(), ports.descriptions())).collect()
    }

    /// Makes the ports of owners of another switch those of the same owners here. Returns the ports, not started.
    ///
    /// # Errors
    /// A description is wrong, or a port cannot be made.
    pub fn inherit(&mut self, ports: OwnedPorts) -> Result<Vec<AddedPort>, String> {
        let mut added = Vec::new();
        for (owner, ports) in ports {
            let read = ports.into_iter().map(|(name, port)| self.read(&name, port));
            let read: Vec<NamedSpec> = read.collect::<Result<_, String>>()?;
            added.extend(self.owned.entry(owner).or_default().inherit(read)?);
        }
        Ok(added)
    }

    /// Adds a port to the switch.
    ///
    /// # Errors
    /// The description is wrong, the port's socket, interface or file cannot be opened, or the switch has a port of
    /// this name.
    pub fn add(&mut self, name: &str, port: PortDescription, switch: &mut View<'_>) -> Result<(), String> {
        self.ports.add(self.read(name, port)?, switch)
    }

    /// Adds ports and, if they are given, wires that are missing, and removes those that are not wanted. Returns each
    /// change with its own error, if any. A wrong description or wire changes nothing.
    ///
    /// # Errors
    /// A description is wrong, a wire is not between two of the ports, a port has two wires, or the socket, interface
    /// or file of a new port cannot be opened.
    pub fn apply(
        &mut self,
        wanted: BTreeMap<String, PortDescription>,
        wires: Option<Vec<(String, String)>>,
        switch: &mut View<'_>,
    ) -> Result<Vec<Change>, String> {
        let wires = wires.map(|wires| Wires::between(&wires, &wanted)).transpose()?;
        let read = wanted.into_iter().map(|(name, port)| self.read(&name, port));
        let read = read.collect::<Result<Vec<_>, String>>()?;
        let wrong = |name: &str, why: &dyn std::fmt::Display| Invalid(format!("port {name}: {why}"));
        let wanted = self.ports.prepare(read, wrong).map_err(|Invalid(why)| why)?;
        let Some(wires) = wires else { return Ok(self.ports.apply(wanted, self.defaults, switch)) };
        // First: the end of a wire cannot be removed.
        let stays = |name: &str| wanted.iter().any(|port| port.is_there(name));
        let mut changes = self.wires.cut(&wires, stays, switch);
        changes.extend(self.ports.apply(wanted, self.defaults, switch));
        changes.extend(self.wires.connect(wires, switch));
        Ok(changes)
    }

    /// Changes ports of an owner: those with a description are added or made to be as described, the others removed.
    /// Returns each change with its own error, if any.
    pub fn change(
        &mut self,
        owner: String,
        changes: BTreeMap<String, Option<PortDescription>>,
        switch: &mut View<'_>,
    ) -> Vec<Change> {
        let (mut wanted, mut failed) = (Vec::new(), Vec::new());
        let mut names: Vec<String> = Vec::new();
        for (name, port) in changes {
            let read = match port {
                None => Ok(()),
                Some(port) => ports::read(&name, port, self.defaults).map(|port| wanted.push(port)),
            };
            match read {
                Ok(()) => names.push(name),
                Err(Invalid(why)) => {
                    failed.push(Change { port: name, change: "added".to_owned(), error: Some(why) });
                }
            }
        }
        let ports = self.owned.entry(owner).or_default();
        failed.extend(ports.change(&names, wanted, self.defaults, switch));
        failed
    }

    fn read(&self, name: &str, port: PortDescription) -> Result<NamedSpec, String> {
        ports::read(name, port, self.defaults).map_err(|why| format!("port {name}: {why}"))
    }
}
