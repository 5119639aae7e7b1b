//! One connection of a front-end, with a device of its own: messages in, replies out.
use std::sync::Arc;
use std::time::Duration;

use memory::{Loss, PeerMemory};
use vhost_device::descriptors::DescriptorGuard;
use vhost_device::{Context, EventFd, Interest, Log, Token, Turn, memory_lost, not_offered};
use vhost_user::SharedFd;
use vhost_user::bits::ProtocolFeatures;
use vhost_user::codec::Message;
use vhost_user::session::backend::{
    BackendSession, Event, Kick, Offer, OfferError, Received, Sent, StateChannel,
};
use vhost_user::session::{Outcome, Refusal, SessionError};
use vhost_user::socket::{Connection, SocketError};

use crate::hardware::Hardware;
use crate::mapped::{GuestMemory, Table};
use crate::rings::{NewRing, NotStopped, QUEUES, Rings, State};

/// The first of the tokens of rings that the relay serves, two for each.
pub(crate) const RINGS: u32 = 16;

/// The tokens of a ring's two eventfds.
fn ring_tokens(index: usize) -> [Token; 2] {
    [0, 1].map(|end| Token(RINGS + 2 * index as u32 + end))
}

/// From one look at whether memory is still being unmapped to the next.
const UNMAP_INTERVAL: Duration = Duration::from_millis(1);

/// No region of requests in flight, which devices do not keep, and no host notifiers
/// (docs/decisions/doorbells-of-a-relay.md).
const PROTOCOL: ProtocolFeatures = ProtocolFeatures::REPLY_ACK
    .union(ProtocolFeatures::LOG_SHMFD)
    .union(ProtocolFeatures::CONFIGURE_MEM_SLOTS)
    .union(ProtocolFeatures::RESET_DEVICE);

