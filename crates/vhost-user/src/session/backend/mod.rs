//! The back-end's end: the device.
//!
//! [`BackendSession::receive`] takes one message and returns a reply to send, an [`Event`] to act on, or nothing. An
//! event has a [`Ticket`]. [`BackendSession::answer`] takes it back with the outcome, changes the session's state on
//! success, and returns the reply to send, if any.
mod answer;
mod channel;
mod channel_messages;
mod device_messages;
mod event;
mod feature_messages;
mod journal;
mod memory;
mod memory_messages;
mod offer;
mod ring;
mod ring_messages;
#[cfg(test)]
mod tests;

pub use answer::{
    Answer, ConfigBytes, CryptoSession, CryptoSessionNumber, DeviceStatus, InflightArea, MappedBases,
    StateChannel, Userfault,
};
pub use channel::ChannelReply;
pub use event::{Event, Kick, SharedRegion, VringConfig};
pub use offer::{Offer, OfferError};

use crate::codec::Message;
use crate::codec::crypto::{CryptoForm, CryptoSessionReply};
use crate::codec::frontend_request::FrontendRequest as Request;
use crate::codec::payload::MemoryRegion;
use crate::codec::reply::ReplyBody;
use crate::codec::table::{self, Agreed, Reply, Rule, Shape};
use crate::session::postcopy::Postcopy;
use crate::session::{Outcome, Refusal, SessionError, Ticket};
use crate::violation::Violation;
use crate::vring::{VringBase, VringIndex};
use answer::Echo;
use channel::Channel;
use journal::{Entry, Journal};
use memory::MemoryMap;
use ring::{Ring, State};
use virtio::Features;

/// The result of a received message.
#[derive(Debug)]
#[must_use]
pub enum Received {
    /// Nothing to do, nothing to send.
    Nothing,
    /// Send this.
    Reply(Message),
    /// The peer broke a rule, and this reply reports it. The session continues unchanged.
    Rejected(Message, Violation),
    /// The embedder must act on this event, then answer it.
    Event(Event),
}

/// The result of an answer.
#[derive(Debug)]
#[must_use]
pub struct Sent {
    /// Send this.
    pub reply: Option<Message>,
    /// The name of the message that this reply refuses, and the reason.
    pub refused: Option<(&'static str, Refusal)>,
}

/// The change of the session after a successful answer to the event.
#[derive(Debug)]
enum Commit {
    Nothing,
    Features(Features),
    Memory(MemoryMap),
    PostcopyMemory(MemoryMap),
    Postcopy(Postcopy),
    Start(VringIndex, VringConfig),
    Stop(VringIndex),
    Enable(VringIndex, bool),
    Log(VringIndex, Option<u64>),
    BackendChannel,
    Reset,
}

/// The result of handling one message.
enum Next {
    Done,
    Reply(ReplyBody),
    Ask(Event, Echo, Commit),
}

#[derive(Debug)]
struct Waiting {
    sequence: u64,
    rule: &'static Rule,
    need_reply: bool,
    echo: Echo,
    commit: Commit,
    entry: Entry,
}

/// One connection's state at the back-end.
#[derive(Debug)]
pub struct BackendSession {
    offer: Offer,
    agreed: Agreed,
    features_set: bool,
    memory: MemoryMap,
    rings: Vec<Ring>,
    postcopy: Postcopy,
    channel: Channel,
    sequence: u64,
    waiting: Option<Waiting>,
    journal: Journal,
    closed: bool,
}

impl BackendSession {
    /// A new session: nothing is agreed on, and all rings are stopped and disabled.
    pub fn new(offer: Offer) -> Self {
        let agreed = Agreed {
            offered: offer.features(),
            protocol_offered: offer.protocol_features(),
            ..Agreed::default()
        };
        let rings = (0..offer.queue_count()).map(|_| Ring::default()).collect();
        Self {
            offer,
            agreed,
            features_set: false,
            memory: MemoryMap::default(),
            rings,
            postcopy: Postcopy::Off,
            channel: Channel::default(),
            sequence: 0,
            waiting: None,
            journal: Journal::default(),
            closed: false,
        }
    }

