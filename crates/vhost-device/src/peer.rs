//! One connection, from its first message to its end.
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use memory::{Loss, PeerMemory};
use vhost_user::SharedFd;
use vhost_user::bits::ProtocolFeatures;
use vhost_user::codec::Message;
use vhost_user::codec::backend_request::BackendRequest;
use vhost_user::codec::frontend_request::FrontendRequest;
use vhost_user::session::SessionError;
use vhost_user::session::backend::{BackendSession, Offer, Received};
use vhost_user::socket::{Connection, SocketError};
use virtio::Features;

use crate::device::Device;
use crate::engine::Engine;
use crate::events::Acted;
use crate::shared::Shared;
use crate::tokens::{CHANNEL, PEER};
use crate::turn::Turn;
use crate::{Context as _, Interest};

/// From one look at whether memory of this device is still being unmapped to the next.
const UNMAP_INTERVAL: Duration = Duration::from_millis(1);

/// Why a connection has ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum End {
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error("{}", crate::shared_memory::lost(.0))]
    MemoryLost(Loss),
    #[error(
        "the front-end cannot be gone on with: {0}; it is to connect again, and loses what its guest has under way"
    )]
    NotHandedOver(String),
    #[error("cannot watch the socket: {0}")]
    Watch(#[from] std::io::Error),
    /// A queue was lost with its worker, so its position is unknown.
    #[error("{0}: lost: its worker does not give it back")]
    QueueLost(String),
}

pub(crate) struct Peer<D: Device> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) connection: Connection,
    /// Whether replies wait for the front-end to read.
    blocked: bool,
    /// Whether the socket is unwatched because memory is being unmapped.
    waits: bool,
    pub(crate) session: BackendSession,
    pub engine: Engine<D>,
    pub(crate) channel: Option<Connection>,
    /// Whether a queue has run.
    pub ran: bool,
    /// The last refused request, and the reason.
    pub refused: Option<String>,
    /// Whether the front-end has asked for the number of queues.
    pub asked_for_queues: bool,
}

impl<D: Device> Peer<D> {
    pub fn new(
        connection: Connection,
        offer: Offer,
        device: D,
        shared: Arc<Shared>,
        memory: Arc<PeerMemory>,
    ) -> Self {
        Peer {
            connection,
            blocked: false,
            waits: false,
            session: BackendSession::new(offer),
            engine: Engine::new(device, Arc::clone(&shared), memory),
            shared,
            channel: None,
            ran: false,
            refused: None,
            asked_for_queues: false,
        }
    }

    /// Called when the socket is ready. Sends waiting messages and serves received ones, for one turn.
    ///
    /// # Errors
    /// The front-end has closed the socket or broken the protocol, a request was refused that has no error reply, a
    /// worker does not return a queue, or a descriptor cannot be watched. The connection must be closed.
    pub fn serve(&mut self, context: &mut D::Context<'_>) -> Result<(), End> {
        let turn = Turn::begin();
        let mut sent_all = self.connection.flush()?;
        if std::mem::take(&mut self.waits) {
            context.watch(PEER, self.connection.socket(), Interest::Readable)?;
            self.blocked = false;
        }
        // A front-end that does not read its answers is not read from either: each answer may hold descriptors and
        // memory.
        while sent_all && !turn.is_over() {
            // Memory counts until it is unmapped, so a front-end that shares much again and again waits.
            if !self.shared.guard.files().is_idle() {
                context.unwatch(PEER);
                context.after(PEER, UNMAP_INTERVAL);
                self.waits = true;
                break;
            }
            let Some(message) = self.connection.try_receive()? else { break };
            self.asked_for_queues |= message.header.id == FrontendRequest::GetQueueNum.id();
            if let Some(reply) = self.step(message, context)? {
                sent_all = self.connection.try_send(reply)?;
            }
        }
        self.ran |= self.engine.rings.iter().next().is_some();
        if self.waits {
            return Ok(());
        }
        if self.blocked == sent_all {
            self.blocked = !sent_all;
            let interest = if sent_all { Interest::Readable } else { Interest::Writable };
            context.watch(PEER, self.connection.socket(), interest)?;
        }
        Ok(())
    }

    /// Handles one message; returns the message to send.
    fn step(&mut self, message: Message, context: &mut D::Context<'_>) -> Result<Option<Message>, End> {
        match self.session.receive(message)? {
            Received::Nothing => Ok(None),
            Received::Reply(reply) => Ok(Some(reply)),
            Received::Rejected(reply, violation) => {
                self.refuse(violation.to_string(), context);
                Ok(Some(reply))
            }
            Received::Event(event) => {
                let acted = self.engine.act(event, &mut self.session, context)?;
                let Acted { sent, channel, config_changed } = acted;
                self.check_queues()?;
                if let Some((message, reason)) = &sent.refused {
                    self.refuse(format!("{message}: {reason}"), context);
                }
                if let Some(socket) = channel {
                    self.open_channel(socket, context)?;
                }
                if config_changed {
                    self.config_changed();
                }
                Ok(sent.reply)
            }
        }
    }

    fn refuse(&mut self, refused: String, context: &mut D::Context<'_>) {
        self.shared.log.warn(context, format_args!("the front-end was told no: {refused}"));
        self.refused = Some(refused);
    }

