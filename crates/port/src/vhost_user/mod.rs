//! `vhost-user:` — the back-end: the network device of a guest whose rings and memory come over a socket.
//!
//! ```text
//!   link      listens, or connects again and again
//!   peer      one connection: messages in, replies out
//!   contract  what a device is, beside the protocol: the engine serves any
//!   engine    what the messages set up: features, memory, logs; events: what each message does
//!   rings     which rings run, and which of their queues are attached
//!   ring      one ring: from addresses and position to a queue, and back
//!   net       the network device: queues, offer, control queue
//!   hand_over from one process to another
//!   memory    what the front-end shares, within the port's limits
//! ```
//!
//! A front-end that goes or breaks the protocol takes along everything it brought: queues are detached,
//! memory is unmapped, descriptors are closed; then the port waits for the next. What one has used up of the
//! port's limits (lines in the log, announcements, patience with those that never get as far as a queue) is
//! used up for the next one too: to connect again resets nothing.
mod contract;
mod engine;
mod events;
mod hand_over;
mod link;
mod memory;
mod net;
mod options;
mod peer;
mod ring;
mod rings;
#[cfg(test)]
mod second_device;
mod shared;
mod spec;
mod tokens;

pub use link::Role;
pub use options::{MAX_QUEUE_PAIRS, VhostUserOptions};

use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ::memory::PeerMemory;
use vhost_user::SharedFd;
use vhost_user::session::backend::Offer;
use vhost_user::socket::{Connection, Listener, SocketError};

use deliveries::DeliveryFile;
use frame::{QueueCounters, QueueError, Side};
use virtio::Features;

use crate::{Interest, Port, PortContext, PortError, PortState, Token};
use contract::Device as _;
use link::{Link, RETRY_INTERVAL, try_connect};
use net::NetDevice;
use net::offer;
use net::port::NetShared;
use net::queue::Kind;
use peer::Peer;
use shared::Shared;
use tokens::{CHANNEL, DELIVERIES, LINK, MEMORY, PEER};

/// Connections in a row that may end before a queue has run; the next ones are accepted more and more slowly.
const FRUITLESS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Connections that are taken from the socket before others get their turn.
const ACCEPTED_AT_ONCE: u32 = 64;

/// How long a port pauses after so many connections in a row on which no queue has run.
fn pause_after(fruitless: u32) -> Option<Duration> {
    let doublings = fruitless.checked_sub(FRUITLESS + 1)?;
    Some(FIRST_PAUSE.saturating_mul(1 << doublings.min(16)).min(LONGEST_PAUSE))
}

fn watch_failed(name: &str, error: std::io::Error) -> PortError {
    PortError::new(
        format!("watch the descriptors of {name}"),
        error,
        "raise the open-files limit (ulimit -n)",
    )
}

/// Its descriptor is readable once memory is lost.
fn watch_memory(token: Token, memory: &Arc<PeerMemory>, context: &mut dyn PortContext) -> io::Result<()> {
    context.watch(token, &SharedFd::new(Arc::clone(memory)), Interest::Readable)
}

/// A back-end port.
pub struct VhostUser {
    shared: Arc<Shared>,
    net: Arc<NetShared>,
    offer: Offer,
    link: Option<Link>,
    /// Made when the port starts, and the same for all connections.
    memory: Option<Arc<PeerMemory>>,
    peer: Option<Peer<NetDevice>>,
    /// Where deliveries are noted for the process after this one.
    deliveries: Option<DeliveryFile>,
    /// Connections since the last one on which a queue ran.
    fruitless: u32,
    /// What was wrong with the last connection.
    fault: Option<String>,
    /// Another process is about to go on with it: nothing is served here.
    stands_still: bool,
    /// Why the front-end of another process cannot be gone on with, until it is let go.
    given_up: Option<String>,
}

