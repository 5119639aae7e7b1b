//! The sockets of OpenFlow: where bridges listen, and the connections with their controllers.
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use control::{ControllerDescription, ControllerState};
use controllers::{ConnectionId, SessionError, Settings};
use openflow::{Codec, Hello, Message, Version};
use rustix::event::epoll::{self, EventData, EventFlags};
use switch::View;

use super::connection::{Connection, Peer};
use super::link::Link;
use super::outgoing::Outgoing;
use super::switch_bridge::SwitchBridge;
use super::target::{ListeningSocket, Opened};
use crate::watch::{Listening, watch};

/// The bytes that are read of one connection in a turn.
const TURN_BYTES: usize = Link::READ_BYTES;
/// Programs that look at the messages of one bridge, and bytes that wait for one of them, at most.
const MOST_SNOOPERS: usize = 4;
const SNOOPED_BYTES: usize = 4 << 20;

/// Controllers that are connected at the sockets of one bridge's targets, at most. With sixteen more to which it connects
/// itself, its own socket has room.
const MOST_ACCEPTED: usize = 8;

/// Keys of the epoll set: above those of the control socket and of the metrics.
pub const FIRST_KEY: u64 = 1 << 56;

/// The clients of a socket of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    /// Programs of the host: `BRIDGE.mgmt`.
    Management,
    /// A controller of the table Controller.
    Controller,
    /// Programs that read the messages of controllers: `BRIDGE.snoop`.
    Snooper,
}

/// A socket at which a bridge listens.
struct Listener {
    bridge: String,
    serves: Serves,
    /// The target in the table Controller.
    target: Option<String>,
    socket: ListeningSocket,
    listening: Listening,
    /// The key of its timer.
    timer: u64,
}

/// The sockets of all bridges.
pub struct Management {
    listeners: BTreeMap<u64, Listener>,
    connections: BTreeMap<u64, Connection>,
    outgoing: Vec<Outgoing>,
    next: u64,
    buffer: Vec<u8>,
}

/// The bridges and the switch, for one turn.
pub struct Turn<'a, 'v> {
    pub bridges: &'a mut BTreeMap<String, SwitchBridge>,
    pub switch: &'a mut View<'v>,
    pub epoll: &'a OwnedFd,
    pub now: Duration,
}

impl Management {
    /// No sockets yet.
    pub fn new() -> Self {
        Management {
            listeners: BTreeMap::new(),
            connections: BTreeMap::new(),
            outgoing: Vec::new(),
            next: FIRST_KEY,
            buffer: vec![0; TURN_BYTES],
        }
    }