    /// The messages that bring a new session, of the same offer, to the state of this one. `bases` are the present
    /// positions of running rings, by their index.
    pub fn messages(&self, bases: impl IntoIterator<Item = (usize, VringBase)>) -> Vec<Message> {
        let bases = bases.into_iter().map(|(index, base)| (index as u32, base.to_wire())).collect();
        self.journal.messages(&bases, self.agreed.features.contains(Features::VHOST_PROTOCOL_FEATURES))
    }

    /// The regions that were added more than once, each with its count. [`BackendSession::messages`] has each
    /// region only once.
    pub fn region_counts(&self) -> impl Iterator<Item = (MemoryRegion, u32)> {
        self.journal.counts()
    }

    /// Sets how often existing regions were added, from [`BackendSession::region_counts`] of another session.
    pub fn set_region_counts(&mut self, counts: impl IntoIterator<Item = (MemoryRegion, u32)>) {
        for (region, times) in counts.into_iter().filter(|(_, times)| *times > 1) {
            self.memory.set_count(&region, times);
            self.journal.set_count(&region, times);
        }
    }

    /// The features offered and agreed on so far.
    pub fn agreed(&self) -> &Agreed {
        &self.agreed
    }

    /// Takes one message of the front-end. Its descriptors are passed on in an event, or closed. A message that
    /// breaks a rule and can be answered with an error is returned as [`Received::Rejected`].
    ///
    /// # Errors
    /// The session is closed, or an event still waits for its answer. Or the message breaks a rule and has no reply
    /// that can carry an error, which closes the session.
    pub fn receive(&mut self, message: Message) -> Result<Received, SessionError> {
        if self.closed {
            return Err(SessionError::Closed);
        }
        if self.waiting.is_some() {
            return Err(SessionError::Unanswered);
        }
        let (id, need_reply) = (message.header.id, message.header.need_reply);
        let (size, mut entry) = (message.payload.len(), Entry::Nothing);
        match self.process(message, &mut entry) {
            Ok(Next::Done) => {
                self.journal.record(entry);
                let reply = need_reply.then(|| ReplyBody::acknowledge(true).into_message(id));
                Ok(reply.map_or(Received::Nothing, Received::Reply))
            }
            Ok(Next::Reply(body)) => Ok(Received::Reply(body.into_message(id))),
            Ok(Next::Ask(event, echo, commit)) => {
                // `process` looked the rule up already.
                let rule = table::frontend_request(id)?;
                self.waiting =
                    Some(Waiting { sequence: self.sequence, rule, need_reply, echo, commit, entry });
                Ok(Received::Event(event))
            }
            Err(violation) => match error_reply(id, need_reply, size) {
                Some(body) => Ok(Received::Rejected(body.into_message(id), violation)),
                None => {
                    self.closed = true;
                    Err(violation.into())
                }
            },
        }
    }

    /// Takes the answer to the event that `ticket` came with. Returns the reply to send, if there is one.
    ///
    /// # Errors
    /// The ticket does not belong to the event that waits. Or the answer is a refusal and the message has no reply
    /// that can carry an error, which closes the session.
    pub fn answer<A: Answer>(&mut self, ticket: Ticket<A>, answer: A) -> Result<Sent, SessionError> {
        let waiting = match self.waiting.take() {
            Some(waiting) if waiting.sequence == ticket.sequence => waiting,
            other => {
                self.waiting = other;
                return Err(SessionError::WrongTicket);
            }
        };
        let Waiting { rule, need_reply, echo, commit, entry, .. } = waiting;
        let answered = answer.answered(echo, need_reply);
        let mut refused = None;
        match answered.refusal {
            None => {
                self.journal.record(entry);
                self.commit(commit, answered.reply.as_ref());
            }
            Some(reason) if answered.reply.is_none() => {
                self.closed = true;
                return Err(SessionError::Refused { message: rule.name, reason });
            }
            Some(reason) => refused = Some((rule.name, reason)),
        }
        Ok(Sent { reply: answered.reply.map(|body| body.into_message(rule.id)), refused })
    }

