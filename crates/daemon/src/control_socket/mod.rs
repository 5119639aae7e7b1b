//! The control socket: its clients inspect and change the running switch.
//!
//! The control thread serves it between ports' messages: no function here blocks, each connection gets one request
//! served at a time, and bytes, connections and time are limited. Only the switch's user may open the socket (0600),
//! and the user of each connection is checked again.
mod answer;
mod capture;
mod connection;
mod hand_over;
mod known_ports;
mod passed_file;
mod sealed_text;
mod wires;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::protocol::{self, Event, EventKind, Outcome, Request};
use linux::local_listener::LocalListener;
use memory::DropQueue;
use rustix::event::epoll;
use serde_json::json;
use switch::{AddedPort, PortEvent, View};

use crate::bridges::{Bridges, FlowsRequest, What};
use crate::frame_filter;
use crate::hand_over_format::Owned;
use crate::watch::{Listening, watch};
use capture::Capture;
use connection::{Connection, End};
pub use known_ports::KnownPorts;

use known_ports::OwnedPorts;
use passed_file::PassedFile;

/// Connections at once.
const MOST_CONNECTIONS: usize = 32;

/// The most captures at once: each has a thread and rings.
const MOST_CAPTURES: usize = 4;

/// Threads that close files which came with requests and are not wanted.
const CLOSERS: usize = 4;

/// The time that a capture may take to write its frames when the switch ends.
const FLUSH: Duration = Duration::from_secs(1);

/// Keys in the epoll set; connections count up from the last.
const LISTENER: u64 = 1;
const TIMER: u64 = 2;
const FIRST_CONNECTION: u64 = 16;

/// The control socket and its connections.
pub struct ControlSocket {
    listener: LocalListener,
    listening: Listening,
    connections: BTreeMap<u64, Connection>,
    /// Captures whose connections are closed, until all is written.
    ending: Vec<Capture>,
    closer: Arc<DropQueue>,
    next: u64,
    ports: KnownPorts,
    /// Ports that were removed.
    removed: Vec<String>,
    handed_over: bool,
    /// Why a hand-over to another process failed.
    not_handed_over: Option<String>,
}

impl ControlSocket {
    /// Listens at the path. `epoll` watches the socket from now on.
    ///
    /// # Errors
    /// The causes of [`LocalListener::bind`], or the kernel refuses a timer or to watch the socket.
    pub fn open(path: &Path, epoll: &OwnedFd, ports: KnownPorts) -> io::Result<Self> {
        Self::serve_at(LocalListener::bind(path)?, epoll, ports)
    }

    /// Serves the control socket of another process.
    ///
    /// # Errors
    /// The causes of [`LocalListener::take_over`], or the kernel refuses a timer or to watch the socket.
    pub fn take_over(socket: OwnedFd, path: &Path, epoll: &OwnedFd, ports: KnownPorts) -> io::Result<Self> {
        Self::serve_at(LocalListener::take_over(socket, path)?, epoll, ports)
    }

    /// Makes the ports of owners of another switch those of the same owners here. Returns the ports.
    ///
    /// # Errors
    /// A description is wrong, or a port cannot be made. The text says why.
    pub fn inherit(&mut self, ports: OwnedPorts) -> Result<Vec<AddedPort>, String> {
        self.ports.inherit(ports)
    }

    /// Takes the path over from the other process, which is gone.
    pub fn keep_path(&mut self) {
        self.listener.keep(true);
    }

    /// The reason why a hand-over to another process failed. Returned once.
    pub fn has_not_handed_over(&mut self) -> Option<String> {
        self.not_handed_over.take()
    }

    /// Ports that were removed by request since this was asked last.
    pub fn removed(&mut self) -> Vec<String> {
        std::mem::take(&mut self.removed)
    }

