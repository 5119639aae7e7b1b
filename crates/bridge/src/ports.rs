//! The ports of a bridge, and the changes that controllers may make to them.

use std::sync::Arc;

use controllers::News;
use flow::port;
use openflow::{Failure, PortMod, PortReason};

use crate::port::BridgePort;
use crate::state::State;

/// Bits of a port's configuration that a controller may change: down, no receiving, no sending, no packets for controllers.
/// OpenFlow 1.0 has two more (no flooding, no spanning tree), which Open vSwitch supports.
const CONFIG: u32 = 1 | 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 6;

impl State {
    /// The ports in the order in which Open vSwitch reports them: the bridge's own port first, then the others by
    /// number.
    pub(crate) fn ports_in_order(&self) -> Vec<(u16, &BridgePort)> {
        let own = self.ports.get_key_value(&port::LOCAL);
        let others = self.ports.iter().filter(|(number, _)| **number != port::LOCAL);
        own.into_iter().chain(others).map(|(number, port)| (*number, port)).collect()
    }

    /// Changes a port's configuration.
    pub(crate) fn change_port(&mut self, change: &PortMod, news: &mut News) -> Result<(), Failure> {
        let known = self.ports.get(&change.number).ok_or(Failure::PortModPort)?;
        if known.address != change.address {
            return Err(Failure::PortModAddress);
        }
        let mask = change.mask & CONFIG;
        let config = known.config & !mask | change.config & mask;
        if config != known.config
            && let Some(port) = Arc::make_mut(&mut self.ports).get_mut(&change.number)
        {
            port.config = config;
            news.ports.push((PortReason::Modify, port.described(change.number)));
        }
        Ok(())
    }
}
