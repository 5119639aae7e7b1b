//! A device that front-ends connect to, with the state that is kept between connections.
//!
//! When a front-end disconnects or breaks the protocol, everything that it brought is released: queues are detached,
//! memory is unmapped, descriptors are closed. Then the device waits for the next front-end. Limits are shared by
//! successive front-ends: used log lines, and failed connections, are not reset by connecting again.
mod hand_over;

use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use memory::{Backing, PeerMemory};
use vhost_user::SharedFd;
use vhost_user::session::backend::Offer;
use vhost_user::socket::{Connection, Listener, SocketError};
use virtio::Features;

use crate::device::Device;
use crate::link::{Link, RETRY_INTERVAL, Role, try_connect};
use crate::log::Log;
use crate::peer::{End, Peer};
use crate::shared::Shared;
use crate::shared_memory::DEFAULT_LIMIT_BYTES;
use crate::tokens::{self, CHANNEL, LINK, MEMORY, PEER};
use crate::{Context, DeviceError, Interest, Token, offer, unix_socket};

/// Connections in a row that may end before a queue has run; the next ones are accepted more and more slowly.
const FRUITLESS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Connections that are taken from the socket before others get their turn.
const ACCEPTED_AT_ONCE: u32 = 64;

/// The pause of a device after `fruitless` connections in a row on which no queue has run.
pub fn pause_after(fruitless: u32) -> Option<Duration> {
    let doublings = fruitless.checked_sub(FRUITLESS + 1)?;
    Some(FIRST_PAUSE.saturating_mul(1 << doublings.min(16)).min(LONGEST_PAUSE))
}

fn watch_failed(name: &str, error: std::io::Error) -> DeviceError {
    DeviceError::new(
        format!("watch the descriptors of {name}"),
        error,
        "raise the open-files limit (ulimit -n)",
    )
}

/// Watches the descriptor that becomes readable when memory is lost. The device is then called with this token.
///
/// # Errors
/// The system refuses to watch the memory.
pub fn watch_memory(
    token: Token,
    memory: &Arc<PeerMemory>,
    context: &mut (impl Context + ?Sized),
) -> io::Result<()> {
    context.watch(token, &SharedFd::new(Arc::clone(memory)), Interest::Readable)
}

/// Prepares the memory of one device's front-ends. The device is called with this token when memory is lost. Files that
/// front-ends keep count too; the log says if the system does not allow that.
///
/// # Errors
/// `memory` was refused, or the system refuses to watch it.
pub fn new_memory(
    token: Token,
    log: &Log,
    memory: io::Result<Arc<PeerMemory>>,
    context: &mut (impl Context + ?Sized),
) -> Result<Arc<PeerMemory>, DeviceError> {
    let memory = memory
        .and_then(|memory| watch_memory(token, &memory, context).map(|()| memory))
        .map_err(|error| watch_failed(log.name(), error))?;
    if let Err(error) = memory.count_files() {
        let what = "memory that front-ends keep when they are gone does not count for memory=SIZE";
        let remedy = "raise fs.inotify.max_user_instances";
        log.log(context, format_args!("{what}: {error}; {remedy}"));
    }
    Ok(memory)
}

/// The options of a back-end. [`BackendOptions::new`] has the defaults.
#[derive(Clone, Debug)]
pub struct BackendOptions {
    /// Path of the socket.
    pub path: PathBuf,
    /// Who listens.
    pub role: Role,
    /// Bytes of memory that a front-end may share: regions, log and in-flight buffer. While one table of regions
    /// replaces another, both are mapped.
    pub memory_bytes: u64,
    /// The kinds of file that a front-end may share as memory. Files of network and FUSE file systems are always
    /// refused, before any call that such a file system would have to answer.
    pub memory_backing: Backing,
}

impl BackendOptions {
    /// Listening.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        BackendOptions {
            path: path.into(),
            role: Role::Server,
            memory_bytes: DEFAULT_LIMIT_BYTES,
            memory_backing: Backing::Ram,
        }
    }
}

