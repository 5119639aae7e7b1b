//! One bridge with its controllers.
use std::time::Duration;

use controllers::{Change, ConnectionId, Controllers, Limits, News, SessionError, Settings};
use openflow::Failure;
use switch::{PuntedFrame, View, Wanted};

use super::flow_bridge::{FlowBridge, Start};
use super::served::Served;

/// The limits of a bridge's controllers. All messages of a bundle are carried out in one turn of the control thread.
const LIMITS: Limits = Limits {
    connections: 32,
    paused_bytes: 256 << 10,
    unsent_bytes: 16 << 20,
    bundles: 16,
    bundle_bytes: 64 << 20,
    bundle_idle: Duration::from_secs(10),
    requests: 4,
    request_bytes: 1 << 20,
    request_idle: Duration::from_secs(10),
    monitors: 64,
};

/// The shortest time between two publications of flows that frames have learned. Each publication makes all ports
/// forget the outcomes that they keep.
pub const LEARNING: Duration = Duration::from_millis(10);

/// A bridge of the running switch.
pub struct SwitchBridge {
    pub(super) flows: FlowBridge,
    pub(super) controllers: Controllers,
    /// The time at which workers last got flows because frames have learned some.
    learned: Duration,
}

impl SwitchBridge {
    /// A bridge without controllers.
    pub fn new(flows: FlowBridge) -> Self {
        SwitchBridge { flows, controllers: Controllers::new(LIMITS), learned: Duration::ZERO }
    }

    /// A bridge for all networks without a bridge of their own.
    pub fn of_switch(name: &str) -> Self {
        Self::new(FlowBridge::new(name, None, None, Start::Normal))
    }

    /// A bridge of these flows, groups and meters, for all networks without a bridge of their own. The error has the index
    /// of the one that is refused.
    pub fn of_changes(name: &str, all: impl IntoIterator<Item = Change>) -> Result<Self, (usize, Failure)> {
        FlowBridge::of_changes(name, all).map(Self::new)
    }

    /// The network of the bridge; `None` for all networks without a bridge of their own.
    pub(super) fn network(&self) -> Option<&str> {
        self.flows.ports.network()
    }

    /// The present tables, for workers that are about to start.
    pub fn tables(&mut self) -> std::sync::Arc<flow_tables::Tables> {
        self.flows.tables()
    }

    /// Begins as `start` says, or takes note that a bridge without flows of controllers is to forward in this way.
    pub(super) fn start_as(&mut self, start: Start, switch: &mut View<'_>, now: Duration) {
        self.flows.start_as(start, now);
        let _ = self.flows.publish(switch);
    }

    /// Reads as many VLAN tags as a description says.
    pub(super) fn read_tags(&mut self, vlan_limit: Option<u8>, switch: &mut View<'_>) {
        self.flows.read_tags(vlan_limit);
        let _ = self.flows.publish(switch);
    }

    /// Takes note of ports that came, went or changed, and tells controllers.
    pub(super) fn follow_ports(&mut self, switch: &View<'_>, now: Duration) {
        let mut news = News::default();
        self.flows.follow_ports(switch, now, &mut news);
        self.controllers.news(&news);
    }

    /// Ends the flows whose time is over, and tells controllers.
    pub(super) fn expire(&mut self, switch: &mut View<'_>, now: Duration) {
        let mut news = News { all_flows: self.controllers.follow_flows(), ..News::default() };
        self.flows.bridge.expire(now, &mut news);
        // Ports whose VLANs are refused beside flows have none of these.
        let _ = self.flows.publish(switch);
        self.controllers.news(&news);
    }

    /// Gives frames to controllers, and adds flows that frames have learned. Returns false if workers are to get the flows
    /// later, by [`SwitchBridge::publish`].
    pub(super) fn take_up(
        &mut self,
        all: impl Iterator<Item = Wanted>,
        switch: &mut View<'_>,
        now: Duration,
    ) -> bool {
        let mut news = News { all_flows: self.controllers.follow_flows(), ..News::default() };
        for wanted in all {
            match wanted {
                Wanted::Frame(PuntedFrame { packet, bytes, frame_bytes }) => {
                    if let Some(packet) = self.flows.bridge.packet_for(&packet, bytes, frame_bytes) {
                        self.controllers.packet(&packet, now);
                    }
                }
                Wanted::Learn(learn, key) => self.flows.bridge.learn(&learn, &key, now, &mut news),
            }
        }
        self.controllers.news(&news);
        let is_due = now.saturating_sub(self.learned) >= LEARNING;
        if is_due && !self.flows.is_published() {
            self.learned = now;
            self.publish(switch);
        }
        self.flows.is_published()
    }

    /// Gives the workers the present flows, if they still have older ones.
    pub(super) fn publish(&mut self, switch: &mut View<'_>) {
        let _ = self.flows.publish(switch);
    }

    /// A connection that has just been made.
    ///
    /// # Errors
    /// There are too many connections.
    pub(super) fn connect(
        &mut self,
        settings: Settings,
        switch: &mut View<'_>,
        now: Duration,
    ) -> Result<ConnectionId, SessionError> {
        self.controllers.connect(settings, &Served::new(&mut self.flows, switch), now)
    }

    /// Takes bytes of a controller, and publishes their changes before any answer is sent.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) fn receive(
        &mut self,
        id: ConnectionId,
        bytes: &[u8],
        switch: &mut View<'_>,
        now: Duration,
    ) -> Result<(), SessionError> {
        let received = self.controllers.receive(id, bytes, &mut Served::new(&mut self.flows, switch), now);
        let _ = self.flows.publish(switch);
        self.flows.publish_options();
        self.flows.send(switch);
        received
    }
}
