//! Nicira's messages that belong to no other family.

use crate::bytes::{Reader, Writer};
use crate::ct_flush::CtFlush;
use crate::packet::PacketIn2;
use crate::tlv::{TlvMod, TlvTable};
use crate::{Failure, Version};

/// Numbers of Nicira's messages.
pub(crate) mod kind {
    pub const ROLE_REQUEST: u32 = 10;
    pub const ROLE_REPLY: u32 = 11;
    pub const SET_FLOW_FORMAT: u32 = 12;
    pub const FLOW_MOD: u32 = 13;
    pub const FLOW_REMOVED: u32 = 14;
    pub const FLOW_MOD_TABLE_ID: u32 = 15;
    pub const SET_PACKET_IN_FORMAT: u32 = 16;
    pub const PACKET_IN: u32 = 17;
    pub const FLOW_AGE: u32 = 18;
    pub const SET_ASYNC_CONFIG: u32 = 19;
    pub const SET_CONTROLLER_ID: u32 = 20;
    pub const FLOW_MONITOR_CANCEL: u32 = 21;
    pub const FLOW_MONITOR_PAUSED: u32 = 22;
    pub const FLOW_MONITOR_RESUMED: u32 = 23;
    pub const TLV_TABLE_MOD: u32 = 24;
    pub const TLV_TABLE_REQUEST: u32 = 25;
    pub const TLV_TABLE_REPLY: u32 = 26;
    pub const RESUME: u32 = 28;
    pub const CT_FLUSH_ZONE: u32 = 29;
    pub const PACKET_IN2: u32 = 30;
    pub const GROUP_MOD: u32 = 31;
    pub const CT_FLUSH: u32 = 32;
}

/// One of Nicira's messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Nicira {
    /// OpenFlow 1.0: chooses whether matches have OpenFlow's form (0) or Nicira's (2).
    SetFlowFormat(u32),
    /// Chooses whether the upper half of a flow_mod's command is the table: see [`crate::Codec::table_ids`].
    FlowModTableId(bool),
    /// Chooses the form of packets to the controller: OpenFlow's (0), Nicira's (1) or properties (2).
    SetPacketInFormat(u32),
    /// Adds ages to flow statistics.
    FlowAge,
    /// Chooses which packets for controllers this controller gets.
    SetControllerId(u16),
    /// Ends a flow monitor.
    FlowMonitorCancel(u32),
    /// Flow monitors send no updates until they resume.
    FlowMonitorPaused,
    /// Flow monitors send updates again.
    FlowMonitorResumed,
    /// A change of the table of tunnel options.
    TlvMod(TlvMod),
    /// Requests the table of tunnel options.
    TlvRequest,
    /// The table of tunnel options.
    TlvReply(TlvTable),
    /// Lets a packet continue.
    Resume(Box<PacketIn2>),
    /// A packet for a controller.
    PacketIn2(Box<PacketIn2>),
    /// Ends the connections of a zone.
    CtFlushZone(u16),
    /// Ends connections.
    CtFlush(Box<CtFlush>),
}

impl Nicira {
    fn number(&self) -> u32 {
        match self {
            Self::SetFlowFormat(_) => kind::SET_FLOW_FORMAT,
            Self::FlowModTableId(_) => kind::FLOW_MOD_TABLE_ID,
            Self::SetPacketInFormat(_) => kind::SET_PACKET_IN_FORMAT,
            Self::FlowAge => kind::FLOW_AGE,
            Self::SetControllerId(_) => kind::SET_CONTROLLER_ID,
            Self::FlowMonitorCancel(_) => kind::FLOW_MONITOR_CANCEL,
            Self::FlowMonitorPaused => kind::FLOW_MONITOR_PAUSED,
            Self::FlowMonitorResumed => kind::FLOW_MONITOR_RESUMED,
            Self::TlvMod(_) => kind::TLV_TABLE_MOD,
            Self::TlvRequest => kind::TLV_TABLE_REQUEST,
            Self::TlvReply(_) => kind::TLV_TABLE_REPLY,
            Self::Resume(_) => kind::RESUME,
            Self::PacketIn2(_) => kind::PACKET_IN2,
            Self::CtFlushZone(_) => kind::CT_FLUSH_ZONE,
            Self::CtFlush(_) => kind::CT_FLUSH,
        }
    }

    pub(crate) fn read(number: u32, reader: &mut Reader<'_>, version: Version) -> Result<Self, Failure> {
        Ok(match number {
            kind::SET_FLOW_FORMAT if version == Version::V10 => Self::SetFlowFormat(reader.u32()?),
            kind::FLOW_MOD_TABLE_ID => {
                let set = reader.u8()? != 0;
                reader.skip(7)?;
                Self::FlowModTableId(set)
            }
            kind::SET_PACKET_IN_FORMAT => Self::SetPacketInFormat(reader.u32()?),
            kind::FLOW_AGE => Self::FlowAge,
            kind::SET_CONTROLLER_ID => {
                reader.zeros(6, Failure::NotZero)?;
                Self::SetControllerId(reader.u16()?)
            }
            // Later versions have a command for it.
            kind::FLOW_MONITOR_CANCEL if version == Version::V10 => Self::FlowMonitorCancel(reader.u32()?),
            kind::FLOW_MONITOR_PAUSED => Self::FlowMonitorPaused,
            kind::FLOW_MONITOR_RESUMED => Self::FlowMonitorResumed,
            kind::TLV_TABLE_MOD => Self::TlvMod(TlvMod::read(reader)?),
            kind::TLV_TABLE_REQUEST => Self::TlvRequest,
            kind::TLV_TABLE_REPLY => Self::TlvReply(TlvTable::read(reader)?),
            kind::RESUME => Self::Resume(Box::new(PacketIn2::read(reader)?)),
            kind::PACKET_IN2 => Self::PacketIn2(Box::new(PacketIn2::read(reader)?)),
            kind::CT_FLUSH_ZONE => {
                reader.zeros(6, Failure::NotZero)?;
                Self::CtFlushZone(reader.u16()?)
            }
            kind::CT_FLUSH => Self::CtFlush(Box::new(CtFlush::read(reader)?)),
            _ => return Err(Failure::BadExperimenterType),
        })
    }

    pub(crate) fn write(&self, writer: &mut Writer, version: Version) {
        writer.u32(crate::NICIRA).u32(self.number());
        match self {
            Self::SetFlowFormat(number)
            | Self::SetPacketInFormat(number)
            | Self::FlowMonitorCancel(number) => {
                writer.u32(*number);
            }
            Self::FlowModTableId(set) => {
                writer.u8((*set).into()).zeros(7);
            }
            Self::SetControllerId(number) | Self::CtFlushZone(number) => {
                writer.zeros(6).u16(*number);
            }
            Self::FlowAge | Self::FlowMonitorPaused | Self::FlowMonitorResumed | Self::TlvRequest => {}
            Self::TlvMod(change) => change.write(writer),
            Self::TlvReply(table) => table.write(writer),
            Self::Resume(packet) | Self::PacketIn2(packet) => packet.write(writer, version),
            Self::CtFlush(flush) => flush.write(writer),
        }
    }
}