/// A device behind a socket. One thread calls all of its methods, with the same context.
pub struct Backend<D: Device> {
    shared: Arc<Shared>,
    options: BackendOptions,
    /// The device at the beginning of each connection.
    device: D,
    offer: Offer,
    link: Option<Link>,
    /// The memory, which is made at the start and is the same for all connections.
    memory: Option<Arc<PeerMemory>>,
    peer: Option<Peer<D>>,
    /// The number of connections since the last one on which a queue ran.
    fruitless: u32,
    /// The fault of the last connection.
    fault: Option<String>,
    /// Whether another process is about to take over. Nothing is served here then.
    stands_still: bool,
    /// Why the connection of another process cannot be continued. Kept until that connection is released.
    given_up: Option<String>,
}

impl<D: Device> Backend<D> {
    /// Checks the options; nothing is opened yet. The device may use the log too, for its own lines.
    ///
    /// # Errors
    /// The path is too long for a socket, or the device has more queues than the protocol can number.
    pub fn new(device: D, log: Arc<Log>, options: BackendOptions) -> Result<Self, DeviceError> {
        unix_socket::check("vhost-user", &options.path)?;
        let offer = offer::of(&device).map_err(|error| {
            DeviceError::new(format!("set up {}", log.name()), error, "ask for fewer queues")
        })?;
        Ok(Backend {
            shared: Arc::new(Shared::new(log)),
            options,
            device,
            offer,
            link: None,
            memory: None,
            peer: None,
            fruitless: 0,
            fault: None,
            stands_still: false,
            given_up: None,
        })
    }

    /// The options of the back-end.
    pub fn options(&self) -> &BackendOptions {
        &self.options
    }

    fn new_memory(&self, context: &mut D::Context<'_>) -> Result<Arc<PeerMemory>, DeviceError> {
        let BackendOptions { memory_bytes, memory_backing, .. } = self.options;
        let Shared { log, guard, .. } = &*self.shared;
        new_memory(
            MEMORY,
            log,
            PeerMemory::unmapped_by(Arc::clone(guard.files()), memory_bytes, memory_backing),
            context,
        )
    }

