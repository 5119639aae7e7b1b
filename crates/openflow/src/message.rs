//! All messages, and their bytes.

use crate::bundle::{BundleAdd, BundleControl};
use crate::bytes::{Reader, Writer};
use crate::error::ErrorMessage;
use crate::experimenter::{Nicira, kind};
use crate::flow_mod::{FlowMod, FlowRemoved};
use crate::framer::HEADER_BYTES;
use crate::group::GroupMod;
use crate::hello::{Config, Features, Hello};
use crate::meter::MeterMod;
use crate::multipart::{Reply, Request};
use crate::packet::{PacketIn, PacketOut};
use crate::port::{PortMod, PortStatus, TableMod};
use crate::role::{Async, RoleMessage, RoleStatus};
use crate::{Codec, Failure, Kind, NICIRA, ONF, Version};

/// The bundle messages of OpenFlow 1.3's extension.
const ONF_BUNDLE_CONTROL: u32 = 2300;
const ONF_BUNDLE_ADD: u32 = 2301;

/// A message. OpenFlow 1.5 §7 describes each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "OpenFlow's names")]
pub enum Message {
    Hello(Hello),
    Error(ErrorMessage),
    /// Any bytes, which the answer repeats.
    EchoRequest(Vec<u8>),
    EchoReply(Vec<u8>),
    FeaturesRequest,
    FeaturesReply(Box<Features>),
    GetConfigRequest,
    GetConfigReply(Config),
    SetConfig(Config),
    PacketIn(Box<PacketIn>),
    FlowRemoved(Box<FlowRemoved>),
    PortStatus(Box<PortStatus>),
    PacketOut(Box<PacketOut>),
    FlowMod(Box<FlowMod>),
    GroupMod(Box<GroupMod>),
    PortMod(PortMod),
    TableMod(TableMod),
    MeterMod(MeterMod),
    /// A request, and whether more parts of it follow.
    MultipartRequest(Box<Request>, bool),
    /// A reply, and whether more parts of it follow.
    MultipartReply(Box<Reply>, bool),
    BarrierRequest,
    BarrierReply,
    RoleRequest(RoleMessage),
    RoleReply(RoleMessage),
    RoleStatus(RoleStatus),
    GetAsyncRequest,
    GetAsyncReply(Async),
    SetAsync(Async),
    BundleControl(BundleControl),
    BundleAdd(BundleAdd<Message>),
    Nicira(Nicira),
}

/// A message that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The message's transaction: an answer has the number of its request.
    pub transaction: u32,
    /// The message.
    pub message: Message,
}

/// The reason why a message cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The message is longer than its length field can express.
    #[error("the message has {0} bytes; an OpenFlow message has 65535 at most: split it")]
    TooLong(usize),
    /// The version has no form for a part of the message.
    #[error("{0} has no form in OpenFlow version {1:#04x}: use a version that has it")]
    NoForm(&'static str, u8),
}

impl Codec {
    /// Reads a whole message, as [`crate::Framer`] returns it. A hello may have any version.
    ///
    /// # Errors
    /// Returns the failure with which to refuse the message. [`ErrorMessage::new`] makes the answer.
    pub fn decode(self, bytes: &[u8]) -> Result<Received, Failure> {
        let mut reader = Reader::new(bytes, Failure::BadLength);
        let (version, kind) = (reader.u8()?, reader.u8()?);
        let (length, transaction) = (reader.u16()?, reader.u32()?);
        if usize::from(length) != bytes.len() {
            return Err(Failure::BadLength);
        }
        if version != self.version.number() && kind != 0 {
            return Err(Failure::BadVersion);
        }
        let kind = Kind::by_number(self.version, kind).ok_or(Failure::BadType)?;
        let message = self.body(kind, &mut reader, transaction)?;
        reader.end()?;
        Ok(Received { transaction, message })
    }

