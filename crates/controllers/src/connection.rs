//! One connection: its start, its bytes in both directions, and the check whether the controller still answers.

use std::time::Duration;

use crate::bundles::Bundles;
use crate::limits::{Limits, Settings};
use crate::monitors::Monitors;
use crate::output::{Dump, Output};
use crate::packet::{Form, PacketFor};
use crate::parts::Parts;
use crate::rate::Rate;
use crate::switch::FlowNews;
use crate::telling::{Kind, Telling};
use flow::{Field, Reason};
use openflow::{
    Codec, ErrorMessage, Failure, FlowRemoved, Framer, Hello, Message, PortReason, PortStatus, RemovedReason,
    Role, Version,
};

/// The transaction of messages that are no answers.
const UNASKED: u32 = 0;
/// The length in bytes of an unmatched packet for a controller that has not set this length.
const MISS_BYTES: u16 = 128;

/// Why a connection has ended. The caller sends the remaining bytes, and then closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// There are too many connections.
    #[error("there are {0} connections with controllers, as many as the limit allows; close some")]
    Full(usize),
    /// The first message is not a hello.
    #[error("the controller does not begin with an OpenFlow hello; connect an OpenFlow controller")]
    NoHello,
    /// There is no common version.
    #[error(
        "the controller's OpenFlow versions are none of 1.0, 1.3, 1.4, 1.5 that are allowed here; allow another one"
    )]
    NoCommonVersion,
    /// The length in a message is smaller than the header.
    #[error("the controller sends no OpenFlow: a message is shorter than its header")]
    Framing,
    /// The version of a message differs from the agreed version.
    #[error(
        "the controller has sent a message of another OpenFlow version than agreed; its version number is {0}"
    )]
    OtherVersion(u8),
    /// The controller does not answer.
    #[error("the controller has been silent for {} s and has not answered an echo request", .0.as_secs())]
    Silent(Duration),
    /// The controller does not read.
    #[error("the controller does not read: {0} bytes wait for it")]
    DoesNotRead(usize),
}

/// The state of one connection.
pub(crate) struct Connection {
    pub settings: Settings,
    pub output: Output,
    pub dump: Option<Dump>,
    pub role: Role,
    pub telling: Telling,
    pub form: Form,
    pub controller: u16,
    pub miss_bytes: u16,
    pub bundles: Bundles,
    pub parts: Parts,
    pub monitors: Monitors,
    is_agreed: bool,
    framer: Framer,
    input: Vec<u8>,
    /// The number of bytes at the front of `input` that have been handled.
    taken: usize,
    heard: Duration,
    probed: Option<Duration>,
    /// The rate limits of unmatched packets and of other packets.
    rates: Option<[Rate; 2]>,
    dropped_packets: u64,
}

impl Connection {
    /// A connection that has just been made. Its hello waits to be sent.
    pub fn new(settings: Settings, limits: &Limits, now: Duration) -> Self {
        let newest = settings.versions.iter().copied().max().unwrap_or(Version::V10);
        let (codec, most_bytes) = (Codec::new(newest), limits.unsent_bytes);
        let mut output = Output { codec, bytes: Vec::new(), most_bytes, is_full: false, copies: None };
        output.send(1, &Message::Hello(Hello::of(&settings.versions)));
        let miss_bytes = if settings.service { 0 } else { MISS_BYTES };
        Self {
            output,
            dump: None,
            role: Role::Equal,
            telling: Telling::new(newest),
            form: Form::default(),
            controller: 0,
            miss_bytes,
            bundles: Bundles::default(),
            parts: Parts::default(),
            monitors: Monitors::default(),
            is_agreed: false,
            framer: Framer::new(),
            input: Vec::new(),
            taken: 0,
            heard: now,
            probed: None,
            rates: settings.packets.map(|rate| [0, 1].map(|_| Rate::new(rate, now))),
            dropped_packets: 0,
            settings,
        }
    }

    pub fn version(&self) -> Version {
        self.output.codec.version
    }

    pub fn dropped_packets(&self) -> u64 {
        self.dropped_packets
    }

    /// Whether a version was agreed.
    pub fn is_agreed(&self) -> bool {
        self.is_agreed
    }

    /// Whether bytes are to be read. No bytes are read while answers wait to be sent.
    pub fn reads(&self, limits: &Limits) -> bool {
        self.dump.is_none() && self.output.bytes.len() < limits.paused_bytes
    }

    /// Checks that all messages found room.
    ///
    /// # Errors
    /// The controller does not read.
    pub fn check(&self) -> Result<(), SessionError> {
        match self.output.is_full {
            true => Err(SessionError::DoesNotRead(self.output.bytes.len())),
            false => Ok(()),
        }
    }

    /// Takes received bytes.
    pub fn feed(&mut self, bytes: &[u8], now: Duration) {
        if !bytes.is_empty() {
            (self.heard, self.probed) = (now, None);
            self.input.drain(..std::mem::take(&mut self.taken));
            self.input.extend(bytes);
        }
    }

