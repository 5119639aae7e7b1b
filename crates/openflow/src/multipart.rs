//! Requests and replies that may come in several parts (OpenFlow 1.5 §7.3.5).

mod flow;
mod group;
mod monitor;
mod port;
mod table;

pub use self::flow::{FlowRequest, FlowStatistics};
pub use self::group::{GroupFeatures, GroupStatistics, MeterFeatures, MeterStatistics};
pub use self::monitor::{MonitorEvent, MonitorFlags, MonitorFlow, MonitorRequest, MonitorUpdate};
pub use self::port::{PortStatistics, QueueStatistics};
pub use self::table::{Description, OldTable, TableDescription, TableFeatures, TableStatistics};

use ::flow::{Group, Meter};

use crate::bytes::{Reader, Writer};
use crate::failure::NICIRA;
use crate::port::Port;
use crate::statistics::Counts;
use crate::{Failure, Version, number};

/// Types of multipart messages.
mod kind {
    pub const DESCRIPTION: u16 = 0;
    pub const FLOW: u16 = 1;
    pub const AGGREGATE: u16 = 2;
    pub const TABLE: u16 = 3;
    pub const PORT: u16 = 4;
    pub const QUEUE: u16 = 5;
    pub const GROUP: u16 = 6;
    pub const GROUP_DESCRIPTION: u16 = 7;
    pub const GROUP_FEATURES: u16 = 8;
    pub const METER: u16 = 9;
    pub const METER_CONFIG: u16 = 10;
    pub const METER_FEATURES: u16 = 11;
    pub const TABLE_FEATURES: u16 = 12;
    pub const PORT_DESCRIPTION: u16 = 13;
    pub const TABLE_DESCRIPTION: u16 = 14;
    pub const FLOW_MONITOR: u16 = 16;
    pub const EXPERIMENTER: u16 = 0xffff;
}

/// Nicira's types in OpenFlow 1.0.
mod nx {
    pub const FLOW: u32 = 0;
    pub const AGGREGATE: u32 = 1;
    pub const FLOW_MONITOR: u32 = 2;
    pub const GROUP: u32 = 7;
    pub const GROUP_DESCRIPTION: u32 = 8;
    pub const GROUP_FEATURES: u32 = 9;

    /// The type of later versions whose body a type of Nicira has.
    pub fn standard(number: u32) -> Option<u16> {
        Some(match number {
            FLOW => super::kind::FLOW,
            AGGREGATE => super::kind::AGGREGATE,
            FLOW_MONITOR => super::kind::FLOW_MONITOR,
            GROUP => super::kind::GROUP,
            GROUP_DESCRIPTION => super::kind::GROUP_DESCRIPTION,
            GROUP_FEATURES => super::kind::GROUP_FEATURES,
            _ => return None,
        })
    }
}

/// The bit that says that another part follows.
const MORE: u16 = 1;

/// A multipart request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each names what it asks for")]
pub enum Request {
    Description,
    Flow(FlowRequest),
    Aggregate(FlowRequest),
    Table,
    /// The counts of a port, or of all ports for `ANY`.
    Port(u16),
    /// The counts of a queue of a port. `ANY` stands for all ports, and all ones for all queues.
    Queue(u16, u32),
    /// The counts of a group.
    Group(u32),
    /// The descriptions of groups: in OpenFlow 1.5 of one or all, in older versions of all.
    GroupDescription(u32),
    GroupFeatures,
    /// The counts of a meter.
    Meter(u32),
    /// The description of a meter.
    MeterConfig(u32),
    MeterFeatures,
    /// The features of tables, for reading or setting them.
    TableFeatures(Vec<TableFeatures>),
    TableDescription,
    /// The descriptions of ports: in OpenFlow 1.5 of one or all, in older versions of all.
    PortDescription(u16),
    FlowMonitor(Vec<MonitorRequest>),
}

/// A multipart reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each names what it answers")]
pub enum Reply {
    Description(Box<Description>),
    /// Flows with their counts. The flag says whether a message of OpenFlow 1.0 has Nicira's form.
    Flow(Vec<FlowStatistics>, bool),
    /// The total counts of several flows. The flag says whether a message of OpenFlow 1.0 has Nicira's form.
    Aggregate(Counts, bool),
    Table(Vec<TableStatistics>),
    Port(Vec<PortStatistics>),
    Queue(Vec<QueueStatistics>),
    Group(Vec<GroupStatistics>),
    GroupDescription(Vec<Group>),
    GroupFeatures(GroupFeatures),
    Meter(Vec<MeterStatistics>),
    MeterConfig(Vec<Meter>),
    MeterFeatures(MeterFeatures),
    TableFeatures(Vec<TableFeatures>),
    TableDescription(Vec<TableDescription>),
    PortDescription(Vec<Port>),
    FlowMonitor(Vec<MonitorUpdate>),
}

