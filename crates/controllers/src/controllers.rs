//! The connections of one switch.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::connection::{Connection, SessionError};
use crate::dispatch::{self, Shared};
use crate::limits::{Limits, Settings};
use crate::packet::PacketFor;
use crate::switch::{News, Switch};

use openflow::{Message, MonitorEvent, Reply, Role, RoleStatus, Version};

/// The number of a connection. A number is never used for another connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

/// The kinds of message that may have another version than the agreed one: hello, error, echo request and echo reply.
const OF_ANY_VERSION: std::ops::RangeInclusive<u8> = 0..=3;
/// The transaction of messages that are no answers.
const UNASKED: u32 = 0;

/// The connections of one switch.
pub struct Controllers {
    connections: BTreeMap<ConnectionId, Connection>,
    next: u64,
    limits: Limits,
    shared: Shared,
    /// Whether messages of controllers are copied.
    copies: bool,
}

impl Controllers {
    /// No connections yet.
    pub fn new(limits: Limits) -> Self {
        Self { connections: BTreeMap::new(), next: 0, limits, shared: Shared::default(), copies: false }
    }

    /// Copies the messages from and to controllers from now on, or no longer. Messages of the management socket are not
    /// copied.
    pub fn copy_messages(&mut self, copies: bool) {
        self.copies = copies;
        for connection in self.connections.values_mut().filter(|connection| !connection.settings.service) {
            connection.output.copies = copies.then(|| connection.output.copies.take().unwrap_or_default());
        }
    }

    /// Takes the copies of whole messages, in the order in which each connection had them.
    pub fn take_copies(&mut self) -> Vec<u8> {
        let copies = self.connections.values_mut().filter_map(|connection| connection.output.copies.as_mut());
        copies.flat_map(std::mem::take).collect()
    }

    /// Whether a controller has agreed on a version.
    pub fn is_connected(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(Connection::is_agreed)
    }

    /// Adds a connection that has just been made.
    ///
    /// # Errors
    /// There are too many connections.
    pub fn connect(
        &mut self,
        settings: Settings,
        switch: &dyn Switch,
        now: Duration,
    ) -> Result<ConnectionId, SessionError> {
        if self.connections.len() >= self.limits.connections {
            return Err(SessionError::Full(self.limits.connections));
        }
        let id = ConnectionId(self.next);
        self.next += 1;
        let mut connection = Connection::new(settings, &self.limits, now);
        connection.output.codec.option_bytes = option_bytes(switch);
        connection.output.copies = (self.copies && !connection.settings.service).then(Vec::new);
        self.connections.insert(id, connection);
        Ok(id)
    }

    /// Removes a connection that was closed.
    pub fn disconnect(&mut self, id: ConnectionId) {
        self.connections.remove(&id);
    }

    /// Whether bytes of a connection are to be read. No bytes are read while its answers wait to be sent.
    pub fn reads(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(|connection| connection.reads(&self.limits))
    }

    /// The bytes to send. The caller removes sent bytes from the front, and then calls [`Controllers::receive`],
    /// without bytes if none have arrived. That call continues answers in parts.
    pub fn to_send(&mut self, id: ConnectionId) -> Option<&mut Vec<u8>> {
        self.connections.get_mut(&id).map(|connection| &mut connection.output.bytes)
    }

    /// Checks a connection after messages that it did not ask for, before its bytes are sent.
    ///
    /// # Errors
    /// The connection has ended, because its controller does not read.
    pub fn check(&self, id: ConnectionId) -> Result<(), SessionError> {
        self.connections.get(&id).map_or(Ok(()), Connection::check)
    }

    /// The agreed version; before the agreement, the newest offered version.
    pub fn version(&self, id: ConnectionId) -> Option<Version> {
        self.connections.get(&id).map(Connection::version)
    }

    /// The role of a controller.
    pub fn role(&self, id: ConnectionId) -> Option<Role> {
        self.connections.get(&id).map(|connection| connection.role)
    }

    /// The number of packets that were left out because there were too many, or because the controller does not read.
    pub fn dropped_packets(&self, id: ConnectionId) -> u64 {
        self.connections.get(&id).map_or(0, Connection::dropped_packets)
    }

