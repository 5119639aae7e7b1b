//! The flows and ports of one bridge, and which of its tables the workers have.
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use bridge::Bridge;
use control::BridgeDescription;
use controllers::{Change, News, Rejected, Switch};
use flow::{Action, Flow, Match, port};
use flow_tables::{Entry, Limits, Tables};
use openflow::{Failure, FlowCommand, FlowMod, Version};
use switch::{ControllersFrame, View};

use super::identity::identity;
use super::ports::Ports;
use crate::selection;

/// The VLAN tags that are read, as many as Open vSwitch reads by default (`other_config:vlan-limit`).
const MAX_TAGS: u8 = 1;
/// The most VLAN tags that can be read.
const ALL_TAGS: u8 = 2;
/// The limits of a bridge. A flow takes 1 to 2 KiB.
const LIMITS: Limits =
    Limits { flows: 1 << 18, tuples: 2048, learned: 4096, groups: 1 << 14, buckets: 1024, meters: 1 << 16 };

/// The forwarding of a bridge before it gets flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// By addresses: it has one flow, `priority=0 actions=NORMAL`.
    Normal,
    /// Not at all.
    Secure,
}

/// The flows and ports of one bridge.
pub struct FlowBridge {
    pub(super) bridge: Bridge,
    pub(super) ports: Ports,
    /// Whether the ports learn while the bridge has the flow of [`Start::Normal`] alone.
    may_learn: bool,
    /// The flow of [`Start::Normal`], once it was added. A controller may have replaced it since.
    own: Option<Arc<Entry>>,
    /// The generation of the tables that the workers have; `None` if the ports learn.
    published: Option<u64>,
}

/// The flow with which a bridge begins.
fn normal() -> Flow {
    Flow { priority: 0, actions: vec![Action::Output(port::NORMAL)], ..Flow::default() }
}

impl FlowBridge {
    /// A bridge for the ports of a network, or with `None` of all networks without a bridge of their own.
    pub fn new(name: &str, network: Option<String>, datapath_id: Option<u64>, start: Start) -> Self {
        let random = RandomState::new();
        let datapath_id = datapath_id.unwrap_or_else(|| random.hash_one(name) & 0xffff_ffff_ffff);
        let identity = identity(name, datapath_id);
        let mut made = Self {
            bridge: Bridge::new(identity, MAX_TAGS, random.hash_one(0), LIMITS),
            ports: Ports::new(network, datapath_id),
            may_learn: false,
            own: None,
            published: None,
        };
        made.start_as(start, Duration::ZERO);
        made
    }

    /// A bridge of these flows, groups and meters, which does not learn in place of the flow `normal`. The error has the
    /// index of the one that is refused.
    pub fn of_changes(name: &str, all: impl IntoIterator<Item = Change>) -> Result<Self, (usize, Failure)> {
        let mut made = Self::new(name, None, None, Start::Secure);
        for (at, change) in all.into_iter().enumerate() {
            made.add(change).map_err(|failure| (at, failure))?;
        }
        Ok(made)
    }

    /// A bridge as another process has saved it; without lines its ports learn.
    ///
    /// # Errors
    /// A flow cannot be read, or is refused. The text says why.
    pub(super) fn restored(
        name: &str,
        wanted: &BridgeDescription,
        lines: Option<&[String]>,
        now: Duration,
    ) -> Result<Self, String> {
        let start = if lines.is_some() { Start::Secure } else { Start::Normal };
        let mut made = Self::new(name, Some(wanted.network.clone()), Some(wanted.datapath_id), start);
        made.read_tags(wanted.vlan_limit);
        made.bridge.restore(lines.unwrap_or_default(), now)?;
        made.publish_options();
        Ok(made)
    }

    /// Reads as many VLAN tags as [`BridgeDescription::vlan_limit`] says.
    pub(super) fn read_tags(&mut self, vlan_limit: Option<u8>) {
        let most =
            vlan_limit.map_or(MAX_TAGS, |limit| if limit == 0 { ALL_TAGS } else { limit.min(ALL_TAGS) });
        self.bridge.set_max_tags(most);
    }

    /// The flows, groups, meters and tunnel options as lines; `None` if the ports learn.
    pub(super) fn saved(&self) -> Option<Vec<String>> {
        (!self.learns()).then(|| self.bridge.saved())
    }

    fn add(&mut self, change: Change) -> Result<(), Failure> {
        let mut changes = std::iter::once(change);
        let added = self.bridge.change(&mut changes, Version::V15, Duration::ZERO, &mut News::default());
        added.map_err(|rejected| rejected.failure)
    }

    /// Adds the flow of [`Start::Normal`] to a bridge without flows, or deletes it, as `start` says. The flows of controllers
    /// stay.
    pub(super) fn start_as(&mut self, start: Start, now: Duration) {
        let command = match start {
            Start::Normal if self.bridge.tables().flows() == 0 => FlowCommand::Add,
            Start::Secure if self.own.take().is_some_and(|own| self.has(&own)) => FlowCommand::DeleteStrict,
            _ => return,
        };
        self.may_learn = start == Start::Normal;
        let change = Change::Flow(Box::new(FlowMod::new(command, normal())));
        // The table has room for one flow, and the flow contradicts no other.
        let _ = self.bridge.change(&mut std::iter::once(change), Version::V15, now, &mut News::default());
        self.own = self.bridge.tables().get(0, 0, &Match::ANY).filter(|_| start == Start::Normal);
    }