    fn commit(&mut self, commit: Commit, reply: Option<&ReplyBody>) {
        match commit {
            Commit::Nothing => {}
            Commit::Features(features) => self.set_features(features),
            Commit::Memory(memory) => self.memory = memory,
            Commit::PostcopyMemory(memory) => {
                self.memory = memory;
                self.postcopy = Postcopy::Mapped;
            }
            Commit::Postcopy(postcopy) => self.postcopy = postcopy,
            Commit::Start(index, config) => self.rings[index.as_usize()].state = State::Started(config),
            Commit::Stop(index) => self.stopped(index, reply),
            Commit::Enable(index, enabled) => self.rings[index.as_usize()].enabled = enabled,
            Commit::Log(index, log) => {
                if let State::Started(config) = &mut self.rings[index.as_usize()].state {
                    config.log = log;
                }
            }
            Commit::BackendChannel => self.channel.open(),
            Commit::Reset => {
                self.rings.iter_mut().for_each(|ring| *ring = Ring::default());
                self.agreed.features = Features::empty();
                self.features_set = false;
                self.postcopy = Postcopy::Off;
            }
        }
    }

    /// Checks what holds for every message, then goes to the message's own handler.
    fn process(&mut self, mut message: Message, entry: &mut Entry) -> Result<Next, Violation> {
        let request = Request::parse(&message);
        if message.header.id == CREATE_CRYPTO_SESSION {
            message.wipe();
        }
        let request = request?;
        let rule = request.rule();
        rule.check_gate(&self.agreed)?;
        if self.postcopy == Postcopy::Mapped && !may_follow_postcopy_memory(&request) {
            return Err(rule.violation("id", rule.id, "the acknowledgement of postcopy memory"));
        }
        *entry = Entry::of(&request, &message);
        let fds = message.fds;
        match request {
            Request::GetFeatures => Ok(Next::Reply(ReplyBody::Number(self.agreed.offered.bits()))),
            Request::SetFeatures(features) => self.on_set_features(rule, features),
            // RESET_OWNER is deprecated; the text recommends to ignore it.
            Request::SetOwner | Request::ResetOwner => Ok(Next::Done),
            Request::GetProtocolFeatures => {
                Ok(Next::Reply(ReplyBody::Number(self.agreed.protocol_offered.bits())))
            }
            Request::SetProtocolFeatures(features) => self.on_set_protocol_features(rule, features),
            Request::GetQueueNum => Ok(Next::Reply(ReplyBody::Number(self.offer.reported_queues()))),
            Request::GetMaxMemSlots => Ok(Next::Reply(ReplyBody::Number(self.offer.max_mem_slots().into()))),

            Request::SetMemTable(table) => self.on_set_mem_table(rule, table, fds),
            Request::AddMemReg(region) => self.on_add_mem_reg(rule, region.0, fds),
            Request::AckMemRegs => self.on_ack_mem_regs(rule, fds),
            Request::RemMemReg(region) => self.on_rem_mem_reg(rule, region.0),
            Request::SetLogBase(area) => self.on_set_log_base(rule, area, fds),
            Request::SetLogFd => self.on_set_log_fd(rule, fds),
            Request::IotlbMsg(entry) => self.on_iotlb(rule, entry),
            Request::PostcopyAdvise => self.on_postcopy_advise(rule),
            Request::PostcopyListen => self.on_postcopy_listen(rule),
            Request::PostcopyEnd => self.on_postcopy_end(rule),

            Request::SetVringNum(state) => self.on_set_vring_num(rule, state),
            Request::SetVringAddr(address) => self.on_set_vring_addr(rule, address),
            Request::SetVringBase(state) => self.on_set_vring_base(rule, state),
            Request::GetVringBase(state) => self.on_get_vring_base(rule, state),
            Request::SetVringKick(vring) => self.on_set_vring_kick(rule, vring, fds),
            Request::SetVringCall(vring) => self.on_set_vring_call(rule, vring, fds),
            Request::SetVringErr(vring) => self.on_set_vring_err(rule, vring, fds),
            Request::SetVringEnable(state) => self.on_set_vring_enable(rule, state),
            Request::VringKick(state) => self.on_vring_kick(rule, state),

            Request::SendRarp(address) => {
                Ok(self.ask_done(rule, Commit::Nothing, |done| Event::RarpRequested { address, done }))
            }
            Request::NetSetMtu(mtu) => self.on_net_set_mtu(rule, mtu),
            Request::SetBackendReqFd => self.on_set_backend_req_fd(rule, fds),
            Request::GetConfig(access) => self.on_get_config(rule, access),
            Request::SetConfig(access) => self.on_set_config(rule, access),
            Request::GetInflightFd(inflight) => self.on_get_inflight_fd(rule, inflight),
            Request::SetInflightFd(inflight) => self.on_set_inflight_fd(rule, inflight, fds),
            Request::CreateCryptoSession(create) => Ok(self.on_create_crypto_session(*create)),
            Request::CloseCryptoSession(number) => {
                Ok(self.ask_done(rule, Commit::Nothing, |done| Event::CryptoSessionClosed { number, done }))
            }
            Request::ResetDevice => Ok(self.ask_done(rule, Commit::Reset, |done| Event::Reset { done })),
            Request::SetStatus(status) => self.on_set_status(rule, status),
            Request::GetStatus => {
                Ok(self.ask(Echo::Number, Commit::Nothing, |answer| Event::StatusRead { answer }))
            }
            Request::SetDeviceStateFd(transfer) => self.on_set_device_state_fd(rule, transfer, fds),
            Request::CheckDeviceState => {
                Ok(self.ask_done(rule, Commit::Nothing, |done| Event::DeviceStateCheck { done }))
            }
        }
    }