    fn body(self, kind: Kind, reader: &mut Reader<'_>, transaction: u32) -> Result<Message, Failure> {
        let version = self.version;
        Ok(match kind {
            Kind::Hello => {
                let hello = Hello::read(reader);
                reader.rest();
                Message::Hello(hello)
            }
            Kind::Error => Message::Error(ErrorMessage::read(reader, version)?),
            Kind::EchoRequest => Message::EchoRequest(reader.rest().to_vec()),
            Kind::EchoReply => Message::EchoReply(reader.rest().to_vec()),
            Kind::Experimenter => self.experimenter(reader, transaction)?,
            Kind::FeaturesRequest => Message::FeaturesRequest,
            Kind::FeaturesReply => Message::FeaturesReply(Box::new(Features::read(reader, version)?)),
            Kind::GetConfigRequest => Message::GetConfigRequest,
            Kind::GetConfigReply => Message::GetConfigReply(Config::read(reader)?),
            Kind::SetConfig => Message::SetConfig(Config::read(reader)?),
            Kind::PacketIn => Message::PacketIn(Box::new(PacketIn::read(reader, version)?)),
            Kind::FlowRemoved => Message::FlowRemoved(Box::new(FlowRemoved::read(reader, version)?)),
            Kind::PortStatus => Message::PortStatus(Box::new(PortStatus::read(reader, version)?)),
            Kind::PacketOut => Message::PacketOut(Box::new(PacketOut::read(reader, version)?)),
            Kind::FlowMod if version == Version::V10 => {
                Message::FlowMod(Box::new(FlowMod::read_10(reader, self, false)?))
            }
            Kind::FlowMod => Message::FlowMod(Box::new(FlowMod::read(reader, version)?)),
            Kind::GroupMod => Message::GroupMod(Box::new(GroupMod::read(reader, version)?)),
            Kind::PortMod => Message::PortMod(PortMod::read(reader, version)?),
            Kind::TableMod => Message::TableMod(TableMod::read(reader, version)?),
            Kind::MeterMod => Message::MeterMod(MeterMod::read(reader)?),
            Kind::MultipartRequest => {
                let (request, more) = Request::read(reader, version)?;
                Message::MultipartRequest(Box::new(request), more)
            }
            Kind::MultipartReply => {
                let (reply, more) = Reply::read(reader, version)?;
                Message::MultipartReply(Box::new(reply), more)
            }
            Kind::BarrierRequest => Message::BarrierRequest,
            Kind::BarrierReply => Message::BarrierReply,
            Kind::RoleRequest => Message::RoleRequest(RoleMessage::read(reader)?),
            Kind::RoleReply => Message::RoleReply(RoleMessage::read(reader)?),
            Kind::RoleStatus => Message::RoleStatus(RoleStatus::read(reader)?),
            Kind::GetAsyncRequest => Message::GetAsyncRequest,
            Kind::GetAsyncReply => Message::GetAsyncReply(Async::read(reader, version)?),
            Kind::SetAsync => Message::SetAsync(Async::read(reader, version)?),
            Kind::BundleControl => Message::BundleControl(BundleControl::read(reader)?),
            Kind::BundleAdd => self.bundle_add(reader, transaction)?,
        })
    }

    fn bundle_add(self, reader: &mut Reader<'_>, transaction: u32) -> Result<Message, Failure> {
        BundleAdd::read(reader, self.version, transaction, |bytes| self.decode_in_bundle(bytes))
            .map(Message::BundleAdd)
    }

    /// Reads a message that a bundle can have: none of them has another one in it.
    fn decode_in_bundle(self, bytes: &[u8]) -> Result<Message, Failure> {
        let number = *bytes.get(1).ok_or(Failure::BundleMessageLength)?;
        match Kind::by_number(self.version, number).ok_or(Failure::BadType)? {
            Kind::FlowMod | Kind::GroupMod | Kind::PortMod | Kind::PacketOut => {
                self.decode(bytes).map(|received| received.message)
            }
            _ => Err(Failure::BundleMessageUnsupported),
        }
    }

    fn experimenter(self, reader: &mut Reader<'_>, transaction: u32) -> Result<Message, Failure> {
        let (experimenter, number) = (reader.u32()?, reader.u32()?);
        match (experimenter, number, self.version) {
            (ONF, ONF_BUNDLE_CONTROL, Version::V13) => {
                BundleControl::read(reader).map(Message::BundleControl)
            }
            (ONF, ONF_BUNDLE_ADD, Version::V13) => self.bundle_add(reader, transaction),
            (ONF, ..) => Err(Failure::BadExperimenterType),
            (NICIRA, kind::FLOW_MOD, Version::V10) => {
                FlowMod::read_10(reader, self, true).map(|flow| Message::FlowMod(Box::new(flow)))
            }
            (NICIRA, kind::GROUP_MOD, Version::V10) => {
                GroupMod::read(reader, self.version).map(|group| Message::GroupMod(Box::new(group)))
            }
            (NICIRA, kind::FLOW_REMOVED, Version::V10) => {
                FlowRemoved::read_nicira(reader).map(|removed| Message::FlowRemoved(Box::new(removed)))
            }
            (NICIRA, kind::PACKET_IN, _) => {
                PacketIn::read_nicira(reader).map(|packet| Message::PacketIn(Box::new(packet)))
            }
            (NICIRA, kind::ROLE_REQUEST, _) => RoleMessage::read_nicira(reader).map(Message::RoleRequest),
            (NICIRA, kind::ROLE_REPLY, _) => RoleMessage::read_nicira(reader).map(Message::RoleReply),
            (NICIRA, kind::SET_ASYNC_CONFIG, _) => Async::read(reader, Version::V13).map(Message::SetAsync),
            (NICIRA, ..) => Nicira::read(number, reader, self.version).map(Message::Nicira),
            _ => Err(Failure::BadExperimenter),
        }
    }