    fn key(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Accepts connections of a bridge at a socket.
    ///
    /// # Errors
    /// The kernel refuses a timer, or to watch the socket.
    pub fn listen(
        &mut self,
        bridge: &str,
        serves: Serves,
        socket: ListeningSocket,
        epoll: &OwnedFd,
    ) -> io::Result<()> {
        self.listen_for(bridge, serves, None, socket, epoll)
    }

    fn listen_for(
        &mut self,
        bridge: &str,
        serves: Serves,
        target: Option<&str>,
        socket: ListeningSocket,
        epoll: &OwnedFd,
    ) -> io::Result<()> {
        let (key, timer) = (self.key(), self.key());
        let listening = Listening::watch(epoll, &socket, key, timer)?;
        let (bridge, target) = (bridge.to_owned(), target.map(str::to_owned));
        self.listeners.insert(key, Listener { bridge, serves, target, socket, listening, timer });
        Ok(())
    }

    /// Whether a bridge has a socket of this kind.
    pub fn listens(&self, bridge: &str, serves: Serves) -> bool {
        self.listeners.values().any(|listener| listener.bridge == bridge && listener.serves == serves)
    }

    /// Closes the sockets of a bridge and its connections, all but those of the table Controller.
    pub fn close_own(&mut self, bridge: &str, turn: &mut Turn<'_, '_>) {
        self.listeners.retain(|_, listener| listener.bridge != bridge || listener.target.is_some());
        let own = |(_, one): &(&u64, &Connection)| one.bridge == bridge && one.target.is_none();
        let keys: Vec<u64> = self.connections.iter().filter(own).map(|(key, _)| *key).collect();
        keys.into_iter().for_each(|key| self.close(key, "its socket was closed", turn));
    }

    /// Closes all sockets of a bridge and all its connections.
    pub fn forget(&mut self, bridge: &str, turn: &mut Turn<'_, '_>) {
        self.set_controllers(bridge, &BTreeMap::new(), None, turn);
        self.close_own(bridge, turn);
    }

    /// Makes the controllers of a bridge those that are wanted. Their sockets are in `folder`.
    pub fn set_controllers(
        &mut self,
        bridge: &str,
        wanted: &BTreeMap<String, ControllerDescription>,
        folder: Option<&Path>,
        turn: &mut Turn<'_, '_>,
    ) {
        let stays =
            |one: &Outgoing| one.bridge != bridge || wanted.get(&one.target) == Some(&one.description);
        let (stay, go): (Vec<_>, Vec<_>) = std::mem::take(&mut self.outgoing).into_iter().partition(stays);
        self.outgoing = stay;
        for Outgoing { target, .. } in go {
            let is_its = |of: &str, other: &Option<String>| of == bridge && other.as_ref() == Some(&target);
            self.listeners.retain(|_, listener| !is_its(&listener.bridge, &listener.target));
            let connections = self.connections.iter().filter(|(_, one)| is_its(&one.bridge, &one.target));
            let keys: Vec<u64> = connections.map(|(key, _)| *key).collect();
            keys.into_iter().for_each(|key| self.close(key, "it is no controller of the bridge", turn));
        }
        for (target, description) in wanted {
            if self.outgoing.iter().any(|one| one.bridge == bridge && one.target == *target) {
                continue;
            }
            self.outgoing.push(Outgoing::new(bridge, target, folder, description.clone(), turn.now));
        }
        self.connect_due(turn);
    }

    /// Whether a bridge has controllers in the table Controller, and whether one of them is there or has not been away
    /// for long.
    pub fn is_controlled(&self, bridge: &str, now: Duration) -> bool {
        self.outgoing.iter().any(|one| one.bridge == bridge && !one.is_away(now))
    }

    /// The connections with controllers of the table Controller, by bridge and target.
    pub fn states(
        &self,
        bridges: &BTreeMap<String, SwitchBridge>,
        now: Duration,
    ) -> BTreeMap<String, BTreeMap<String, ControllerState>> {
        let mut states = BTreeMap::<String, BTreeMap<String, ControllerState>>::new();
        for one in &self.outgoing {
            let bridge = bridges.get(&one.bridge);
            let id = self.controller_of(one);
            let role = bridge.zip(id).and_then(|(bridge, id)| bridge.controllers.role(id));
            let of_bridge = states.entry(one.bridge.clone()).or_default();
            of_bridge.insert(one.target.clone(), one.state(role, now));
        }
        states
    }

    /// A connection with a controller of the table Controller.
    fn controller_of(&self, one: &Outgoing) -> Option<ConnectionId> {
        let is_its = |connection: &&Connection| {
            connection.bridge == one.bridge && connection.target.as_ref() == Some(&one.target)
        };
        match self.connections.values().find(is_its)?.peer {
            Peer::Controller(id) => Some(id),
            Peer::Snooper(_) => None,
        }
    }

    /// Serves the socket or connection with this key, which is ready.
    pub fn ready(&mut self, key: u64, turn: &mut Turn<'_, '_>) {
        if self.listeners.contains_key(&key) {
            return self.accept(key, turn);
        }
        if let Some(listener) = self.listeners.values_mut().find(|listener| listener.timer == key) {
            listener.listening.look_again(turn.epoll, &listener.socket);
            return listener.listening.set_timer(false);
        }
        let bridge = self.connections.get(&key).map(|connection| connection.bridge.clone());
        if let Err(error) = self.serve(key, turn) {
            self.close(key, &error.to_string(), turn);
        }
        if let Some(bridge) = bridge {
            self.send(&bridge, turn);
        }
    }

    fn accept(&mut self, key: u64, turn: &mut Turn<'_, '_>) {
        let Some(listener) = self.listeners.get_mut(&key) else { return };
        let accepted = listener.socket.accept();
        let accepted = listener.listening.accepted(turn.epoll, &listener.socket, accepted);
        let Some(link) = accepted.flatten() else { return };
        let (name, target, serves) = (listener.bridge.clone(), listener.target.clone(), listener.serves);
        match serves {
            Serves::Management => _ = self.add(&name, None, Settings::service(), link, turn),
            Serves::Snooper => self.add_snooper(&name, link, turn),
            Serves::Controller if self.accepted(&name) >= MOST_ACCEPTED => {}
            Serves::Controller => {
                let is_its = |one: &&Outgoing| one.bridge == name && Some(&one.target) == target.as_ref();
                let Some(settings) = self.outgoing.iter().find(is_its).map(Outgoing::settings) else {
                    return;
                };
                let _ = self.add(&name, target, settings, link, turn);
            }
        }
        self.send(&name, turn);
    }

    /// Adds a connection with a controller, and returns its key.
    fn add(
        &mut self,
        name: &str,
        target: Option<String>,
        settings: Settings,
        link: Link,
        turn: &mut Turn<'_, '_>,
    ) -> io::Result<u64> {
        let Some(bridge) = turn.bridges.get_mut(name) else { return Err(io::ErrorKind::NotFound.into()) };
        bridge.follow_ports(turn.switch, turn.now);
        let id = bridge.connect(settings, turn.switch, turn.now).map_err(io::Error::other)?;
        let key = self.key();
        let connection = Connection::new(link, name.to_owned(), target, Peer::Controller(id));
        if let Err(error) = watch(turn.epoll, &connection, key, connection.flags) {
            bridge.controllers.disconnect(id);
            return Err(error);
        }
        self.connections.insert(key, connection);
        Ok(key)
    }

    /// Adds a program that looks at the messages of a bridge's controllers.
    fn add_snooper(&mut self, name: &str, link: Link, turn: &mut Turn<'_, '_>) {
        if self.snoopers(name) >= MOST_SNOOPERS {
            return;
        }
        let Some(bridge) = turn.bridges.get_mut(name) else { return };
        let hello = Message::Hello(Hello::of(&Version::ALL));
        let hello = Codec::new(Version::V15).encode(1, &hello).unwrap_or_default();
        let key = self.key();
        let connection = Connection::new(link, name.to_owned(), None, Peer::Snooper(hello));
        if watch(turn.epoll, &connection, key, connection.flags).is_ok() {
            bridge.controllers.copy_messages(true);
            self.connections.insert(key, connection);
        }
    }

    /// The number of a bridge's controllers that it waited for.
    fn accepted(&self, bridge: &str) -> usize {
        let by_itself: Vec<_> = self.outgoing.iter().filter_map(|one| one.connection).collect();
        let of = |(key, one): &(&u64, &Connection)| {
            one.bridge == bridge && one.target.is_some() && !by_itself.contains(key)
        };
        self.connections.iter().filter(of).count()
    }

    fn snoopers(&self, bridge: &str) -> usize {
        let is_one = |one: &&Connection| one.bridge == bridge && matches!(one.peer, Peer::Snooper(_));
        self.connections.values().filter(is_one).count()
    }

    /// One turn of a connection: the received bytes are read once and handled.
    fn serve(&mut self, key: u64, turn: &mut Turn<'_, '_>) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(&key) else { return Ok(()) };
        let Some(bridge) = turn.bridges.get_mut(&connection.bridge) else { return Ok(()) };
        let Peer::Controller(id) = connection.peer else {
            // A program that looks on says nothing that matters.
            return connection.link.read(&mut self.buffer).map(drop);
        };
        let taken = match bridge.controllers.reads(id) {
            true => connection.link.read(&mut self.buffer)?,
            false => 0,
        };
        let ended = bridge.receive(id, &self.buffer[..taken], turn.switch, turn.now);
        if ended.is_err() {
            // The reason, as far as the socket has room.
            let waiting = bridge.controllers.to_send(id);
            let _ = waiting.map(|bytes| connection.link.write(bytes));
        }
        ended.map_err(io::Error::other)
    }

