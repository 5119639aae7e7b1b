//! The ports that came by the command line or by requests: all but those of a configuration file.
use std::collections::BTreeMap;

use control::PortDescription;
use control::protocol::Change;
use switch::View;

use crate::error::Invalid;
use crate::ports::{self, NamedSpec, PortDefaults};
use crate::wanted_ports::WantedPorts;

pub struct KnownPorts {
    defaults: PortDefaults,
    ports: WantedPorts,
}

impl KnownPorts {
    pub fn new(defaults: PortDefaults, there: Vec<NamedSpec>) -> Self {
        KnownPorts { defaults, ports: WantedPorts::new(there) }
    }

    pub fn forget(&mut self, name: &str) {
        self.ports.forget(name);
    }

    /// Adds a port to the switch.
    ///
    /// # Errors
    /// The description is wrong, the port's socket, interface or file cannot be opened, or the switch has a port of
    /// this name.
    pub fn add(&mut self, name: &str, port: PortDescription, switch: &mut View<'_>) -> Result<(), String> {
        self.ports.add(self.read(name, port)?, switch)
    }

    /// Adds ports that are missing and removes ports that are not wanted. Returns each change with its own error, if
    /// any. A wrong description changes nothing.
    ///
    /// # Errors
    /// A description is wrong, or the socket, interface or file of a new port cannot be opened.
    pub fn apply(
        &mut self,
        wanted: BTreeMap<String, PortDescription>,
        switch: &mut View<'_>,
    ) -> Result<Vec<Change>, String> {
        let read = wanted.into_iter().map(|(name, port)| self.read(&name, port));
        let read = read.collect::<Result<Vec<_>, String>>()?;
        let wrong = |name: &str, why: &dyn std::fmt::Display| Invalid(format!("port {name}: {why}"));
        let wanted = self.ports.prepare(read, wrong).map_err(|Invalid(why)| why)?;
        Ok(self.ports.apply(wanted, self.defaults, switch))
    }

    fn read(&self, name: &str, port: PortDescription) -> Result<NamedSpec, String> {
        ports::read(name, port, self.defaults).map_err(|why| format!("port {name}: {why}"))
    }
}