    /// Continues an answer in parts, and then returns the next whole message.
    ///
    /// # Errors
    /// The bytes are no OpenFlow, or the controller does not read.
    pub fn next_message(&mut self, limits: &Limits) -> Result<Option<Vec<u8>>, SessionError> {
        if let Some(mut dump) = self.dump.take()
            && !dump.continue_to(&mut self.output, limits.paused_bytes)
        {
            self.dump = Some(dump);
        }
        self.check()?;
        if !self.reads(limits) {
            return Ok(None);
        }
        let mut rest = &self.input[self.taken..];
        let message = self.framer.next(&mut rest).map_err(|_| SessionError::Framing)?;
        self.taken = self.input.len() - rest.len();
        message.iter().for_each(|message| self.output.copy(message));
        Ok(message)
    }

    /// Handles the first message, which must be the controller's hello. Returns whether this message was the hello.
    ///
    /// # Errors
    /// The message is not a hello, or there is no common version.
    pub fn begin(&mut self, message: &[u8]) -> Result<bool, SessionError> {
        if self.is_agreed {
            return Ok(false);
        }
        let Ok(received) = self.output.codec.decode(message) else { return Err(SessionError::NoHello) };
        let Message::Hello(hello) = received.message else { return Err(SessionError::NoHello) };
        let Ok(version) = hello.common(message[0], &self.settings.versions) else {
            let code = Failure::HelloIncompatible.code(self.version());
            let data = SessionError::NoCommonVersion.to_string().into_bytes();
            self.output.send(received.transaction, &Message::Error(ErrorMessage { code, data }));
            return Err(SessionError::NoCommonVersion);
        };
        self.output.codec.version = version;
        self.telling = Telling::new(version);
        self.is_agreed = true;
        Ok(true)
    }

    /// The time at which [`Connection::tick`] must be called.
    pub fn deadline(&self, limits: &Limits) -> Option<Duration> {
        let probe = self.settings.probe_interval;
        let probe = probe.map(|interval| self.probed.unwrap_or(self.heard).saturating_add(interval));
        let all = [probe, self.bundles.deadline(limits), self.parts.deadline(limits)];
        all.into_iter().flatten().min()
    }

    /// Sends an echo request to a silent controller, and refuses bundles and requests that have expired.
    ///
    /// # Errors
    /// The controller has not answered.
    pub fn tick(&mut self, limits: &Limits, now: Duration) -> Result<(), SessionError> {
        for bundle in self.bundles.expire(limits, now) {
            let (transaction, request) = bundle.request();
            self.output.refuse(Failure::BundleTimeout, transaction, request);
        }
        for transaction in self.parts.expire(limits, now) {
            self.output.refuse(Failure::MultipartOverflow, transaction, &[]);
        }
        let Some(interval) = self.settings.probe_interval else { return Ok(()) };
        if now < self.probed.unwrap_or(self.heard).saturating_add(interval) {
            return Ok(());
        }
        if self.probed.is_some() {
            return Err(SessionError::Silent(now.saturating_sub(self.heard)));
        }
        self.probed = Some(now);
        if self.is_agreed {
            self.output.send(UNASKED, &Message::EchoRequest(Vec::new()));
        }
        Ok(())
    }

    /// Whether the controller gets notifications of this kind with this reason.
    fn is_told(&self, kind: Kind, reason: u8) -> bool {
        self.is_agreed
            && !(self.settings.service && self.miss_bytes == 0)
            && self.telling.has(kind, reason, self.role)
    }

    /// Sends a packet to the controller. The packet is left out if the controller does not want it, if there are too
    /// many packets, or if the controller does not read.
    pub fn packet(&mut self, packet: &PacketFor, limits: &Limits, now: Duration) {
        let reason = openflow::reason_number(packet.reason);
        if packet.controller != self.controller || !self.is_told(Kind::PacketIn, reason) {
            return;
        }
        let rate = usize::from(packet.reason != Reason::NoMatch);
        let port = packet.metadata.value().get(Field::InPort) as u16; // its 16 bits
        let passes = self.rates.as_mut().is_none_or(|rates| rates[rate].passes(port, now));
        if passes && self.reads(limits) {
            let message = packet.message(self.form, self.version(), self.miss_bytes);
            self.output.send(UNASKED, &message);
        } else {
            self.dropped_packets += 1;
        }
    }

    /// Reports that a port was added, changed or removed.
    pub fn port(&mut self, reason: PortReason, port: &openflow::Port) {
        if self.is_told(Kind::PortStatus, reason as u8) {
            let port = port.clone();
            self.output.send(UNASKED, &Message::PortStatus(Box::new(PortStatus { reason, port })));
        }
    }

    /// Reports that a flow has ended.
    pub fn removed(&mut self, news: &FlowNews) {
        let reason = match news.reason {
            // Older versions have no reason of their own for the end of a meter.
            RemovedReason::MeterDelete if self.version() < Version::V14 => RemovedReason::Delete,
            RemovedReason::GroupDelete if self.version() < Version::V13 => RemovedReason::Delete,
            reason => reason,
        };
        if !news.flow.flags.send_removed || !self.is_told(Kind::FlowRemoved, reason as u8) {
            return;
        }
        let flow::Flow { table, priority, cookie, timeouts, wanted, .. } = news.flow;
        let counts = news.counts;
        let removed = FlowRemoved { reason, table, priority, cookie, timeouts, wanted, counts };
        self.output.send(UNASKED, &Message::FlowRemoved(Box::new(removed)));
    }
}