    /// Sends the waiting bytes to the controllers of a bridge.
    pub fn send(&mut self, bridge: &str, turn: &mut Turn<'_, '_>) {
        let Some(of) = turn.bridges.get_mut(bridge) else { return };
        let copies = of.controllers.take_copies();
        let own = self.connections.iter_mut().filter(|(_, connection)| connection.bridge == bridge);
        let mut gone = Vec::new();
        for (key, connection) in own {
            let (written, waits, reads) = match &mut connection.peer {
                Peer::Controller(id) => {
                    let id = *id;
                    let checked = of.controllers.check(id).map_err(io::Error::other);
                    let Some(bytes) = of.controllers.to_send(id) else { continue };
                    let written = connection.link.write(bytes).and(checked);
                    // An answer in parts continues when there is room to write, which there is at once if nothing waits.
                    (written, connection.link.waits(bytes), of.controllers.reads(id))
                }
                Peer::Snooper(bytes) => {
                    let mut bytes = std::mem::take(bytes);
                    // Whole messages: a program that reads too slowly misses some.
                    if bytes.len() + copies.len() <= SNOOPED_BYTES {
                        bytes.extend_from_slice(&copies);
                    }
                    let written = connection.link.write(&mut bytes);
                    let waits = connection.link.waits(&bytes);
                    connection.peer = Peer::Snooper(bytes);
                    (written, waits, true)
                }
            };
            let mut flags = EventFlags::empty();
            flags.set(EventFlags::IN, reads);
            flags.set(EventFlags::OUT, waits || !reads);
            let watched = flags == connection.flags
                || epoll::modify(turn.epoll, &*connection, EventData::new_u64(*key), flags).is_ok();
            connection.flags = flags;
            match written {
                Err(error) => gone.push((*key, error.to_string())),
                Ok(()) if !watched => gone.push((*key, "it cannot be watched".to_owned())),
                Ok(()) => {}
            }
        }
        gone.into_iter().for_each(|(key, why)| self.close(key, &why, turn));
    }