impl VhostUser {
    /// Checks the options; nothing is opened yet.
    ///
    /// # Errors
    /// The path is too long for a socket, the number of queue pairs or the MTU is outside its range, or the
    /// processor does not support the cache policy.
    pub fn new(options: VhostUserOptions) -> Result<Self, PortError> {
        let name = format!("vhost-user:{}", options.path.display());
        let what = || format!("set up {name}");
        crate::unix_socket::check("vhost-user", &options.path)?;
        if !(1..=MAX_QUEUE_PAIRS).contains(&options.queue_pairs) {
            let why = format!("{} queue pairs", options.queue_pairs);
            return Err(PortError::new(what(), why, format!("ask for 1 to {MAX_QUEUE_PAIRS}")));
        }
        if options.mtu.is_some_and(|mtu| mtu < 68) {
            let remedy = "give one from 68 to 65535 (VIRTIO 1.3 §5.1.4.1)";
            return Err(PortError::new(what(), "the MTU is too small", remedy));
        }
        if !options.cache_policy.is_supported() {
            let why =
                format!("this processor has no instruction for cache policy {}", options.cache_policy.name());
            return Err(PortError::new(what(), why, "let it be auto (--cache-policy), or none"));
        }
        let offer = offer::offer(&options);
        let offer = offer.map_err(|error| PortError::new(what(), error, "ask for fewer queues"))?;
        let shared = Arc::new(Shared::new(name));
        let net = Arc::new(NetShared::new(options));
        Ok(VhostUser {
            shared,
            net,
            offer,
            link: None,
            memory: None,
            peer: None,
            deliveries: None,
            fruitless: 0,
            fault: None,
            stands_still: false,
            given_up: None,
        })
    }

    fn new_memory(&self, context: &mut dyn PortContext) -> Result<Arc<PeerMemory>, PortError> {
        let VhostUserOptions { memory_bytes, memory_backing, .. } = self.net.options;
        let memory =
            PeerMemory::unmapped_by(Arc::clone(self.shared.guard.files()), memory_bytes, memory_backing)
                .and_then(|memory| watch_memory(MEMORY, &memory, context).map(|()| memory))
                .map_err(|error| watch_failed(&self.shared.name, error))?;
        if let Err(error) = memory.count_files() {
            let what = "memory that front-ends keep when they are gone does not count for memory=SIZE";
            let remedy = "raise fs.inotify.max_user_instances";
            self.shared.log(context, format_args!("{what}: {error}; {remedy}"));
        }
        Ok(memory)
    }

    /// Notes deliveries from now on. Without it frames may come twice after a crash, and nothing else is different.
    fn set_deliveries(&mut self, file: io::Result<Option<DeliveryFile>>, context: &mut dyn PortContext) {
        let watched = file.and_then(|file| {
            if let Some(file) = &file {
                watch_memory(DELIVERIES, file.memory(), context)?;
            }
            Ok(file)
        });
        match watched {
            Ok(None) => {}
            Ok(Some(file)) => {
                // Unset still: a port starts once.
                let _ = self.net.deliveries.set(Arc::clone(file.area()));
                self.deliveries = Some(file);
            }
            Err(error) => {
                let what = "deliveries cannot be noted, so a frame may come twice if this switch crashes";
                self.shared.log(context, format_args!("{what}: {error}"));
            }
        }
    }

    /// The file was truncated: deliveries are noted in memory that is lost in a crash.
    fn deliveries_lost(&self, context: &mut dyn PortContext) {
        if let Some(file) = &self.deliveries
            && file.memory().take_loss().is_some()
        {
            let what = format!(
                "{} was truncated by another program: a frame may come twice if this switch crashes, until the port is \
                 started again",
                file.path().display()
            );
            self.shared.log(context, what);
        }
    }