    /// Writes a whole message.
    ///
    /// # Errors
    /// The message is longer than 65,535 bytes, or a part of it has no form in the version.
    pub fn encode(self, transaction: u32, message: &Message) -> Result<Vec<u8>, EncodeError> {
        let mut writer = Writer::new(self.option_bytes);
        self.write(&mut writer, transaction, message);
        let bytes = writer.finish().map_err(|what| EncodeError::NoForm(what, self.version.number()))?;
        if bytes.len() > usize::from(u16::MAX) { Err(EncodeError::TooLong(bytes.len())) } else { Ok(bytes) }
    }

    /// Everything of a multipart reply in front of its elements. Length and flags are zeros: a reply of several parts has
    /// them when its elements are known.
    pub fn reply_head(self, transaction: u32, request: &Request) -> Vec<u8> {
        let mut writer = Writer::new(self.option_bytes);
        let kind = Kind::MultipartReply.number(self.version).unwrap_or_default(); // each version has it
        writer.u8(self.version.number()).u8(kind).u16(0).u32(transaction);
        request.write_reply_head(&mut writer, self.version);
        writer.finish().unwrap_or_default() // a head has a form wherever its request had one
    }

    /// The elements of a multipart reply without its head.
    ///
    /// # Errors
    /// A part of them has no form in the version.
    pub fn reply_elements(self, reply: &Reply) -> Result<Vec<u8>, EncodeError> {
        let mut writer = Writer::new(self.option_bytes);
        reply.write_elements(&mut writer, self.version);
        writer.finish().map_err(|what| EncodeError::NoForm(what, self.version.number()))
    }

    /// Appends a message to the writer.
    fn write(self, writer: &mut Writer, transaction: u32, message: &Message) {
        let start = writer.len();
        writer.u8(self.version.number());
        match self.kind(message).and_then(|kind| kind.number(self.version)) {
            Some(number) => {
                writer.u8(number);
            }
            None => {
                writer.u8(0);
                writer.refuse("the message");
            }
        }
        writer.u16(0).u32(transaction);
        debug_assert_eq!(writer.len() - start, HEADER_BYTES);
        self.write_body(writer, transaction, message);
        writer.length(start, 2);
    }

    /// The kind of message on the wire; an experimenter's where the version has no own.
    fn kind(self, message: &Message) -> Option<Kind> {
        let old = self.version == Version::V10;
        Some(match message {
            Message::Hello(_) => Kind::Hello,
            Message::Error(_) => Kind::Error,
            Message::EchoRequest(_) => Kind::EchoRequest,
            Message::EchoReply(_) => Kind::EchoReply,
            Message::FeaturesRequest => Kind::FeaturesRequest,
            Message::FeaturesReply(_) => Kind::FeaturesReply,
            Message::GetConfigRequest => Kind::GetConfigRequest,
            Message::GetConfigReply(_) => Kind::GetConfigReply,
            Message::SetConfig(_) => Kind::SetConfig,
            Message::PacketIn(packet) if packet.nicira => Kind::Experimenter,
            Message::PacketIn(_) => Kind::PacketIn,
            Message::FlowRemoved(removed) if old && !removed.fits_10() => Kind::Experimenter,
            Message::FlowRemoved(_) => Kind::FlowRemoved,
            Message::PortStatus(_) => Kind::PortStatus,
            Message::PacketOut(_) => Kind::PacketOut,
            Message::FlowMod(flow) if old && !flow.fits_10() => Kind::Experimenter,
            Message::FlowMod(_) => Kind::FlowMod,
            Message::GroupMod(_) if old => Kind::Experimenter,
            Message::GroupMod(_) => Kind::GroupMod,
            Message::PortMod(_) => Kind::PortMod,
            Message::TableMod(_) => Kind::TableMod,
            Message::MeterMod(_) => Kind::MeterMod,
            Message::MultipartRequest(..) => Kind::MultipartRequest,
            Message::MultipartReply(..) => Kind::MultipartReply,
            Message::BarrierRequest => Kind::BarrierRequest,
            Message::BarrierReply => Kind::BarrierReply,
            Message::RoleRequest(_) | Message::RoleReply(_) | Message::SetAsync(_) if old => {
                Kind::Experimenter
            }
            Message::RoleRequest(_) => Kind::RoleRequest,
            Message::RoleReply(_) => Kind::RoleReply,
            Message::RoleStatus(_) => Kind::RoleStatus,
            Message::GetAsyncRequest => Kind::GetAsyncRequest,
            Message::GetAsyncReply(_) => Kind::GetAsyncReply,
            Message::SetAsync(_) => Kind::SetAsync,
            Message::BundleControl(_) | Message::BundleAdd(_) if self.version == Version::V13 => {
                Kind::Experimenter
            }
            Message::BundleControl(_) => Kind::BundleControl,
            Message::BundleAdd(_) => Kind::BundleAdd,
            Message::Nicira(_) => Kind::Experimenter,
        })
    }

