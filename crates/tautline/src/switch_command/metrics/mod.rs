//! What the switch counts, for Prometheus: `GET /metrics` at an address.
//!
//! The control thread serves it as it serves the control socket: nothing waits, and clients, bytes and time are
//! limited. Whoever reaches the address may read; nobody can change anything.
mod connection;
mod text;

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::epoll;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
use switch::View;

use super::watch::watch;
use connection::{Connection, Next};

/// Clients at once. One more takes the place of one that has had its time.
const MOST_CONNECTIONS: usize = 16;
const BACKLOG: i32 = 16;

/// From being accepted to having read the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Keys in the epoll set: above those of the control socket.
const LISTENER: u64 = 1 << 48;

/// OpenMetrics 1.0, "Protocol negotiation".
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub struct Metrics {
    listener: TcpListener,
    connections: BTreeMap<u64, Connection>,
    next: u64,
}

impl Metrics {
    /// Listens, and is watched in `epoll` from now on. Another process may listen there already: the one whose switch
    /// this one takes over.
    pub fn open(address: SocketAddr, epoll: &OwnedFd) -> io::Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        sockopt::set_socket_reuseport(&socket, true)?;
        bind(&socket, &address)?;
        listen(&socket, BACKLOG)?;
        let listener = TcpListener::from(socket);
        watch(epoll, &listener, LISTENER, epoll::EventFlags::IN)?;
        Ok(Metrics { listener, connections: BTreeMap::new(), next: LISTENER })
    }

    /// Whether this key of the set is one of these.
    pub fn has(key: u64) -> bool {
        key >= LISTENER
    }

    /// Something is ready.
    pub fn ready(&mut self, key: u64, epoll: &OwnedFd, switch: &View<'_>) {
        if key == LISTENER {
            return self.accept(epoll);
        }
        let Some(connection) = self.connections.get_mut(&key) else { return };
        let mut next = connection.go_on();
        if let Next::Answer(path) = next {
            next = match path.as_str() {
                "/metrics" => {
                    connection.put("200 OK", CONTENT_TYPE, &text::text(&switch.snapshot(), &switch.rings()))
                }
                _ => connection.put("404 Not Found", "text/plain", "there is /metrics\n"),
            };
        }
        let flags = match connection.wants_to_write() {
            true => epoll::EventFlags::OUT,
            false => epoll::EventFlags::IN,
        };
        let data = epoll::EventData::new_u64(key);
        let watched = || epoll::modify(epoll, &*connection, data, flags).is_ok();
        if !matches!(next, Next::Wait) || !watched() {
            self.connections.remove(&key);
        }
    }

    fn accept(&mut self, epoll: &OwnedFd) {
        let Ok((socket, _)) = self.listener.accept() else { return };
        if self.connections.len() >= MOST_CONNECTIONS {
            // Keys count up: the first is the oldest.
            let oldest = self.connections.first_key_value().map(|(key, one)| (*key, one.since));
            match oldest {
                Some((key, since)) if since.elapsed() > PATIENCE => drop(self.connections.remove(&key)),
                _ => return,
            }
        }
        let Ok(connection) = Connection::new(socket) else { return };
        self.next += 1;
        if watch(epoll, &connection, self.next, epoll::EventFlags::IN).is_ok() {
            self.connections.insert(self.next, connection);
        }
    }
}