    /// Waits for a peer, or tries again soon.
    fn wait_for_peer(&mut self, context: &mut dyn PortContext) -> Result<(), PortError> {
        match &self.link {
            Some(Link::Server(listener)) => {
                let watched = context.watch(LINK, listener.socket(), Interest::Readable);
                watched.map_err(|error| watch_failed(&self.shared.name, error))
            }
            Some(Link::Client { .. }) => {
                context.after(LINK, RETRY_INTERVAL);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Waits for a front-end, for a port that runs: tries again later if the system refuses.
    fn wait_or_retry(&mut self, context: &mut dyn PortContext) {
        if let Err(error) = self.wait_for_peer(context) {
            self.retry(error, context);
        }
    }

    fn retry(&mut self, error: impl Display, context: &mut dyn PortContext) {
        context.unwatch(LINK);
        context.after(LINK, RETRY_INTERVAL);
        self.shared.log(context, format_args!("{error}; trying again"));
    }

    /// The listening socket is readable, or it is time to try again.
    fn link_ready(&mut self, context: &mut dyn PortContext) {
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
            Some(Link::Client { told }) => match try_connect(&self.net.options.path, &self.shared.guard) {
                Ok(connection) => {
                    *told = false;
                    connection
                }
                Err(error) => {
                    if !std::mem::replace(told, true) {
                        let what = format_args!("{error}; trying again until somebody listens there");
                        self.shared.log(context, what);
                    }
                    return self.wait_or_retry(context);
                }
            },
        };
        context.unwatch(LINK);
        // What a former front-end's memory still had to say.
        memory.take_loss();
        let watched = context.watch(PEER, connection.socket(), Interest::Readable);
        if let Err(error) = watched.map_err(SocketError::watch).and_then(|()| connection.limit_unread()) {
            // This front-end has to come again.
            context.unwatch(PEER);
            return self.retry(error, context);
        }
        self.peer = Some(self.peer(connection, memory));
        self.shared.log(context, "a front-end has connected");
    }

    /// A connection at its beginning.
    fn peer(&self, connection: Connection, memory: &Arc<PeerMemory>) -> Peer<NetDevice> {
        let device = NetDevice::new(Arc::clone(&self.shared), Arc::clone(&self.net));
        Peer::new(connection, self.offer, device, Arc::clone(&self.shared), Arc::clone(memory))
    }

    /// A connection is over: says why, and waits for the next one.
    fn lost(&mut self, why: &peer::End, context: &mut dyn PortContext) {
        let Some(peer) = &self.peer else { return };
        let (ran, asked_for_pairs) = (peer.ran, peer.asked_for_pairs);
        let fault = match why {
            peer::End::Socket(SocketError::Closed) => peer.refused.clone().filter(|_| !ran),
            other => Some(other.to_string()),
        };
        // A path in it is the peer's.
        self.fault = fault.map(|fault| fault.replace(char::is_control, " "));
        self.disconnect(context);
        match why {
            peer::End::Socket(SocketError::Closed) if asked_for_pairs && !ran => {
                let pairs = self.net.options.queue_pairs;
                let what = format_args!(
                    "the front-end has disconnected before any queue ran; if it asks for more queue pairs than \
                     this port's {pairs}, start the port with queue-pairs=N; if its guest ran with another switch \
                     before, start the port with the options of that one: a running guest gives no feature up"
                );
                self.shared.log(context, what);
            }
            peer::End::Socket(SocketError::Closed) => {
                self.shared.log(context, "the front-end has disconnected");
            }
            other => self.shared.warn(context, format_args!("{other}; disconnected")),
        }
        self.fruitless = if ran { 0 } else { self.fruitless.saturating_add(1) };
        match (pause_after(self.fruitless), self.net.options.role) {
            (Some(pause), Role::Server) => context.after(LINK, pause),
            (Some(pause), Role::Client) => context.after(LINK, pause.max(RETRY_INTERVAL)),
            (None, _) => self.wait_or_retry(context),
        }
    }

    /// A queue does not come back, so its position cannot be told: the front-end is to set up everything anew.
    fn queue_lost(&mut self, name: &str, why: &QueueError, context: &mut dyn PortContext) {
        if self.peer.is_none() {
            return;
        }
        self.disconnect(context);
        let what = format_args!("{name}: {why}; disconnected: a front-end that connects again goes on");
        self.shared.log(context, what);
        self.wait_or_retry(context);
    }

    /// Lets go of the peer and of everything that it brought along.
    fn disconnect(&mut self, context: &mut dyn PortContext) {
        if let Some(mut peer) = self.peer.take() {
            peer.engine.rings.clear(context);
            context.unwatch(PEER);
            context.unwatch(CHANNEL);
        }
    }
}

/// The next front-end that is there still. Those that have gone are let go without a word, and without a pause
/// for each: a flood of them must not keep others waiting.
fn accept(listener: &Listener) -> Result<Option<Connection>, SocketError> {
    for _ in 0..ACCEPTED_AT_ONCE {
        match listener.try_accept()? {
            Some(connection) if connection.has_gone() => {}
            other => return Ok(other),
        }
    }
    Ok(None)
}

impl Port for VhostUser {
    fn queue_pairs(&self) -> u16 {
        self.net.options.queue_pairs
    }

    fn describe(&self) -> String {
        let waits = match (&self.peer, self.net.options.role) {
            (Some(peer), _) => return format!("{}, {}", &self.shared.name, peer.describe()),
            (None, Role::Server) => "waits for a front-end to connect",
            (None, Role::Client) => "waits for a front-end to listen",
        };
        let fault = self.fault.as_ref().map(|fault| format!("; what was wrong with the last one: {fault}"));
        format!("{}, {waits}{}", &self.shared.name, fault.unwrap_or_default())
    }

    fn features(&self) -> Option<Features> {
        self.peer.as_ref().map(|peer| peer.engine.features)
    }

    fn counters(&self, pair: u16, side: Side) -> Option<Arc<QueueCounters>> {
        self.net.counters(pair, side).cloned()
    }

    fn start(&mut self, context: &mut dyn PortContext) -> Result<(), PortError> {
        self.memory = Some(self.new_memory(context)?);
        let path = &self.net.options.path.clone();
        self.link = Some(match self.net.options.role {
            Role::Server => {
                Link::Server(Listener::bind_with(path, Some(self.shared.guard())).map_err(|error| {
                    let remedy = "give a path that you may create and that nobody else listens on";
                    PortError::new(format!("open {}", &self.shared.name), error, remedy)
                })?)
            }
            Role::Client => Link::Client { told: false },
        });
        self.set_deliveries(DeliveryFile::open(path, self.net.options.queue_pairs), context);
        match self.net.options.role {
            Role::Server => self.wait_for_peer(context),
            Role::Client => {
                self.link_ready(context);
                Ok(())
            }
        }
    }

    fn ready(&mut self, token: Token, context: &mut dyn PortContext) -> Result<(), PortError> {
        if self.stands_still {
            return Ok(());
        }
        if token == LINK {
            match self.given_up.take() {
                Some(why) => self.lost(&peer::End::NotHandedOver(why), context),
                None => self.link_ready(context),
            }
            return self.shared.guard.check(&self.shared.name);
        }
        if token == DELIVERIES {
            self.deliveries_lost(context);
            return Ok(());
        }
        let loss = self.memory.as_ref().filter(|_| token == MEMORY).and_then(|memory| memory.take_loss());
        let Some(peer) = &mut self.peer else { return Ok(()) };
        let outcome = match token {
            MEMORY => loss.map_or(Ok(()), |loss| Err(peer::End::MemoryLost(loss))),
            PEER => peer.serve(context),
            CHANNEL => peer.channel_ready(context),
            token => tokens::kicked(token).map_or(Ok(()), |index| peer.kicked(index, context)),
        };
        if let Err(why) = outcome {
            self.lost(&why, context);
        }
        self.shared.guard.check(&self.shared.name)
    }

    fn stopped(&mut self, pair: u16, side: Side, why: QueueError, context: &mut dyn PortContext) {
        let kind = Kind::Data(pair, side);
        let name = NetDevice::name(kind);
        if let QueueError::Lost(_) = why {
            return self.queue_lost(&name, &why, context);
        }
        if let Some(peer) = &mut self.peer {
            self.shared.warn(context, format_args!("{name}: {why}; reset the device"));
            peer.queue_broke(kind);
        }
    }

    fn hand_over(&mut self, context: &mut dyn PortContext) -> Result<Option<PortState>, PortError> {
        self.stand_still(context).map(Some)
    }

    fn resume(&mut self, context: &mut dyn PortContext) {
        self.go_on(context);
    }

    fn take_over(&mut self, state: PortState, context: &mut dyn PortContext) -> Result<(), PortError> {
        self.go_on_from(state, context)
    }

    fn leave(&mut self) {
        if let Some(peer) = self.peer.take() {
            peer.leave();
        }
        if let Some(Link::Server(listener)) = self.link.take() {
            listener.leave();
        }
        if let Some(deliveries) = self.deliveries.take() {
            deliveries.leave();
        }
    }

    fn end(&mut self, context: &mut dyn PortContext) {
        self.disconnect(context);
        context.unwatch(LINK);
        context.unwatch(MEMORY);
        context.unwatch(DELIVERIES);
        self.deliveries = None;
        // Closes the listening socket and removes its path; who listens there next makes the file anew.
        self.link = None;
    }
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
