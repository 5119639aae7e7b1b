//! The sockets of OpenFlow: where bridges listen, and the connections with their controllers.
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use controllers::Settings;
use rustix::event::epoll::{self, EventData, EventFlags};
use switch::View;

use super::connection::Connection;
use super::switch_bridge::SwitchBridge;
use crate::local_listener::LocalListener;
use crate::watch::{Listening, watch};

/// The bytes that are read of one connection in a turn.
const TURN_BYTES: usize = 16 << 10;

/// Keys of the epoll set: above those of the control socket and of the metrics.
pub const FIRST_KEY: u64 = 1 << 56;

/// A socket at which a bridge listens.
struct Listener {
    bridge: String,
    socket: LocalListener,
    listening: Listening,
    /// The key of its timer.
    timer: u64,
}

/// The sockets of all bridges.
pub struct Management {
    listeners: BTreeMap<u64, Listener>,
    connections: BTreeMap<u64, Connection>,
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
            next: FIRST_KEY,
            buffer: vec![0; TURN_BYTES],
        }
    }

    fn key(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Accepts the controllers of a bridge at a socket.
    ///
    /// # Errors
    /// The kernel refuses a timer, or to watch the socket.
    pub fn listen(&mut self, bridge: &str, socket: LocalListener, epoll: &OwnedFd) -> io::Result<()> {
        let (key, timer) = (self.key(), self.key());
        let listening = Listening::watch(epoll, &socket, key, timer)?;
        let bridge = bridge.to_owned();
        self.listeners.insert(key, Listener { bridge, socket, listening, timer });
        Ok(())
    }

    /// Whether a bridge has a socket.
    pub fn listens(&self, bridge: &str) -> bool {
        self.listeners.values().any(|listener| listener.bridge == bridge)
    }

    /// Closes the sockets of a bridge and its connections.
    pub fn forget(&mut self, bridge: &str) {
        self.listeners.retain(|_, listener| listener.bridge != bridge);
        self.connections.retain(|_, connection| connection.bridge != bridge);
    }

    /// Something is ready.
    pub fn ready(&mut self, key: u64, turn: &mut Turn<'_, '_>) {
        if self.listeners.contains_key(&key) {
            return self.accept(key, turn);
        }
        if let Some(listener) = self.listeners.values_mut().find(|listener| listener.timer == key) {
            listener.listening.look_again(turn.epoll, &listener.socket);
            return listener.listening.set_timer(false);
        }
        if self.serve(key, turn).is_err() {
            self.close(key, turn);
        }
        if let Some(bridge) = self.connections.get(&key).map(|connection| connection.bridge.clone()) {
            self.send(&bridge, turn);
        }
    }

    fn accept(&mut self, key: u64, turn: &mut Turn<'_, '_>) {
        let Some(listener) = self.listeners.get_mut(&key) else { return };
        let accepted = listener.socket.accept();
        let accepted = listener.listening.accepted(turn.epoll, &listener.socket, accepted);
        let Some(socket) = accepted.filter(|socket| listener.socket.allows(socket)) else { return };
        let name = listener.bridge.clone();
        let Some(bridge) = turn.bridges.get_mut(&name) else { return };
        bridge.follow_ports(turn.switch, turn.now);
        let Ok(id) = bridge.connect(Settings::service(), turn.switch, turn.now) else { return };
        let key = self.key();
        let connection = Connection::new(socket.into(), name.clone(), id);
        if watch(turn.epoll, &connection, key, connection.flags).is_err() {
            return bridge.controllers.disconnect(id);
        }
        self.connections.insert(key, connection);
        self.send(&name, turn);
    }

    /// One turn of a connection: what has come is read once and carried out.
    fn serve(&mut self, key: u64, turn: &mut Turn<'_, '_>) -> io::Result<()> {
        let Some(connection) = self.connections.get(&key) else { return Ok(()) };
        let Some(bridge) = turn.bridges.get_mut(&connection.bridge) else { return Ok(()) };
        let taken = match bridge.controllers.reads(connection.id) {
            true => connection.read(&mut self.buffer)?,
            false => 0,
        };
        let ended = bridge.receive(connection.id, &self.buffer[..taken], turn.switch, turn.now);
        if ended.is_err() {
            // The reason, as far as the socket has room.
            let waiting = bridge.controllers.to_send(connection.id);
            let _ = waiting.map(|bytes| connection.write(bytes));
        }
        ended.map_err(io::Error::other)
    }

    /// Sends what waits for the controllers of a bridge.
    fn send(&mut self, bridge: &str, turn: &mut Turn<'_, '_>) {
        let own = self.connections.iter_mut().filter(|(_, connection)| connection.bridge == bridge);
        let mut gone = Vec::new();
        for (key, connection) in own {
            let Some(bridge) = turn.bridges.get_mut(bridge) else { continue };
            let Some(bytes) = bridge.controllers.to_send(connection.id) else { continue };
            let written = connection.write(bytes);
            let waits = !bytes.is_empty();
            // An answer in parts continues when there is room to write, which there is at once if nothing waits.
            let reads = bridge.controllers.reads(connection.id);
            let mut flags = EventFlags::empty();
            flags.set(EventFlags::IN, reads);
            flags.set(EventFlags::OUT, waits || !reads);
            let watched = flags == connection.flags
                || epoll::modify(turn.epoll, &*connection, EventData::new_u64(*key), flags).is_ok();
            connection.flags = flags;
            if written.is_err() || !watched {
                gone.push(*key);
            }
        }
        gone.into_iter().for_each(|key| self.close(key, turn));
    }

    fn close(&mut self, key: u64, turn: &mut Turn<'_, '_>) {
        let Some(connection) = self.connections.remove(&key) else { return };
        if let Some(bridge) = turn.bridges.get_mut(&connection.bridge) {
            bridge.controllers.disconnect(connection.id);
        }
    }

    /// Ends connections whose time is over, and sends what the bridges have to say.
    pub fn tick(&mut self, turn: &mut Turn<'_, '_>) {
        let mut gone = Vec::new();
        for (key, connection) in &self.connections {
            let Some(bridge) = turn.bridges.get_mut(&connection.bridge) else { continue };
            let due = bridge.controllers.deadline(connection.id).is_some_and(|deadline| deadline <= turn.now);
            if due && bridge.controllers.tick(connection.id, turn.now).is_err() {
                gone.push(*key);
            }
        }
        gone.into_iter().for_each(|key| self.close(key, turn));
        let names: Vec<String> = turn.bridges.keys().cloned().collect();
        names.iter().for_each(|name| self.send(name, turn));
    }
}