    fn ask<A>(&mut self, echo: Echo, commit: Commit, event: impl FnOnce(Ticket<A>) -> Event) -> Next {
        self.sequence += 1;
        Next::Ask(event(Ticket::new(self.sequence)), echo, commit)
    }

    fn ask_done(
        &mut self,
        rule: &Rule,
        commit: Commit,
        event: impl FnOnce(Ticket<Outcome>) -> Event,
    ) -> Next {
        let echo = if rule.reply == Reply::Acknowledgement { Echo::Acknowledge } else { Echo::OnRequest };
        self.ask(echo, commit, event)
    }

    fn any_ring_started(&self) -> bool {
        self.rings.iter().any(Ring::is_started)
    }
}

fn may_follow_postcopy_memory(request: &Request) -> bool {
    match request {
        Request::SetMemTable(table) => table.regions.is_empty(),
        Request::AddMemReg(_) | Request::AckMemRegs => true,
        _ => false,
    }
}

/// The one message whose payload holds keys.
const CREATE_CRYPTO_SESSION: u32 = 26;

/// The reply that reports a violation, where the message has room for one. need_reply is honoured
/// whether or not REPLY_ACK was agreed on, as libvhost-user and DPDK do it: a peer that sets the flag
/// waits.
fn error_reply(id: u32, need_reply: bool, size: usize) -> Option<ReplyBody> {
    let reply = table::frontend_request(id).map_or(Reply::OnRequest, |rule| rule.reply);
    match reply {
        Reply::OnRequest => need_reply.then(|| ReplyBody::acknowledge(false)),
        Reply::Acknowledgement => Some(ReplyBody::acknowledge(false)),
        Reply::Payload(Shape::Config) => Some(ReplyBody::Config(None)),
        // The front-end reads a reply of its own form only, so there is none to a message of another size.
        Reply::Payload(Shape::CryptoSession) => [CryptoForm::NumberFirst, CryptoForm::OperationFirst]
            .into_iter()
            .find(|form| form.bytes() == size)
            .map(|form| ReplyBody::CryptoSession(CryptoSessionReply { form, number: -1 })),
        // SET_DEVICE_STATE_FD: an error in bits 0 to 7, and no descriptor (bit 8).
        Reply::Payload(_) if id == 42 => Some(ReplyBody::Number(0x101)),
        Reply::Payload(_) => None,
        Reply::Descriptor => Some(ReplyBody::Descriptor(None)),
    }
}