    /// Handles a message that another process has answered before.
    pub(crate) fn repeat(&mut self, message: Message, context: &mut D::Context<'_>) -> Result<(), String> {
        match self.session.receive(message).map_err(|error| error.to_string())? {
            Received::Nothing | Received::Reply(_) => Ok(()),
            Received::Rejected(_, violation) => Err(violation.to_string()),
            Received::Event(event) => {
                let acted = self.engine.act(event, &mut self.session, context);
                let Acted { sent, channel, .. } = acted.map_err(|error| error.to_string())?;
                if let Some((message, reason)) = sent.refused {
                    return Err(format!("{message}: {reason}"));
                }
                channel.map_or(Ok(()), |socket| {
                    self.open_channel(socket, context).map_err(|error| error.to_string())
                })
            }
        }
    }

    /// Watches the sockets again, after an interruption.
    pub(crate) fn watch_again(&mut self, context: &mut D::Context<'_>) -> std::io::Result<()> {
        if let Some(channel) = &self.channel {
            context.watch(CHANNEL, channel.socket(), Interest::Readable)?;
        }
        // Waiting messages are sent first; then the peer is read again.
        self.blocked = true;
        context.watch(PEER, self.connection.socket(), Interest::Writable)
    }

    fn open_channel(&mut self, socket: SharedFd, context: &mut D::Context<'_>) -> Result<(), End> {
        context.unwatch(CHANNEL);
        let channel = self.channel.insert(socket.into());
        channel.set_filter(self.shared.guard());
        Ok(context.watch(CHANNEL, channel.socket(), Interest::Readable)?)
    }

    /// Called when the socket of the back-end's requests is readable. If the front-end closes this socket, the
    /// connection continues.
    ///
    /// # Errors
    /// A reply of the front-end breaks the protocol. The connection must be closed.
    pub fn channel_ready(&mut self, context: &mut D::Context<'_>) -> Result<(), End> {
        let turn = Turn::begin();
        while !turn.is_over() {
            let Some(channel) = &mut self.channel else { return Ok(()) };
            match channel.try_receive() {
                Ok(None) => return Ok(()),
                Ok(Some(message)) => {
                    let acknowledged = self.session.receive_on_channel(message)?;
                    if !acknowledged.success {
                        let request = acknowledged.request;
                        self.shared.log.warn(context, format_args!("the front-end refused {request}"));
                    }
                }
                Err(error) => {
                    context.unwatch(CHANNEL);
                    self.channel = None;
                    if !matches!(error, SocketError::Closed) {
                        let what = "socket of the back-end's requests";
                        self.shared.log.warn(context, format_args!("{what}: {error}"));
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Tells the front-end that the configuration or the status has changed, if there is a way to.
    fn config_changed(&mut self) {
        if !self.session.agreed().protocol.contains(ProtocolFeatures::CONFIG) {
            return;
        }
        let Some(channel) = &mut self.channel else { return };
        let Ok(message) = self.session.request(BackendRequest::ConfigChange, vec![]) else { return };
        // A front-end that does not read its channel misses the news; it is not worth the connection.
        let _ = channel.try_send(message);
    }

    /// Checks that no queue was lost with its worker.
    ///
    /// # Errors
    /// A worker did not return a queue, so its state is unknown. The connection must be closed.
    pub fn check_queues(&mut self) -> Result<(), End> {
        self.engine.rings.take_lost().map_or(Ok(()), |kind| Err(End::QueueLost(D::name(kind))))
    }

    /// Called after a queue has stopped by itself.
    pub fn queue_broke(&mut self, kind: D::Kind) {
        self.engine.broke(kind);
        // NEEDS_RESET is announced by a configuration change (VIRTIO 1.3 §2.1.2).
        self.config_changed();
    }

    /// Called when a ring that the control thread serves was kicked.
    ///
    /// # Errors
    /// The causes of [`Peer::check_queues`]. A malformed ring is no error here: the device then needs a reset.
    pub fn kicked(&mut self, index: usize, context: &mut D::Context<'_>) -> Result<(), End> {
        if let Err((kind, error)) = self.engine.serve(index, context) {
            self.shared.log.warn(context, format_args!("{}: {error}; reset the device", D::name(kind)));
            self.queue_broke(kind);
        }
        self.check_queues()
    }

    /// The state of the connection, in one line of text.
    pub fn describe(&self) -> String {
        describe(&self.engine)
    }
}

/// The state of a device with a driver, in one line of text.
pub(crate) fn describe<D: Device>(engine: &Engine<D>) -> String {
    Standing(engine).to_string()
}

/// A connected device in words.
struct Standing<'a, D: Device>(&'a Engine<D>);

impl<D: Device> fmt::Display for Standing<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engine = self.0;
        let running: Vec<_> = engine.rings.iter().map(|(_, ring)| ring).collect();
        let Some(first) = running.first() else { return write!(f, "connected, no queue runs yet") };
        write!(f, "connected, {}", first.config.layout.name())?;
        for (feature, word) in [
            (Features::IN_ORDER, "in order"),
            (Features::RING_EVENT_IDX, "event index"),
            (Features::RING_INDIRECT_DESC, "indirect"),
            (Features::VHOST_LOG_ALL, "pages logged"),
        ] {
            if engine.features.contains(feature) {
                write!(f, ", {word}")?;
            }
        }
        for word in engine.device.words() {
            write!(f, ", {word}")?;
        }
        write!(f, "; {} queues run", running.len())?;
        for (count, what) in [
            (running.iter().filter(|ring| !ring.enabled).count(), "disabled"),
            (running.iter().filter(|ring| ring.broken).count(), "malformed and stopped"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        let mut sizes: Vec<u16> = running.iter().map(|ring| ring.config.size.get()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let sizes: Vec<String> = sizes.iter().map(u16::to_string).collect();
        write!(f, ", size {}", sizes.join(" and "))
    }
}
