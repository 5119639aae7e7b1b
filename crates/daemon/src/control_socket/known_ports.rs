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

    pub fn add(&mut self, name: &str, port: PortDescription, switch: &mut View<'_>) -> Result<(), String> {
        self.ports.add(self.read(name, port)?, switch)
    }

    /// Adds what is missing, removes what is not wanted. A description that is wrong changes nothing.
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
