//! A bridge as its controllers see it while the switch runs.
use std::cell::RefCell;
use std::time::Duration;

use controllers::{Answer, Change, News, Rejected, Switch};
use openflow::{CtFlush, Failure, Features, PacketIn2, Request, TlvMod, TlvTable, Version};
use switch::View;

use super::flow_bridge::{FlowBridge, Start};

/// A bridge, and the running switch that has its ports.
pub struct Served<'a, 'v> {
    flows: RefCell<&'a mut FlowBridge>,
    switch: RefCell<&'a mut View<'v>>,
}

impl<'a, 'v> Served<'a, 'v> {
    pub fn new(flows: &'a mut FlowBridge, switch: &'a mut View<'v>) -> Self {
        Served { flows: RefCell::new(flows), switch: RefCell::new(switch) }
    }
}

impl Switch for Served<'_, '_> {
    fn features(&self, version: Version) -> Features {
        self.flows.borrow().bridge.features(version)
    }

    fn fragments(&self) -> u16 {
        self.flows.borrow().bridge.fragments()
    }

    fn set_fragments(&mut self, flags: u16) {
        self.flows.get_mut().bridge.set_fragments(flags);
    }

    fn begin_control(&mut self, now: Duration) {
        self.flows.get_mut().start_as(Start::Secure, now);
    }

    fn change(
        &mut self,
        changes: &mut dyn Iterator<Item = Change>,
        version: Version,
        now: Duration,
        news: &mut News,
    ) -> Result<(), Rejected> {
        self.flows.get_mut().change(changes, version, now, news)
    }

    fn answer(&self, request: &Request, version: Version, now: Duration) -> Result<Answer, Failure> {
        let mut flows = self.flows.borrow_mut();
        match request {
            Request::Port(_) => flows.count_ports(&self.switch.borrow()),
            Request::Flow(_) | Request::Aggregate(_) => self.switch.borrow_mut().count_flows(),
            _ => {}
        }
        flows.bridge.answer(request, version, now)
    }

    fn resume(&mut self, packet: &PacketIn2, now: Duration) -> Result<(), Failure> {
        self.flows.get_mut().bridge.resume(packet, now)
    }

    fn tlv_table(&self) -> TlvTable {
        self.flows.borrow().bridge.tlv_table()
    }

    fn change_tlv_table(&mut self, change: &TlvMod) -> Result<(), Failure> {
        self.flows.get_mut().bridge.change_tlv_table(change)
    }

    fn flush_connections(&mut self, which: &CtFlush) -> Result<(), Failure> {
        self.flows.get_mut().bridge.flush_connections(which)
    }
}