    fn write_body(self, writer: &mut Writer, transaction: u32, message: &Message) {
        let (version, old) = (self.version, self.version == Version::V10);
        match message {
            Message::Hello(hello) => hello.write(writer),
            Message::Error(error) => error.write(writer),
            Message::EchoRequest(data) | Message::EchoReply(data) => {
                writer.put(data);
            }
            Message::FeaturesReply(features) => features.write(writer, version),
            Message::GetConfigReply(config) | Message::SetConfig(config) => config.write(writer),
            Message::PacketIn(packet) => {
                if packet.nicira {
                    writer.u32(NICIRA).u32(kind::PACKET_IN);
                }
                packet.write(writer, version);
            }
            Message::FlowRemoved(removed) if old && !removed.fits_10() => {
                writer.u32(NICIRA).u32(kind::FLOW_REMOVED);
                removed.write_nicira(writer);
            }
            Message::FlowRemoved(removed) => removed.write(writer, version),
            Message::PortStatus(status) => status.write(writer, version),
            Message::PacketOut(packet) => packet.write(writer, version),
            Message::FlowMod(flow) if old => {
                if !flow.fits_10() {
                    writer.u32(NICIRA).u32(kind::FLOW_MOD);
                }
                flow.write_10(writer, self);
            }
            Message::FlowMod(flow) => flow.write(writer, version),
            Message::GroupMod(group) => {
                if old {
                    writer.u32(NICIRA).u32(kind::GROUP_MOD);
                }
                group.write(writer, version);
            }
            Message::PortMod(port) => port.write(writer, version),
            Message::TableMod(table) => table.write(writer),
            Message::MeterMod(meter) => meter.write(writer),
            Message::MultipartRequest(request, more) => request.write(writer, *more, version),
            Message::MultipartReply(reply, more) => reply.write(writer, *more, version),
            Message::RoleRequest(_) | Message::RoleReply(_) | Message::RoleStatus(_) => {
                write_role(writer, message, version);
            }
            Message::SetAsync(masks) | Message::GetAsyncReply(masks) => {
                if old {
                    writer.u32(NICIRA).u32(kind::SET_ASYNC_CONFIG);
                }
                masks.write(writer, version);
            }
            Message::BundleControl(control) => {
                if version == Version::V13 {
                    writer.u32(ONF).u32(ONF_BUNDLE_CONTROL);
                }
                control.write(writer);
            }
            Message::BundleAdd(add) => {
                if version == Version::V13 {
                    writer.u32(ONF).u32(ONF_BUNDLE_ADD);
                }
                add.write_head(writer);
                self.write(writer, transaction, &add.message);
            }
            Message::Nicira(nicira) => nicira.write(writer, version),
            Message::FeaturesRequest
            | Message::GetConfigRequest
            | Message::BarrierRequest
            | Message::BarrierReply
            | Message::GetAsyncRequest => {}
        }
    }
}

fn write_role(writer: &mut Writer, message: &Message, version: Version) {
    match message {
        Message::RoleStatus(status) => status.write(writer),
        Message::RoleRequest(role) | Message::RoleReply(role) if version == Version::V10 => {
            let reply = matches!(message, Message::RoleReply(_));
            writer.u32(NICIRA).u32(if reply { kind::ROLE_REPLY } else { kind::ROLE_REQUEST });
            role.write_nicira(writer);
        }
        Message::RoleRequest(role) | Message::RoleReply(role) => role.write(writer),
        _ => {}
    }
}