    /// Waits for a peer, or tries again soon.
    fn wait_for_peer(&mut self, context: &mut D::Context<'_>) -> Result<(), DeviceError> {
        match &self.link {
            Some(Link::Server(listener)) => {
                let watched = context.watch(LINK, listener.socket(), Interest::Readable);
                watched.map_err(|error| watch_failed(self.shared.log.name(), error))
            }
            Some(Link::Client { .. }) => {
                context.after(LINK, RETRY_INTERVAL);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Waits for a front-end, for a device that runs: tries again later if the system refuses.
    fn wait_or_retry(&mut self, context: &mut D::Context<'_>) {
        if let Err(error) = self.wait_for_peer(context) {
            self.retry(error, context);
        }
    }

    fn retry(&mut self, error: impl Display, context: &mut D::Context<'_>) {
        context.unwatch(LINK);
        context.after(LINK, RETRY_INTERVAL);
        self.shared.log.log(context, format_args!("{error}; trying again"));
    }

    /// The listening socket is readable, or it is time to try again.
    fn link_ready(&mut self, context: &mut D::Context<'_>) {
        if self.peer.is_some() {
            return;
        }
        let Some(memory) = &self.memory else { return };
        let connection = match &mut self.link {
            None => return,
            Some(Link::Server(listener)) => match accept(listener) {
                Ok(Some(connection)) => connection,
                Ok(None) => return self.wait_or_retry(context),
                // Out of descriptors, as a rule. The peer stays: look again later.
                Err(error) => return self.retry(error, context),
            },
            Some(Link::Client { told }) => match try_connect(&self.options.path, &self.shared.guard) {
                Ok(connection) => {
                    *told = false;
                    connection
                }
                Err(error) => {
                    if !std::mem::replace(told, true) {
                        let what = format_args!("{error}; trying again until a server listens there");
                        self.shared.log.log(context, what);
                    }
                    return self.wait_or_retry(context);
                }
            },
        };
        context.unwatch(LINK);
        // Discards the losses of a former front-end's memory.
        memory.take_loss();
        let watched = context.watch(PEER, connection.socket(), Interest::Readable);
        if let Err(error) = watched.map_err(SocketError::watch).and_then(|()| connection.limit_unread()) {
            // This front-end must connect again.
            context.unwatch(PEER);
            return self.retry(error, context);
        }
        self.peer = Some(self.peer(connection, memory));
        self.shared.log.log(context, "a front-end has connected");
    }

    /// A connection at its beginning.
    fn peer(&self, connection: Connection, memory: &Arc<PeerMemory>) -> Peer<D> {
        let device = self.device.clone();
        Peer::new(connection, self.offer, device, Arc::clone(&self.shared), Arc::clone(memory))
    }

    /// A connection is over: says why, and waits for the next one.
    fn lost(&mut self, why: &End, context: &mut D::Context<'_>) {
        let Some(peer) = &self.peer else { return };
        let ran = peer.ran;
        // Told to those alone that may have missed queues.
        let advice = peer.asked_for_queues.then(|| self.device.advice()).flatten().filter(|_| !ran);
        let fault = match why {
            End::Socket(SocketError::Closed) => peer.refused.clone().filter(|_| !ran),
            other => Some(other.to_string()),
        };
        // A path in it is the peer's.
        self.fault = fault.map(|fault| fault.replace(char::is_control, " "));
        let summary = peer.engine.device.summary().map_or_else(String::new, |said| format!("; {said}"));
        self.disconnect(context);
        match (why, advice) {
            (End::Socket(SocketError::Closed), Some(advice)) => {
                let what = "the front-end has disconnected before any queue ran";
                self.shared.log.log(context, format_args!("{what}; {advice}{summary}"));
            }
            (End::Socket(SocketError::Closed), None) => {
                self.shared.log.log(context, format_args!("the front-end has disconnected{summary}"));
            }
            (other, _) => self.shared.log.warn(context, format_args!("{other}; disconnected{summary}")),
        }
        self.fruitless = if ran { 0 } else { self.fruitless.saturating_add(1) };
        match (pause_after(self.fruitless), self.options.role) {
            (Some(pause), Role::Server) => context.after(LINK, pause),
            (Some(pause), Role::Client) => context.after(LINK, pause.max(RETRY_INTERVAL)),
            (None, _) => self.wait_or_retry(context),
        }
    }

    /// Lets go of the peer and of everything that it brought along.
    fn disconnect(&mut self, context: &mut D::Context<'_>) {
        if let Some(mut peer) = self.peer.take() {
            peer.engine.rings.clear(context);
            context.unwatch(PEER);
            context.unwatch(CHANNEL);
        }
    }

    /// The kind and state of the device in one line of text: name, whether connected, features.
    pub fn describe(&self) -> String {
        let waits = match (&self.peer, self.options.role) {
            (Some(peer), _) => return format!("{}, {}", self.shared.log.name(), peer.describe()),
            (None, Role::Server) => "waits for a front-end to connect",
            (None, Role::Client) => "waits for a front-end to listen",
        };
        let fault = self.fault.as_ref().map(|fault| format!("; what was wrong with the last one: {fault}"));
        format!("{}, {waits}{}", self.shared.log.name(), fault.unwrap_or_default())
    }

    /// Features agreed on with the front-end, if there is one.
    pub fn features(&self) -> Option<Features> {
        self.peer.as_ref().map(|peer| peer.engine.features)
    }

    /// Starts the device: listens, or connects as soon as a front-end listens.
    ///
    /// # Errors
    /// The socket cannot be made or watched; nothing is started.
    pub fn start(&mut self, context: &mut D::Context<'_>) -> Result<(), DeviceError> {
        self.memory = Some(self.new_memory(context)?);
        let path = &self.options.path.clone();
        self.link = Some(match self.options.role {
            Role::Server => {
                Link::Server(Listener::bind_with(path, Some(self.shared.guard())).map_err(|error| {
                    let remedy = "give a path that you may create and at which no other process listens";
                    DeviceError::new(format!("open {}", self.shared.log.name()), error, remedy)
                })?)
            }
            Role::Client => Link::Client { told: false },
        });
        match self.options.role {
            Role::Server => self.wait_for_peer(context),
            Role::Client => {
                self.link_ready(context);
                Ok(())
            }
        }
    }

    /// Called when a watched descriptor is ready, or when a timer has expired.
    ///
    /// # Errors
    /// The device cannot continue and must be ended. Mistakes of a front-end are not errors of the device.
    pub fn ready(&mut self, token: Token, context: &mut D::Context<'_>) -> Result<(), DeviceError> {
        if self.stands_still {
            return Ok(());
        }
        if token == LINK {
            match self.given_up.take() {
                Some(why) => self.lost(&End::NotHandedOver(why), context),
                None => self.link_ready(context),
            }
            return self.shared.guard.check(self.shared.log.name());
        }
        let loss = self.memory.as_ref().filter(|_| token == MEMORY).and_then(|memory| memory.take_loss());
        let Some(peer) = &mut self.peer else { return Ok(()) };
        let outcome = match token {
            MEMORY => loss.map_or(Ok(()), |loss| Err(End::MemoryLost(loss))),
            PEER => peer.serve(context),
            CHANNEL => peer.channel_ready(context),
            token => tokens::kicked(token).map_or(Ok(()), |index| peer.kicked(index, context)),
        };
        if let Err(why) = outcome {
            self.lost(&why, context);
        }
        self.shared.guard.check(self.shared.log.name())
    }

    /// Called after a queue of this kind has stopped by itself and was detached. Asks its front-end to reset the
    /// device.
    pub fn queue_stopped(&mut self, kind: D::Kind, why: &dyn Display, context: &mut D::Context<'_>) {
        if let Some(peer) = &mut self.peer {
            self.shared.log.warn(context, format_args!("{}: {why}; reset the device", D::name(kind)));
            peer.queue_broke(kind);
        }
    }

    /// Called when a thread does not return a queue of this kind. The queue's position is then unknown, so the
    /// front-end must set up everything anew.
    pub fn queue_lost(&mut self, kind: D::Kind, why: &dyn Display, context: &mut D::Context<'_>) {
        if self.peer.is_none() {
            return;
        }
        self.disconnect(context);
        let what = "disconnected: a front-end that connects again continues";
        self.shared.log.log(context, format_args!("{}: {why}; {what}", D::name(kind)));
        self.wait_or_retry(context);
    }

    /// Gives up all that [`Backend::hand_over`] has passed to another process, without notifying the front-end.
    pub fn leave(&mut self) {
        if let Some(peer) = self.peer.take() {
            peer.leave();
        }
        if let Some(Link::Server(listener)) = self.link.take() {
            listener.leave();
        }
    }

    /// Ends the device: detaches all queues and removes the socket.
    pub fn end(&mut self, context: &mut D::Context<'_>) {
        self.disconnect(context);
        context.unwatch(LINK);
        context.unwatch(MEMORY);
        // Closes the listening socket and removes its path; the next process that listens there makes the file again.
        self.link = None;
    }
}

/// The next front-end whose connection is open. A closed connection is dropped without a log line and without a pause:
/// a flood of them must not delay other front-ends.
fn accept(listener: &Listener) -> Result<Option<Connection>, SocketError> {
    for _ in 0..ACCEPTED_AT_ONCE {
        match listener.try_accept()? {
            Some(connection) if connection.has_gone() => {}
            other => return Ok(other),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_second() {
        let pauses: Vec<_> =
            (0..20).map(|count| pause_after(count).unwrap_or_default().as_millis()).collect();
        assert_eq!(pauses[..14], [0, 0, 0, 0, 0, 10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        assert_eq!(pause_after(u32::MAX), Some(LONGEST_PAUSE));
    }
}