/// Why a connection has ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum End {
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error("{}", memory_lost(.0))]
    MemoryLost(Loss),
    #[error("{0}")]
    NotMapped(String),
    #[error(transparent)]
    NotStopped(#[from] NotStopped),
    #[error("the vDPA device is gone; front-ends can connect again when it is back")]
    DeviceGone,
    #[error("cannot watch a descriptor: {0}")]
    Watch(#[from] std::io::Error),
}

/// A front-end and its device.
pub(crate) struct FrontEnd {
    connection: Connection,
    session: BackendSession,
    rings: Rings,
    memory: GuestMemory,
    // The last field: the device ends after the rings and the memory are no longer used.
    hardware: Hardware,
    /// Whether the device has run.
    pub ran: bool,
}

impl FrontEnd {
    /// # Errors
    /// Never for one queue pair.
    pub fn new(
        connection: Connection,
        hardware: Hardware,
        memory: &Arc<PeerMemory>,
    ) -> Result<Self, OfferError> {
        let offer = Offer::new(hardware.offered(), PROTOCOL, QUEUES as u16)?;
        Ok(FrontEnd {
            connection,
            session: BackendSession::new(offer),
            rings: Rings::default(),
            memory: GuestMemory::new(Arc::clone(memory)),
            hardware,
            ran: false,
        })
    }

    pub fn socket(&self) -> &SharedFd {
        self.connection.socket()
    }

    /// Called when the socket is ready. Sends waiting messages and serves received ones, for one turn.
    ///
    /// # Errors
    /// The connection must be closed.
    pub fn serve(
        &mut self,
        token: Token,
        guard: &DescriptorGuard,
        log: &Log,
        context: &mut dyn Context,
    ) -> Result<(), End> {
        let turn = Turn::begin();
        let mut sent_all = self.connection.flush()?;
        while sent_all && !turn.is_over() {
            // Memory counts until it is unmapped, so a front-end that shares much again and again waits.
            if !guard.files().is_idle() {
                context.unwatch(token);
                context.after(token, UNMAP_INTERVAL);
                return Ok(());
            }
            let Some(message) = self.connection.try_receive()? else { break };
            if let Some(reply) = self.step(message, log, context)? {
                sent_all = self.connection.try_send(reply)?;
            }
        }
        let interest = if sent_all { Interest::Readable } else { Interest::Writable };
        Ok(context.watch(token, self.connection.socket(), interest)?)
    }

    /// Handles one message; returns the message to send.
    fn step(
        &mut self,
        message: Message,
        log: &Log,
        context: &mut dyn Context,
    ) -> Result<Option<Message>, End> {
        match self.session.receive(message)? {
            Received::Nothing => Ok(None),
            Received::Reply(reply) => Ok(Some(reply)),
            Received::Rejected(reply, violation) => {
                log.warn(context, format_args!("request rejected: {violation}"));
                Ok(Some(reply))
            }
            Received::Event(event) => {
                let was = self.rings.state();
                let Sent { reply, refused } = self.act(event)?;
                if let Some((message, reason)) = refused {
                    log.warn(context, format_args!("request rejected: {message}: {reason}"));
                }
                let is = self.rings.state();
                if is != was {
                    self.ran |= is != State::Stopped;
                    log.log(context, is);
                }
                self.watch_rings(context)?;
                Ok(reply)
            }
        }
    }

    /// Checks that the device is still there.
    ///
    /// # Errors
    /// The device is gone. The connection and the device must be closed.
    pub fn check(&self) -> Result<(), End> {
        if self.hardware.is_there() { Ok(()) } else { Err(End::DeviceGone) }
    }

    /// The eventfd that the kernel signals when the device's status has changed.
    pub fn changed(&self) -> &EventFd {
        self.hardware.changed()
    }

    /// Called when the device's status has changed. A device that needs a reset serves no ring: the front-end learns it
    /// by the rings' eventfds for errors, and resets the device when its guest does.
    pub fn note_status(&self, log: &Log, context: &mut dyn Context) {
        if self.hardware.needs_reset() && self.rings.state() != State::Stopped {
            self.rings.signal_errors();
            log.warn(
                context,
                "the device serves no ring until it is reset: it met a malformed ring of the guest, or it has failed; \
                 reset the guest's device",
            );
        }
    }

    /// Watches the eventfds of the rings that the relay serves, if they have changed.
    fn watch_rings(&mut self, context: &mut dyn Context) -> std::io::Result<()> {
        if !self.rings.take_rewatch() {
            return Ok(());
        }
        for index in 0..QUEUES {
            for (end, token) in ring_tokens(index).into_iter().enumerate() {
                match self.rings.watched(index) {
                    Some(watched) => context.watch(token, watched[end].shared(), Interest::Readable)?,
                    None => context.unwatch(token),
                }
            }
        }
        Ok(())
    }

    /// Called when an eventfd of a ring is ready that the relay serves.
    ///
    /// # Errors
    /// The eventfds cannot be watched. The connection must be closed.
    pub fn serve_rings(&mut self, log: &Log, context: &mut dyn Context) -> Result<(), End> {
        for (index, broken) in self.rings.run() {
            log.warn(context, format_args!("queue {index} is stopped: {broken}; reset the guest's device"));
        }
        Ok(self.watch_rings(context)?)
    }

    /// Stops watching the eventfds of rings.
    pub fn unwatch_rings(context: &mut dyn Context) {
        (0..QUEUES).flat_map(ring_tokens).for_each(|token| context.unwatch(token));
    }

    /// Carries out an event and answers it.
    fn act(&mut self, event: Event) -> Result<Sent, End> {
        let FrontEnd { session, rings, memory, hardware, .. } = self;
        let sent = match event {
            Event::FeaturesSet { features, done } => {
                session.answer(done, rings.set_features(features, hardware, memory)?)
            }
            Event::LogSet { area, file, done } => {
                let set = memory.set_log(area, &file);
                rings.update_logs(memory);
                session.answer(done, set)
            }
            Event::VringLogChanged { index, log, done } => {
                rings.set_log_place(index.as_usize(), log, memory);
                session.answer(done, Ok(()))
            }
            Event::MemoryTableSet { regions, done } => {
                let table = memory.table(regions, hardware);
                let outcome = self.change_memory(table)?;
                self.session.answer(done, outcome)
            }
            Event::MemoryRegionAdded { region, done } => {
                let table = memory.table_with(region, hardware);
                let outcome = self.change_memory(table)?;
                self.session.answer(done, outcome)
            }
            Event::MemoryRegionRemoved { region, done } => {
                let table = memory.table_without(region);
                let outcome = self.change_memory(table)?;
                self.session.answer(done, outcome)
            }
            Event::VringStarted { index, config, kick, call, err, enabled, done } => {
                let started = kick_of(kick).and_then(|kick| {
                    let (index, call, err) =
                        (index.as_usize(), notifier("call", call)?, notifier("err", err)?);
                    rings.start(NewRing { index, config, kick, call, err, enabled }, hardware, memory)
                });
                session.answer(done, started)
            }
            Event::VringStopped { index, answer } => {
                session.answer(answer, rings.stop(index.as_usize(), hardware, memory.space())?)
            }
            Event::VringEnabled { index, enabled, done } => {
                session.answer(done, rings.enable(index.as_usize(), enabled, hardware, memory)?)
            }
            Event::VringCallChanged { index, call, done } => {
                let changed =
                    notifier("call", call).and_then(|call| rings.set_call(index.as_usize(), call, hardware));
                session.answer(done, changed)
            }
            Event::VringKickChanged { index, kick, done } => {
                let changed = kick_of(kick).and_then(|kick| rings.set_kick(index.as_usize(), kick, hardware));
                session.answer(done, changed)
            }
            Event::VringErrChanged { index, err, done } => {
                let changed = notifier("err", err).map(|err| rings.set_err(index.as_usize(), err));
                session.answer(done, changed)
            }
            Event::Reset { done } => {
                rings.reset(hardware, memory.space())?;
                session.answer(done, Ok(()))
            }
            other => self.refuse(other),
        };
        Ok(sent?)
    }

    /// Gives the device another table of regions, if it was accepted and all rings are in it.
    fn change_memory(&mut self, table: Result<Table, Refusal>) -> Result<Outcome, End> {
        let checked = table.and_then(|table| self.rings.check(&table.space).map(|()| table));
        match checked {
            Ok(table) => {
                self.rings.stop_shadows(&self.hardware, self.memory.space())?;
                self.memory.change(table, &self.hardware).map_err(End::NotMapped)?;
                Ok(self.rings.start_device(&self.hardware, &self.memory))
            }
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    /// Answers the events of messages that are not offered, most of which the session lets not through.
    fn refuse(&mut self, event: Event) -> Result<Sent, SessionError> {
        let session = &mut self.session;
        match event {
            Event::LogNotifierSet { done, .. }
            | Event::VringKicked { done, .. }
            | Event::BackendChannelSet { done, .. }
            | Event::IotlbChanged { done, .. }
            | Event::RarpRequested { done, .. }
            | Event::MtuSet { done, .. }
            | Event::ConfigWritten { done, .. }
            | Event::CryptoSessionClosed { done, .. }
            | Event::InflightSet { done, .. }
            | Event::StatusSet { done, .. }
            | Event::PostcopyListening { done }
            | Event::PostcopyMemoryReady { done }
            | Event::PostcopyEnded { done }
            | Event::DeviceStateCheck { done } => session.answer(done, Err(not_offered())),
            Event::ConfigRead { answer, .. } => session.answer(answer, Err(not_offered())),
            Event::InflightRequested { answer, .. } => session.answer(answer, Err(not_offered())),
            Event::CryptoSessionRequested { answer, .. } => session.answer(answer, Err(not_offered())),
            Event::PostcopyAdvised { answer } => session.answer(answer, Err(not_offered())),
            Event::PostcopyMemorySet { answer, .. } => session.answer(answer, Err(not_offered())),
            Event::DeviceStateTransfer { answer, .. } => {
                session.answer(answer, StateChannel::Refused(not_offered()))
            }
            // Carried out by `act`, or without an error reply.
            _ => Err(SessionError::Closed),
        }
    }
}

fn kick_of(kick: Kick) -> Result<EventFd, Refusal> {
    match kick {
        Kick::Event(fd) => EventFd::adopt(fd).map_err(|error| Refusal::new(format!("kick: {error}"))),
        Kick::Poll | Kick::InBand => Err(Refusal::new("a kick eventfd is needed: a device does not poll")),
    }
}

fn notifier(what: &str, fd: Option<SharedFd>) -> Result<Option<EventFd>, Refusal> {
    fd.map(EventFd::adopt).transpose().map_err(|error| Refusal::new(format!("{what}: {error}")))
}