/// Which numbers a body has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Number {
    Standard(u16),
    Nicira(u32),
}

/// Reads type and flags. Whether more parts follow.
fn read_head(reader: &mut Reader<'_>, version: Version) -> Result<(Number, bool), Failure> {
    let (number, flags) = (reader.u16()?, reader.u16()?);
    reader.skip(if version == Version::V10 { 0 } else { 4 })?;
    let since = match number {
        kind::DESCRIPTION..=kind::QUEUE | kind::PORT_DESCRIPTION => Version::V10,
        kind::GROUP..=kind::TABLE_FEATURES => Version::V13,
        kind::TABLE_DESCRIPTION | kind::FLOW_MONITOR => Version::V14,
        kind::EXPERIMENTER => {
            if reader.u32()? != NICIRA {
                return Err(Failure::BadExperimenter);
            }
            let number = reader.u32()?;
            reader.skip(if version == Version::V10 { 4 } else { 0 })?;
            if nx::standard(number).is_none() || version != Version::V10 {
                return Err(Failure::BadExperimenterType);
            }
            return Ok((Number::Nicira(number), flags & MORE != 0));
        }
        _ => return Err(Failure::BadMultipart),
    };
    if version < since {
        Err(Failure::BadMultipart)
    } else {
        Ok((Number::Standard(number), flags & MORE != 0))
    }
}

fn write_head(writer: &mut Writer, number: Number, more: bool, version: Version) {
    let old = version == Version::V10;
    let standard = match number {
        Number::Standard(number) => number,
        Number::Nicira(_) => kind::EXPERIMENTER,
    };
    writer.u16(standard).u16(if more { MORE } else { 0 }).zeros(if old { 0 } else { 4 });
    if let Number::Nicira(number) = number {
        writer.u32(NICIRA).u32(number).zeros(if old { 4 } else { 0 });
    }
}

impl Request {
    /// Writes the head of a part of the reply.
    pub(crate) fn write_reply_head(&self, writer: &mut Writer, version: Version) {
        write_head(writer, self.number(version), false, version);
    }

    fn number(&self, version: Version) -> Number {
        let old = version == Version::V10;
        Number::Standard(match self {
            Self::Flow(request) if old && request.nicira => return Number::Nicira(nx::FLOW),
            Self::Aggregate(request) if old && request.nicira => return Number::Nicira(nx::AGGREGATE),
            Self::FlowMonitor(_) if old => return Number::Nicira(nx::FLOW_MONITOR),
            Self::Group(_) if old => return Number::Nicira(nx::GROUP),
            Self::GroupDescription(_) if old => return Number::Nicira(nx::GROUP_DESCRIPTION),
            Self::GroupFeatures if old => return Number::Nicira(nx::GROUP_FEATURES),
            Self::Description => kind::DESCRIPTION,
            Self::Flow(_) => kind::FLOW,
            Self::Aggregate(_) => kind::AGGREGATE,
            Self::Table => kind::TABLE,
            Self::Port(_) => kind::PORT,
            Self::Queue(..) => kind::QUEUE,
            Self::Group(_) => kind::GROUP,
            Self::GroupDescription(_) => kind::GROUP_DESCRIPTION,
            Self::GroupFeatures => kind::GROUP_FEATURES,
            Self::Meter(_) => kind::METER,
            Self::MeterConfig(_) => kind::METER_CONFIG,
            Self::MeterFeatures => kind::METER_FEATURES,
            Self::TableFeatures(_) => kind::TABLE_FEATURES,
            Self::TableDescription => kind::TABLE_DESCRIPTION,
            Self::PortDescription(_) => kind::PORT_DESCRIPTION,
            Self::FlowMonitor(_) => kind::FLOW_MONITOR,
        })
    }

    /// Reads a request; whether more parts follow.
    pub(crate) fn read(reader: &mut Reader<'_>, version: Version) -> Result<(Self, bool), Failure> {
        let (number, more) = read_head(reader, version)?;
        let number = match number {
            Number::Standard(number) => number,
            Number::Nicira(nx::FLOW) => return Ok((Self::Flow(FlowRequest::read_nicira(reader)?), more)),
            Number::Nicira(nx::AGGREGATE) => {
                return Ok((Self::Aggregate(FlowRequest::read_nicira(reader)?), more));
            }
            Number::Nicira(number) => nx::standard(number).ok_or(Failure::BadExperimenterType)?,
        };
        Ok((Self::read_body(number, reader, version)?, more))
    }