    /// Whether no controller has changed or replaced this flow.
    fn has(&self, own: &Arc<Entry>) -> bool {
        self.bridge.tables().get(0, 0, &Match::ANY).is_some_and(|entry| Arc::ptr_eq(&entry, own))
    }

    /// The present tables, for workers that are about to start.
    pub fn tables(&mut self) -> Arc<Tables> {
        let tables = self.bridge.tables().clone();
        self.published = Some(tables.generation());
        Arc::new(tables)
    }

    /// Whether the ports learn in place of tables, the only flow of which is as the one of [`Start::Normal`].
    fn learns(&self) -> bool {
        let tables = self.bridge.tables();
        self.may_learn
            && tables.flows() == 1
            && tables.get(0, 0, &Match::ANY).is_some_and(|entry| entry.flow.is_normal())
    }

    /// Makes all changes or none. Ports with VLANs do not forward by flows.
    pub(super) fn change(
        &mut self,
        changes: &mut dyn Iterator<Item = Change>,
        version: Version,
        now: Duration,
        news: &mut News,
    ) -> Result<(), Rejected> {
        let before = self.ports.any_vlans().then(|| self.bridge.clone());
        self.bridge.change(changes, version, now, news)?;
        match before {
            Some(before) if !self.learns() => {
                self.bridge = before;
                (news.flows, news.ports) = Default::default();
                Err(Rejected { index: 0, failure: Failure::NotPermitted })
            }
            _ => Ok(()),
        }
    }

    /// The generation of the tables that the workers are to have; `None` if the ports learn.
    fn wanted(&self) -> Option<u64> {
        (!self.learns()).then(|| self.bridge.tables().generation())
    }

    /// Whether the workers have the tables.
    pub(super) fn is_published(&self) -> bool {
        self.wanted() == self.published
    }

    /// Gives the workers the tables, if they have others.
    ///
    /// # Errors
    /// Why the workers keep the former tables, in words.
    pub(super) fn publish(&mut self, switch: &mut View<'_>) -> Result<(), String> {
        let wanted = self.wanted();
        if wanted == self.published {
            return Ok(());
        }
        let tables = wanted.map(|_| Arc::new(self.bridge.tables().clone()));
        switch.set_flows(self.ports.network(), tables).map_err(|error| error.to_string())?;
        self.published = wanted;
        Ok(())
    }

    /// Tells tunnels which Geneve options are which fields.
    pub(super) fn publish_options(&self) {
        let option = |map: &openflow::TlvMap| tunnels::OptionMap {
            class: map.class,
            kind: map.kind,
            bytes: map.bytes,
            index: map.index,
        };
        let options: Vec<_> = self.bridge.tunnel_options().iter().map(option).collect();
        tunnel_ports::set_options(self.ports.network().unwrap_or_default(), &options);
    }

    /// Ends the connections that controllers want ended, and sends the frames of controllers.
    pub(super) fn send(&mut self, switch: &mut View<'_>) {
        let flushed: Vec<_> = self.bridge.take_flushed().iter().map(selection::of_message).collect();
        if !flushed.is_empty() {
            switch.flush_connections(&flushed);
        }
        let frames = self.bridge.take_sent();
        if frames.is_empty() {
            return;
        }
        // Actions of a frame are executed by tables: from now on the ports of the bridge do not learn in place of them.
        self.may_learn = false;
        if self.publish(switch).is_err() {
            return;
        }
        for frame in frames {
            let (input, metadata) = (frame.input(), *frame.metadata.value());
            let frame = ControllersFrame { bytes: frame.data.into(), input, metadata, rest: frame.rest };
            switch.inject(self.ports.network(), frame);
        }
    }

    /// Takes note of ports that came, went or changed.
    pub(super) fn follow_ports(&mut self, switch: &View<'_>, now: Duration, news: &mut News) {
        self.ports.follow(switch, &mut self.bridge, now, news);
    }

    /// Gives the ports their present counts.
    pub(super) fn count_ports(&mut self, switch: &View<'_>) {
        self.ports.count(switch, &mut self.bridge);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The flows of a bridge that forwarded by addresses, got these flows and then a controller.
    fn controlled(flows: &[&str]) -> Vec<String> {
        let mut bridge = FlowBridge::new("br0", None, None, Start::Normal);
        for text in flows {
            let flow = Flow::parse(text).unwrap();
            bridge.add(Change::Flow(Box::new(FlowMod::new(FlowCommand::Add, flow)))).unwrap();
        }
        bridge.start_as(Start::Secure, Duration::ZERO);
        bridge.bridge.tables().entries(0).iter().map(|entry| entry.flow.to_string()).collect()
    }

    #[test]
    fn the_flow_of_a_bridge_without_controllers_goes_and_theirs_stay() {
        let text = |text: &str| Flow::parse(text).unwrap().to_string();
        assert_eq!(controlled(&[]), [""; 0]);
        assert_eq!(controlled(&["in_port=1 actions=drop"]), [text("in_port=1 actions=drop")]);
        // A controller replaces the bridge's flow by one with the same match.
        assert_eq!(controlled(&["priority=0 actions=NORMAL"]), [text("priority=0 actions=NORMAL")]);
    }
}
