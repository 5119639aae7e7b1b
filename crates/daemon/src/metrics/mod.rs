//! The switch's counters for Prometheus: `GET /metrics` at an address.
//!
//! The control thread serves it as it serves the control socket: nothing waits, and clients, bytes and time are
//! limited. Every client that reaches the address may read; none can change anything.
mod connection;
mod text;

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use rustix::event::epoll;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
use switch::View;

use crate::watch::{Listening, watch};
use connection::{Connection, Next};

/// The most clients at once. Another client replaces the oldest.
const MOST_CONNECTIONS: usize = 16;
const BACKLOG: i32 = 16;

/// Keys in the epoll set: above those of the control socket. Connections count up from the last.
const LISTENER: u64 = 1 << 48;
const TIMER: u64 = LISTENER + 1;

/// OpenMetrics 1.0, "Protocol negotiation".
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub struct Metrics {
    listener: TcpListener,
    listening: Listening,
    connections: BTreeMap<u64, Connection>,
    next: u64,
}

impl Metrics {
    /// Listens at the address. `epoll` watches the socket from now on. Another process of the same user may listen
    /// there too (`SO_REUSEPORT`): the switch that this one takes over from.
    ///
    /// # Errors
    /// The address is not of this machine, or its port is taken or privileged. Or the kernel refuses a socket, a
    /// timer or to watch the socket.
    pub fn open(address: SocketAddr, epoll: &OwnedFd) -> io::Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        sockopt::set_socket_reuseport(&socket, true)?;
        bind(&socket, &address)?;
        listen(&socket, BACKLOG)?;
        let listener = TcpListener::from(socket);
        let listening = Listening::watch(epoll, &listener, LISTENER, TIMER)?;
        Ok(Metrics { listener, listening, connections: BTreeMap::new(), next: TIMER })
    }

    /// Whether this key of the epoll set belongs to the metrics.
    pub fn has(key: u64) -> bool {
        key >= LISTENER
    }

    /// Serves the descriptor of this key, which is ready.
    pub fn ready(&mut self, key: u64, epoll: &OwnedFd, switch: &View<'_>) {
        match key {
            LISTENER => {
                if let Some(key) = self.accept(epoll) {
                    // Its request has come along, as a rule.
                    self.serve(key, epoll, switch);
                }
            }
            TIMER => {
                self.listening.look_again(epoll, &self.listener);
                self.listening.set_timer(false);
            }
            key => self.serve(key, epoll, switch),
        }
    }

    fn serve(&mut self, key: u64, epoll: &OwnedFd, switch: &View<'_>) {
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

    fn accept(&mut self, epoll: &OwnedFd) -> Option<u64> {
        let accepted = self.listener.accept();
        let (socket, _) = self.listening.accepted(epoll, &self.listener, accepted)?;
        // Keys count up: the first is the oldest. A client that sends its request is answered at once, and needs no
        // place for longer.
        if self.connections.len() >= MOST_CONNECTIONS {
            self.connections.pop_first();
        }
        let connection = Connection::new(socket).ok()?;
        self.next += 1;
        watch(epoll, &connection, self.next, epoll::EventFlags::IN).ok()?;
        self.connections.insert(self.next, connection);
        Some(self.next)
    }
}