    /// Ends all captures after the switch has ended; they write their remaining frames.
    pub fn finish(&self) {
        let deadline = Instant::now() + FLUSH;
        while self.running_captures() > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn running_captures(&self) -> usize {
        let connected = self.connections.values().filter_map(|one| one.capture.as_ref());
        connected.chain(&self.ending).filter(|capture| capture.runs()).count()
    }

    /// Whether another process has taken over.
    pub fn has_handed_over(&self) -> bool {
        self.handed_over
    }

    fn serve_at(listener: LocalListener, epoll: &OwnedFd, ports: KnownPorts) -> io::Result<Self> {
        let listening = Listening::watch(epoll, &listener, LISTENER, TIMER)?;
        Ok(ControlSocket {
            listener,
            listening,
            connections: BTreeMap::new(),
            ending: Vec::new(),
            closer: Arc::new(DropQueue::new("closer", CLOSERS)),
            next: FIRST_CONNECTION,
            ports,
            removed: Vec::new(),
            handed_over: false,
            not_handed_over: None,
        })
    }

    /// Tells all clients that have subscribed.
    pub fn publish(&mut self, port: &str, event: PortEvent, epoll: &OwnedFd) {
        let event = match event {
            PortEvent::Added => EventKind::Added,
            PortEvent::Removed => EventKind::Removed,
            PortEvent::Connected => EventKind::Connected,
            PortEvent::Disconnected => EventKind::Disconnected,
            PortEvent::Stopped => EventKind::Stopped,
        };
        let event = answer::with_schema(json!(Event { event, port: port.to_owned() }));
        let line = Outcome::Ok(event).line();
        for (key, connection) in &mut self.connections {
            // The end of a client is noticed when its socket is ready.
            if connection.put_event(&line).is_ok() && connection.wants_to_write() {
                let _ = epoll::modify(
                    epoll,
                    &*connection,
                    epoll::EventData::new_u64(*key),
                    epoll::EventFlags::OUT,
                );
            }
        }
    }

    /// Whether this key of the set is one of these.
    pub fn has(key: u64) -> bool {
        key >= LISTENER
    }

    /// Something is ready.
    pub fn ready(&mut self, key: u64, epoll: &OwnedFd, bridges: &mut Bridges, switch: &mut View<'_>) {
        match key {
            LISTENER => self.accept(epoll),
            TIMER => {
                self.listening.look_again(epoll, &self.listener);
                let now = Instant::now();
                let overdue: Vec<u64> = self
                    .connections
                    .iter()
                    .filter(|(_, one)| one.is_overdue(now))
                    .map(|(key, _)| *key)
                    .collect();
                overdue.into_iter().for_each(|key| self.close(key, switch));
                self.listening.set_timer(!self.connections.is_empty());
            }
            key => {
                if let Err(end) = self.serve(key, epoll, bridges, switch) {
                    self.end(key, &end, switch);
                }
            }
        }
    }

    fn accept(&mut self, epoll: &OwnedFd) {
        let accepted = self.listener.accept();
        let Some(socket) = self.listening.accepted(epoll, &self.listener, accepted) else { return };
        // If the system refuses now, the client may try again.
        let Ok(mut connection) = Connection::new(socket, &self.closer) else { return };
        if !self.listener.allows(connection.socket()) {
            let why = "only the user who runs the switch, and root, may control it";
            let _ = connection.put(&Outcome::Error(why.to_owned()).line());
            return;
        }
        if self.connections.len() >= MOST_CONNECTIONS {
            let why =
                format!("{MOST_CONNECTIONS} connections are open, the most that there can be; close one");
            let _ = connection.put(&Outcome::Error(why).line());
            return;
        }
        self.next += 1;
        if watch(epoll, &connection, self.next, epoll::EventFlags::IN).is_ok() {
            self.connections.insert(self.next, connection);
            self.listening.set_timer(true);
        }
    }

    /// Serves one request at most: others get their turn.
    fn serve(
        &mut self,
        key: u64,
        epoll: &OwnedFd,
        bridges: &mut Bridges,
        switch: &mut View<'_>,
    ) -> Result<(), End> {
        let Some(connection) = self.connections.get_mut(&key) else { return Ok(()) };
        connection.write()?;
        if !connection.has_request() {
            connection.read()?;
        }
        if let Some((line, file)) = connection.next_request() {
            let outcome = self.answer(key, &line, file, epoll, bridges, switch);
            let Some(connection) = self.connections.get_mut(&key) else { return Ok(()) };
            if let Some(outcome) = outcome {
                connection.put(&outcome.line())?;
            }
        }
        let Some(connection) = self.connections.get(&key) else { return Ok(()) };
        // If a request is pending, readiness for writing wakes this thread: it is always given.
        let flags = match connection.wants_to_write() || connection.has_request() {
            true => epoll::EventFlags::OUT,
            false => epoll::EventFlags::IN,
        };
        epoll::modify(epoll, connection, epoll::EventData::new_u64(key), flags).map_err(|_| End::Gone)
    }

    /// Answers a request. `None` if the answer comes later, from another thread or process.
    fn answer(
        &mut self,
        key: u64,
        line: &[u8],
        file: Option<PassedFile>,
        epoll: &OwnedFd,
        bridges: &mut Bridges,
        switch: &mut View<'_>,
    ) -> Option<Outcome> {
        let request = match protocol::parse(line) {
            Ok(request) => request,
            Err(why) => return Some(Outcome::Error(why)),
        };
        match request {
            Request::Capture { port, count, snaplen, filter } => {
                match filter.as_deref().map(frame_filter::parse).transpose() {
                    Ok(filter) => {
                        self.capture(key, &port, capture::Options { count, snaplen, filter }, file, switch)
                    }
                    Err(why) => Some(Outcome::Error(format!("filter: {why}"))),
                }
            }
            Request::Subscribe => {
                let connection = self.connections.get_mut(&key)?;
                // The capture's thread writes its end to the same socket.
                if connection.capture.is_some() {
                    return Some(Outcome::Error(
                        "a capture runs on this connection; open another".to_owned(),
                    ));
                }
                connection.subscribe();
                Some(answer::done(Ok(())))
            }
            Request::EndCapture => {
                let connection = self.connections.get(&key)?;
                match &connection.capture {
                    Some(capture) => {
                        // First, so that its thread knows why nothing more comes.
                        capture.stop();
                        switch.end_copies(capture.copies);
                        None
                    }
                    None => Some(Outcome::Error("no capture runs on this connection".to_owned())),
                }
            }
            Request::TakeOver { format } => {
                let socket = self.connections.get(&key)?.socket();
                let owned = Owned { ports: self.ports.owned(), bridges: bridges.saved() };
                match hand_over::run(socket, format, &self.listener, owned, switch) {
                    Ok(()) => {
                        self.handed_over = true;
                        self.listener.keep(false);
                        None
                    }
                    Err(why) => {
                        self.not_handed_over = Some(why.clone());
                        Some(Outcome::Error(why))
                    }
                }
            }
            Request::Remove { port } => {
                if let Some(owner) = self.ports.owner(&port) {
                    let why = format!("port '{port}' belongs to {owner}: remove it there");
                    return Some(Outcome::Error(why));
                }
                let outcome = answer::done(switch.remove_port(&port));
                if matches!(outcome, Outcome::Ok(_)) {
                    self.ports.forget(&port);
                    self.removed.push(port);
                }
                Some(outcome)
            }
            Request::Bridges { owner, bridges: wanted } => {
                let states = bridges.set(&owner, wanted, epoll, switch);
                Some(Outcome::Ok(answer::with_schema(json!({"bridges": states}))))
            }
            Request::Controllers => {
                Some(Outcome::Ok(answer::with_schema(json!({"controllers": bridges.controllers()}))))
            }
            Request::FlowsDump { bridge, matching } => {
                let what = What::Dump(matching.unwrap_or_default());
                Some(answer::of_flows(bridges.request(FlowsRequest { bridge, what }, switch)))
            }
            Request::FlowsChange { bridge, change, text } => {
                let text = text.map_or_else(|| sealed_text::read(file), Ok);
                let answered = text.and_then(|text| {
                    bridges.request(FlowsRequest { bridge, what: What::Change(change, text) }, switch)
                });
                Some(answer::of_flows(answered))
            }
            Request::FlowsTrace { bridge, flow, frame } => {
                let what = What::Trace(flow, frame);
                Some(answer::of_flows(bridges.request(FlowsRequest { bridge, what }, switch)))
            }
            other => Some(answer::answer(other, &mut self.ports, switch)),
        }
    }

    fn capture(
        &mut self,
        key: u64,
        port: &str,
        options: capture::Options,
        file: Option<PassedFile>,
        switch: &mut View<'_>,
    ) -> Option<Outcome> {
        let refused = |why: String| Some(Outcome::Error(why));
        self.ending.retain(Capture::runs);
        if self.running_captures() >= MOST_CAPTURES {
            return refused(format!("{MOST_CAPTURES} captures run, the most that there can be; end one"));
        }
        let Some(file) = file else { return refused("no file came with the request".to_owned()) };
        let connection = self.connections.get_mut(&key)?;
        if connection.has_subscribed() {
            return refused("this connection gets events; open another".to_owned());
        }
        if connection.capture.is_some() {
            return refused("a capture has been made on this connection; open another".to_owned());
        }
        let tell = match connection.socket().try_clone() {
            Ok(tell) => tell,
            Err(error) => return refused(format!("a second handle of the connection: {error}")),
        };
        let (copies, copied) = match switch.copy_port(port) {
            Ok(copied) => copied,
            Err(error) => return refused(error.to_string()),
        };
        match Capture::start(copies, copied, options, file, tell) {
            Ok(capture) => {
                connection.capture = Some(capture);
                None
            }
            Err(error) => {
                switch.end_copies(copies);
                refused(format!("starting a thread for the capture: {error}"))
            }
        }
    }

    fn end(&mut self, key: u64, end: &End, switch: &mut View<'_>) {
        if let (End::Told(why), Some(connection)) = (end, self.connections.get_mut(&key)) {
            let _ = connection.put(&Outcome::Error((*why).to_owned()).line());
        }
        self.close(key, switch);
    }

    /// Closes a connection. Its capture ends too; the thread writes the remaining frames.
    fn close(&mut self, key: u64, switch: &mut View<'_>) {
        if let Some(connection) = self.connections.remove(&key)
            && let Some(capture) = connection.capture
        {
            capture.stop();
            switch.end_copies(capture.copies);
            self.ending.push(capture);
        }
    }
}
