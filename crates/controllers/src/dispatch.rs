//! Handles each message of a controller.

use std::time::Duration;

use crate::bundles::Ask;
use crate::connection::Connection;
use crate::limits::Limits;
use crate::monitors;
use crate::output::Dump;
use crate::packet::Form;
use crate::switch::{Answer, Change, News, Switch};
use openflow::{
    BundleControl, BundleFlags, BundleStep, Codec, Config, CtFlush, Failure, Message, MonitorRequest, Nicira,
    Reply, Request, Role, RoleMessage, Version,
};

/// Bits of a configuration's flags: the handling of fragments and, in OpenFlow 1.0, of packets whose time to live
/// ended.
const FRAGMENTS: u16 = 3;
const INVALID_TTL: u16 = 4;
/// Numbers of Nicira's forms of flows.
const FLOW_FORMATS: [u32; 2] = [0, 2];

/// The state that all connections share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// The highest election number of a primary.
    pub generation: Option<u64>,
    /// The bytes in the bundles of all connections except the connection whose message is handled.
    pub other_bundle_bytes: usize,
    /// The effects of one message on all connections.
    pub effects: Effects,
}

/// The effects of one message on all connections.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub news: News,
    /// The connection has become the primary.
    pub is_primary: bool,
    /// The table of tunnel options has changed.
    pub tunnel_options: bool,
}

/// A message and the state with which it is handled.
#[derive(Clone, Copy)]
struct Asked<'a> {
    transaction: u32,
    bytes: &'a [u8],
    now: Duration,
}

/// Handles a whole message after the hello. A refused request is answered with an error.
pub(crate) fn handle(
    connection: &mut Connection,
    bytes: &[u8],
    shared: &mut Shared,
    limits: &Limits,
    switch: &mut dyn Switch,
    now: Duration,
) {
    let transaction = bytes.get(4..8).and_then(|bytes| bytes.first_chunk()).copied();
    let transaction = transaction.map_or(0, u32::from_be_bytes);
    let asked = Asked { transaction, bytes, now };
    let mut handler = Handler { connection, shared, limits, switch };
    let done = handler
        .connection
        .output
        .codec
        .decode(bytes)
        .and_then(|received| handler.message(asked, received.message));
    if let Err(failure) = done {
        connection.output.refuse(failure, transaction, bytes);
    }
}

struct Handler<'a> {
    connection: &'a mut Connection,
    shared: &'a mut Shared,
    limits: &'a Limits,
    switch: &'a mut dyn Switch,
}