    fn read_body(number: u16, reader: &mut Reader<'_>, version: Version) -> Result<Self, Failure> {
        let one = |reader: &mut Reader<'_>| -> Result<u32, Failure> {
            let value = reader.u32()?;
            reader.skip(4)?;
            Ok(value)
        };
        Ok(match number {
            kind::DESCRIPTION => Self::Description,
            kind::FLOW => Self::Flow(FlowRequest::read(reader, version)?),
            kind::AGGREGATE => Self::Aggregate(FlowRequest::read(reader, version)?),
            kind::TABLE => Self::Table,
            kind::PORT => {
                let port = number::read(reader, version, Failure::BadPort)?;
                reader.skip(if version == Version::V10 { 6 } else { 4 })?;
                Self::Port(port)
            }
            kind::QUEUE => {
                let (port, queue) = self::port::read_queue(reader, version)?;
                Self::Queue(port, queue)
            }
            kind::GROUP => Self::Group(one(reader)?),
            kind::GROUP_DESCRIPTION if !crate::group::has_old_form(version) => {
                Self::GroupDescription(one(reader)?)
            }
            kind::GROUP_DESCRIPTION => Self::GroupDescription(crate::ALL_GROUPS),
            kind::GROUP_FEATURES => Self::GroupFeatures,
            kind::METER => Self::Meter(one(reader)?),
            kind::METER_CONFIG => Self::MeterConfig(one(reader)?),
            kind::METER_FEATURES => Self::MeterFeatures,
            kind::TABLE_FEATURES => Self::TableFeatures(reader.all(TableFeatures::read)?),
            kind::TABLE_DESCRIPTION => Self::TableDescription,
            kind::PORT_DESCRIPTION if version >= Version::V15 => {
                Self::PortDescription(number::narrow(one(reader)?).ok_or(Failure::BadPort)?)
            }
            kind::PORT_DESCRIPTION => Self::PortDescription(::flow::port::ANY),
            _ => Self::FlowMonitor(reader.all(|reader| MonitorRequest::read(reader, version))?),
        })
    }

    pub(crate) fn write(&self, writer: &mut Writer, more: bool, version: Version) {
        write_head(writer, self.number(version), more, version);
        match self {
            Self::Flow(request) | Self::Aggregate(request) if version == Version::V10 && request.nicira => {
                request.write_nicira(writer);
            }
            Self::Flow(request) | Self::Aggregate(request) => request.write(writer, version),
            Self::Port(port) => {
                number::write(writer, version, *port);
                writer.zeros(if version == Version::V10 { 6 } else { 4 });
            }
            Self::Queue(port, queue) => self::port::write_queue(writer, *port, *queue, version),
            Self::GroupDescription(group) if !crate::group::has_old_form(version) => {
                writer.u32(*group).zeros(4);
            }
            Self::Group(number) | Self::Meter(number) | Self::MeterConfig(number) => {
                writer.u32(*number).zeros(4);
            }
            Self::PortDescription(port) if version >= Version::V15 => {
                writer.u32(number::wide(*port)).zeros(4);
            }
            Self::TableFeatures(tables) => tables.iter().for_each(|table| table.write(writer)),
            Self::FlowMonitor(requests) => requests.iter().for_each(|request| request.write(writer, version)),
            _ => {}
        }
    }
}

impl Reply {
    fn number(&self, version: Version) -> Number {
        let old = version == Version::V10;
        Number::Standard(match self {
            Self::Flow(_, true) if old => return Number::Nicira(nx::FLOW),
            Self::Aggregate(_, true) if old => return Number::Nicira(nx::AGGREGATE),
            Self::FlowMonitor(_) if old => return Number::Nicira(nx::FLOW_MONITOR),
            Self::Group(_) if old => return Number::Nicira(nx::GROUP),
            Self::GroupDescription(_) if old => return Number::Nicira(nx::GROUP_DESCRIPTION),
            Self::GroupFeatures(_) if old => return Number::Nicira(nx::GROUP_FEATURES),
            Self::Description(_) => kind::DESCRIPTION,
            Self::Flow(..) => kind::FLOW,
            Self::Aggregate(..) => kind::AGGREGATE,
            Self::Table(_) => kind::TABLE,
            Self::Port(_) => kind::PORT,
            Self::Queue(_) => kind::QUEUE,
            Self::Group(_) => kind::GROUP,
            Self::GroupDescription(_) => kind::GROUP_DESCRIPTION,
            Self::GroupFeatures(_) => kind::GROUP_FEATURES,
            Self::Meter(_) => kind::METER,
            Self::MeterConfig(_) => kind::METER_CONFIG,
            Self::MeterFeatures(_) => kind::METER_FEATURES,
            Self::TableFeatures(_) => kind::TABLE_FEATURES,
            Self::TableDescription(_) => kind::TABLE_DESCRIPTION,
            Self::PortDescription(_) => kind::PORT_DESCRIPTION,
            Self::FlowMonitor(_) => kind::FLOW_MONITOR,
        })
    }