    fn close(&mut self, key: u64, why: &str, turn: &mut Turn<'_, '_>) {
        let Some(connection) = self.connections.remove(&key) else { return };
        if let Some(bridge) = turn.bridges.get_mut(&connection.bridge) {
            match connection.peer {
                Peer::Controller(id) => bridge.controllers.disconnect(id),
                Peer::Snooper(_) => bridge.controllers.copy_messages(self.snoopers(&connection.bridge) > 0),
            }
        }
        let is_its = |one: &&mut Outgoing| {
            one.bridge == connection.bridge && Some(&one.target) == connection.target.as_ref()
        };
        match self.outgoing.iter_mut().find(is_its) {
            Some(one) if one.connection == Some(key) => one.ended(why.to_owned(), turn.now),
            // A controller that was waited for, and did not prove its key.
            Some(one) if connection.link.is_handshaking() => one.error = Some(why.to_owned()),
            _ => {}
        }
    }

    /// Connects with controllers, or waits for them, whose time has come.
    fn connect_due(&mut self, turn: &mut Turn<'_, '_>) {
        for at in 0..self.outgoing.len() {
            let one = &self.outgoing[at];
            let Some(target) = one.due(turn.now) else { continue };
            let (bridge, name, settings) = (one.bridge.clone(), one.target.clone(), one.settings());
            let opened = target.open(one.description.keys.as_ref());
            let made = opened.and_then(|opened| match opened {
                Opened::Connection(link) => self.add(&bridge, Some(name), settings, link, turn).map(Some),
                Opened::Listening(socket) => self
                    .listen_for(&bridge, Serves::Controller, Some(&name), socket, turn.epoll)
                    .map(|()| None),
            });
            match made {
                Ok(key) => self.outgoing[at].opened(key),
                Err(error) => self.outgoing[at].ended(error.to_string(), turn.now),
            }
        }
    }

    /// Ends connections whose time is over, connects with controllers, and sends the messages of the bridges.
    pub fn tick(&mut self, turn: &mut Turn<'_, '_>) {
        let mut gone = Vec::<(u64, SessionError)>::new();
        for (key, connection) in &self.connections {
            let Peer::Controller(id) = connection.peer else { continue };
            let Some(bridge) = turn.bridges.get_mut(&connection.bridge) else { continue };
            let due = bridge.controllers.deadline(id).is_some_and(|deadline| deadline <= turn.now);
            if due && let Err(error) = bridge.controllers.tick(id, turn.now) {
                gone.push((*key, error));
            }
        }
        gone.into_iter().for_each(|(key, why)| self.close(key, &why.to_string(), turn));
        self.connect_due(turn);
        for at in 0..self.outgoing.len() {
            let bridge = turn.bridges.get(&self.outgoing[at].bridge);
            let id = self.controller_of(&self.outgoing[at]);
            let is = bridge.zip(id).is_some_and(|(bridge, id)| bridge.controllers.is_connected(id));
            self.outgoing[at].note(is, turn.now);
        }
        let names: Vec<String> = turn.bridges.keys().cloned().collect();
        names.iter().for_each(|name| self.send(name, turn));
    }
}