    /// Takes bytes that a controller has sent, and handles messages as long as their answers have room.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn receive(
        &mut self,
        id: ConnectionId,
        bytes: &[u8],
        switch: &mut dyn Switch,
        now: Duration,
    ) -> Result<(), SessionError> {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.feed(bytes, now);
        }
        while let Some(connection) = self.connections.get_mut(&id)
            && let Some(mut message) = connection.next_message(&self.limits)?
        {
            if connection.begin(&message)? {
                if !connection.settings.service {
                    switch.begin_control(now);
                }
                continue;
            }
            let (number, kind) = (message[0], message[1]);
            let version = connection.version().number();
            match OF_ANY_VERSION.contains(&kind) {
                true => message[0] = version,
                false if number != version => return Err(SessionError::OtherVersion(number)),
                false => {}
            }
            self.handle(id, &message, switch, now);
        }
        Ok(())
    }

    fn handle(&mut self, id: ConnectionId, message: &[u8], switch: &mut dyn Switch, now: Duration) {
        let others = self.connections.iter().filter(|(other, _)| **other != id);
        self.shared.other_bundle_bytes = others.map(|(_, one)| one.bundles.bytes()).sum();
        self.shared.effects.news.all_flows = self.connections.values().any(|one| !one.monitors.is_empty());
        let Some(connection) = self.connections.get_mut(&id) else { return };
        dispatch::handle(connection, message, &mut self.shared, &self.limits, switch, now);
        let effects = std::mem::take(&mut self.shared.effects);
        if effects.is_primary {
            self.demote_others(id);
        }
        if effects.tunnel_options {
            let option_bytes = option_bytes(switch);
            self.connections.values_mut().for_each(|one| one.output.codec.option_bytes = option_bytes);
        }
        let transaction = message.get(4..8).and_then(|bytes| bytes.first_chunk()).copied();
        self.tell(&effects.news, Some((id, transaction.map_or(0, u32::from_be_bytes))));
    }

    /// Makes all other primaries secondaries: there is only one primary.
    fn demote_others(&mut self, primary: ConnectionId) {
        let role = Role::Secondary;
        let generation = self.shared.generation.unwrap_or(u64::MAX);
        for (id, connection) in &mut self.connections {
            if *id != primary && connection.role == Role::Primary {
                connection.role = role;
                if connection.version() >= Version::V14 {
                    let status = RoleStatus { role, reason: 0, generation };
                    connection.output.send(UNASKED, &Message::RoleStatus(status));
                }
            }
        }
    }

    /// Notifies controllers of changes. `by` is the connection and the transaction of the controller that made them.
    fn tell(&mut self, news: &News, by: Option<(ConnectionId, u32)>) {
        for (id, connection) in &mut self.connections {
            let own = by.filter(|(by, _)| by == id).map(|(_, transaction)| transaction);
            let (mut updates, mut is_short) = (Vec::new(), false);
            for flow in &news.flows {
                let update = connection.monitors.told(flow, own, connection.version());
                let short = matches!(update, Some(openflow::MonitorUpdate::Abbreviated(_)));
                updates.extend(update.filter(|_| !(short && is_short)));
                is_short |= short;
                if flow.event == MonitorEvent::Removed {
                    connection.removed(flow);
                }
            }
            for update in updates {
                let message = Message::MultipartReply(Box::new(Reply::FlowMonitor(vec![update])), false);
                connection.output.send(UNASKED, &message);
            }
            news.ports.iter().for_each(|(reason, port)| connection.port(*reason, port));
        }
    }

    /// Notifies controllers of changes that no controller made, such as the end of flows whose timeout has passed.
    pub fn news(&mut self, news: &News) {
        self.tell(news, None);
    }

    /// Whether a controller monitors flows.
    pub fn follow_flows(&self) -> bool {
        self.connections.values().any(|one| !one.monitors.is_empty())
    }

    /// Sends a packet to the controllers with its id.
    pub fn packet(&mut self, packet: &PacketFor, now: Duration) {
        self.connections.values_mut().for_each(|connection| connection.packet(packet, &self.limits, now));
    }

    /// The time at which [`Controllers::tick`] must be called for a connection.
    pub fn deadline(&self, id: ConnectionId) -> Option<Duration> {
        self.connections.get(&id)?.deadline(&self.limits)
    }

    /// Sends an echo request if the controller is silent, and refuses its bundles and requests that have expired.
    ///
    /// # Errors
    /// The connection has ended, because its controller does not answer.
    pub fn tick(&mut self, id: ConnectionId, now: Duration) -> Result<(), SessionError> {
        self.connections.get_mut(&id).map_or(Ok(()), |connection| connection.tick(&self.limits, now))
    }
}

/// Bytes of the first tunnel options.
fn option_bytes(switch: &dyn Switch) -> [u8; 8] {
    let mut bytes = [0; 8];
    for map in switch.tlv_table().maps {
        if let Some(place) = bytes.get_mut(usize::from(map.index)) {
            *place = map.bytes;
        }
    }
    bytes
}