    /// Reads a reply; whether more parts follow.
    pub(crate) fn read(reader: &mut Reader<'_>, version: Version) -> Result<(Self, bool), Failure> {
        let (number, more) = read_head(reader, version)?;
        let (number, nicira) = match number {
            Number::Standard(number) => (number, false),
            Number::Nicira(number) => (nx::standard(number).ok_or(Failure::BadExperimenterType)?, true),
        };
        Ok((Self::read_body(number, reader, version, nicira)?, more))
    }

    fn read_body(
        number: u16,
        reader: &mut Reader<'_>,
        version: Version,
        nicira: bool,
    ) -> Result<Self, Failure> {
        Ok(match number {
            kind::DESCRIPTION => Self::Description(Box::new(Description::read(reader)?)),
            kind::FLOW => {
                let flows = reader.all(|reader| FlowStatistics::read(reader, version, nicira))?;
                Self::Flow(flows, nicira)
            }
            kind::AGGREGATE => Self::Aggregate(self::flow::read_aggregate(reader, version)?, nicira),
            kind::TABLE => Self::Table(reader.all(|reader| TableStatistics::read(reader, version))?),
            kind::PORT => Self::Port(reader.all(|reader| PortStatistics::read(reader, version))?),
            kind::QUEUE => Self::Queue(reader.all(|reader| QueueStatistics::read(reader, version))?),
            kind::GROUP => Self::Group(reader.all(GroupStatistics::read)?),
            kind::GROUP_DESCRIPTION => {
                Self::GroupDescription(reader.all(|reader| self::group::read_description(reader, version))?)
            }
            kind::GROUP_FEATURES => Self::GroupFeatures(GroupFeatures::read(reader)?),
            kind::METER => Self::Meter(reader.all(MeterStatistics::read)?),
            kind::METER_CONFIG => Self::MeterConfig(reader.all(self::group::read_meter)?),
            kind::METER_FEATURES => Self::MeterFeatures(MeterFeatures::read(reader)?),
            kind::TABLE_FEATURES => Self::TableFeatures(reader.all(TableFeatures::read)?),
            kind::TABLE_DESCRIPTION => Self::TableDescription(reader.all(TableDescription::read)?),
            kind::PORT_DESCRIPTION => {
                Self::PortDescription(reader.all(|reader| Port::read(reader, version))?)
            }
            _ => Self::FlowMonitor(reader.all(|reader| MonitorUpdate::read(reader, version))?),
        })
    }

    pub(crate) fn write(&self, writer: &mut Writer, more: bool, version: Version) {
        write_head(writer, self.number(version), more, version);
        self.write_elements(writer, version);
    }

    /// Writes what follows the head.
    pub(crate) fn write_elements(&self, writer: &mut Writer, version: Version) {
        match self {
            Self::Description(description) => description.write(writer),
            Self::Flow(flows, nicira) => flows.iter().for_each(|flow| flow.write(writer, version, *nicira)),
            Self::Aggregate(counts, _) => self::flow::write_aggregate(writer, counts, version),
            Self::Table(tables) => tables.iter().for_each(|table| table.write(writer, version)),
            Self::Port(ports) => ports.iter().for_each(|port| port.write(writer, version)),
            Self::Queue(queues) => queues.iter().for_each(|queue| queue.write(writer, version)),
            Self::Group(groups) => groups.iter().for_each(|group| group.write(writer)),
            Self::GroupDescription(groups) => {
                groups.iter().for_each(|group| self::group::write_description(writer, group, version));
            }
            Self::GroupFeatures(features) => features.write(writer),
            Self::Meter(meters) => meters.iter().for_each(|meter| meter.write(writer)),
            Self::MeterConfig(meters) => {
                meters.iter().for_each(|meter| self::group::write_meter(writer, meter));
            }
            Self::MeterFeatures(features) => features.write(writer),
            Self::TableFeatures(tables) => tables.iter().for_each(|table| table.write(writer)),
            Self::TableDescription(tables) => tables.iter().for_each(|table| table.write(writer)),
            Self::PortDescription(ports) => ports.iter().for_each(|port| port.write(writer, version)),
            Self::FlowMonitor(updates) => updates.iter().for_each(|update| update.write(writer, version)),
        }
    }
}