impl Handler<'_> {
    fn reply(&mut self, asked: Asked<'_>, message: &Message) {
        self.connection.output.send(asked.transaction, message);
    }

    fn message(&mut self, asked: Asked<'_>, message: Message) -> Result<(), Failure> {
        let version = self.connection.version();
        match message {
            Message::EchoRequest(data) => self.reply(asked, &Message::EchoReply(data)),
            // An error is not answered: two ends that answer errors with errors never end.
            Message::EchoReply(_) | Message::Error(_) => {}
            Message::FeaturesRequest => {
                let features = Box::new(self.switch.features(version));
                self.reply(asked, &Message::FeaturesReply(features));
            }
            Message::GetConfigRequest => {
                let ttl = version < Version::V13 && self.connection.telling.has_invalid_ttl();
                let flags = self.switch.fragments() & FRAGMENTS | if ttl { INVALID_TTL } else { 0 };
                let config = Config { flags, miss_bytes: self.connection.miss_bytes };
                self.reply(asked, &Message::GetConfigReply(config));
            }
            Message::SetConfig(config) => self.set_config(config)?,
            // No packet waits in a buffer.
            Message::FlowMod(flow) if flow.buffer.is_some() => return Err(Failure::BufferUnknown),
            Message::FlowMod(flow) => self.change(asked, Change::Flow(flow))?,
            Message::GroupMod(group) => self.change(asked, Change::Group(group))?,
            Message::MeterMod(meter) => self.change(asked, Change::Meter(meter))?,
            Message::PortMod(port) => self.change(asked, Change::Port(port))?,
            Message::TableMod(table) => self.change(asked, Change::Table(table))?,
            Message::PacketOut(packet) => self.change(asked, Change::Packet(packet))?,
            Message::MultipartRequest(request, more) => self.multipart(asked, (*request, more))?,
            // Each message is done when the next one is read.
            Message::BarrierRequest => self.reply(asked, &Message::BarrierReply),
            Message::RoleRequest(role) => self.role(asked, role)?,
            Message::GetAsyncRequest => {
                let masks = self.connection.telling.masks(version);
                self.reply(asked, &Message::GetAsyncReply(masks));
            }
            Message::SetAsync(masks) => self.connection.telling.set(&masks, version)?,
            Message::BundleControl(control) => self.bundle_control(asked, &control)?,
            Message::BundleAdd(add) => self.bundle_add(asked, add.id, add.flags)?,
            Message::Nicira(message) => self.nicira(asked, message)?,
            Message::MultipartReply(..) => return Err(Failure::BadMultipart),
            _ => return Err(Failure::BadType),
        }
        Ok(())
    }

    /// Refuses a request that a secondary may not make.
    fn may_change(&self) -> Result<(), Failure> {
        if self.connection.role == Role::Secondary { Err(Failure::IsSecondary) } else { Ok(()) }
    }

    fn set_config(&mut self, config: Config) -> Result<(), Failure> {
        let known =
            if self.connection.version() < Version::V13 { FRAGMENTS | INVALID_TTL } else { FRAGMENTS };
        if config.flags & !known != 0 {
            return Err(Failure::ConfigFlags);
        }
        if self.connection.settings.service || self.may_change().is_ok() {
            self.switch.set_fragments(config.flags & FRAGMENTS);
        }
        if self.connection.version() < Version::V13 {
            self.connection.telling.set_invalid_ttl(config.flags & INVALID_TTL != 0);
        }
        self.connection.miss_bytes = config.miss_bytes;
        Ok(())
    }

    fn change(&mut self, asked: Asked<'_>, change: Change) -> Result<(), Failure> {
        self.may_change()?;
        let (version, news) = (self.connection.version(), &mut self.shared.effects.news);
        let done = self.switch.change(&mut std::iter::once(change), version, asked.now, news);
        done.map_err(|rejected| rejected.failure)
    }

    fn multipart(&mut self, asked: Asked<'_>, part: (Request, bool)) -> Result<(), Failure> {
        let (connection, bytes) = (&mut *self.connection, asked.bytes.len());
        let whole = connection.parts.take(asked.transaction, part, bytes, self.limits, asked.now)?;
        let Some(request) = whole else { return Ok(()) };
        let answer = match &request {
            Request::FlowMonitor(monitors) => self.monitor(monitors, asked.now)?,
            request => self.switch.answer(request, self.connection.version(), asked.now)?,
        };
        let codec = self.connection.output.codec;
        self.connection.dump = Some(Dump::new(&request, asked.transaction, answer, codec));
        Ok(())
    }

    fn monitor(&mut self, requests: &[MonitorRequest], now: Duration) -> Result<Answer, Failure> {
        let version = self.connection.version();
        let told = self.connection.monitors.change(requests, self.limits.monitors)?;
        let mut answers = Vec::new();
        for request in told {
            let flows = self.switch.answer(&Request::Flow(request.flows()), version, now)?;
            answers.push(flows.map(move |reply| match reply {
                Reply::Flow(flows, _) => Reply::FlowMonitor(
                    flows.into_iter().map(|flow| monitors::initial(flow, &request)).collect(),
                ),
                other => other,
            }));
        }
        Ok(Box::new(answers.into_iter().flatten()))
    }

    fn role(&mut self, asked: Asked<'_>, asks: RoleMessage) -> Result<(), Failure> {
        let has_generation = self.connection.version() > Version::V10;
        if matches!(asks.role, Role::Primary | Role::Secondary) && has_generation {
            // Numbers of elections wrap around.
            let is_older = |newest: u64| (asks.generation.wrapping_sub(newest) as i64) < 0;
            if self.shared.generation.is_some_and(is_older) {
                return Err(Failure::RoleStale);
            }
            self.shared.generation = Some(asks.generation);
        }
        if asks.role != Role::NoChange {
            self.shared.effects.is_primary = asks.role == Role::Primary && self.connection.role != asks.role;
            self.connection.role = asks.role;
        }
        let generation = self.shared.generation.unwrap_or(u64::MAX);
        self.reply(asked, &Message::RoleReply(RoleMessage { role: self.connection.role, generation }));
        Ok(())
    }

    fn bundle_control(&mut self, asked: Asked<'_>, control: &BundleControl) -> Result<(), Failure> {
        self.may_change()?;
        let BundleControl { id, flags, .. } = *control;
        let ask = Ask { id, flags, transaction: asked.transaction, request: asked.bytes, now: asked.now };
        let bundles = &mut self.connection.bundles;
        let step = match control.step {
            BundleStep::OpenRequest => bundles.open(ask, self.limits).map(|()| BundleStep::OpenReply)?,
            BundleStep::CloseRequest => bundles.close(ask).map(|()| BundleStep::CloseReply)?,
            BundleStep::DiscardRequest => bundles.discard(id).map(|()| BundleStep::DiscardReply)?,
            BundleStep::CommitRequest => {
                self.commit(ask)?;
                BundleStep::CommitReply
            }
            _ => return Err(Failure::BundleType),
        };
        let reply = BundleControl { id, step, flags: BundleFlags::default(), properties: Vec::new() };
        self.reply(asked, &Message::BundleControl(reply));
        Ok(())
    }

    fn bundle_add(&mut self, asked: Asked<'_>, id: u32, flags: BundleFlags) -> Result<(), Failure> {
        self.may_change()?;
        let ask = Ask { id, flags, transaction: asked.transaction, request: asked.bytes, now: asked.now };
        let bundles = &mut self.connection.bundles;
        let held = bundles.bytes() + self.shared.other_bundle_bytes;
        bundles.add(ask, self.limits.bundle_bytes.saturating_sub(held), self.limits)
    }

    /// Carries out all messages of a bundle, or none. The error of the refused message is sent first.
    fn commit(&mut self, ask: Ask<'_>) -> Result<(), Failure> {
        let bundle = self.connection.bundles.take(ask)?;
        let codec = self.connection.output.codec;
        let mut changes = bundle.messages().filter_map(|message| change_of(codec, message));
        let news = &mut self.shared.effects.news;
        let Err(rejected) = self.switch.change(&mut changes, codec.version, ask.now, news) else {
            return Ok(());
        };
        if let Some(message) = bundle.messages().nth(rejected.index) {
            let transaction = message.get(4..8).and_then(|bytes| bytes.first_chunk()).copied();
            let transaction = transaction.map_or(0, u32::from_be_bytes);
            self.connection.output.refuse(rejected.failure, transaction, message);
        }
        Err(Failure::BundleMessageFailed)
    }

    fn nicira(&mut self, asked: Asked<'_>, message: Nicira) -> Result<(), Failure> {
        match message {
            Nicira::SetFlowFormat(number) if FLOW_FORMATS.contains(&number) => {}
            Nicira::SetFlowFormat(_) => return Err(Failure::NotPermitted),
            Nicira::FlowModTableId(table_ids) => self.connection.output.codec.table_ids = table_ids,
            Nicira::SetPacketInFormat(number) => {
                self.connection.form = match number {
                    0 => Form::Standard,
                    1 => Form::Nicira,
                    2 => Form::Properties,
                    _ => return Err(Failure::NotPermitted),
                };
            }
            // Ages are always reported.
            Nicira::FlowAge => {}
            Nicira::SetControllerId(id) => self.connection.controller = id,
            Nicira::FlowMonitorCancel(id) => self.connection.monitors.cancel(id)?,
            Nicira::TlvMod(change) => {
                self.may_change()?;
                self.switch.change_tlv_table(&change)?;
                self.shared.effects.tunnel_options = true;
            }
            Nicira::TlvRequest => {
                let table = self.switch.tlv_table();
                self.reply(asked, &Message::Nicira(Nicira::TlvReply(table)));
            }
            Nicira::Resume(packet) => self.switch.resume(&packet, asked.now)?,
            Nicira::CtFlushZone(zone) => {
                self.may_change()?;
                self.switch.flush_connections(&CtFlush { zone: Some(zone), ..CtFlush::default() })?;
            }
            Nicira::CtFlush(which) => {
                self.may_change()?;
                self.switch.flush_connections(&which)?;
            }
            _ => return Err(Failure::BadType),
        }
        Ok(())
    }
}

/// The change in a message that adds a message to a bundle.
fn change_of(codec: Codec, message: &[u8]) -> Option<Change> {
    let Message::BundleAdd(added) = codec.decode(message).ok()?.message else { return None };
    match *added.message {
        Message::FlowMod(flow) => Some(Change::Flow(flow)),
        Message::GroupMod(group) => Some(Change::Group(group)),
        Message::PortMod(port) => Some(Change::Port(port)),
        Message::PacketOut(packet) => Some(Change::Packet(packet)),
        _ => None,
    }
}
