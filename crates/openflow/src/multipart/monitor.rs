//! Flow monitors: notifications of changes of flows (OpenFlow 1.5 §7.3.5.19; Nicira's form in 1.0).

use flow::{Action, Match, Timeouts, port};

use super::flow::{FlowRequest, read_nicira_match, write_nicira_match};
use crate::bytes::{Reader, Writer};
use crate::flow_mod::ANY_GROUP;
use crate::oxm::{self, Cookie, MatchForm};
use crate::{Failure, Version, instruction, number};

/// The events that a monitor reports, and the form of its reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MonitorFlags(u16);

impl MonitorFlags {
    /// The flows that exist when the monitor is added.
    pub const INITIAL: Self = Self(1);
    /// Added flows.
    pub const ADD: Self = Self(2);
    /// Flows that have ended.
    pub const REMOVED: Self = Self(4);
    /// Changed flows.
    pub const MODIFY: Self = Self(8);
    /// Reports contain the flows' actions.
    pub const INSTRUCTIONS: Self = Self(16);
    /// OpenFlow 1.4 and later: also changes by the monitor's own controller are reported in full.
    pub const NO_ABBREV: Self = Self(32);
    /// OpenFlow 1.4 and later: only changes by the monitor's own controller are reported. In Nicira's form this flag
    /// has the number of `NO_ABBREV`.
    pub const ONLY_OWN: Self = Self(64);

    /// Whether all bits of `other` are set.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bits of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A request for notifications of changes of flows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MonitorRequest {
    /// The monitor's number.
    pub id: u32,
    /// The events that are reported.
    pub flags: MonitorFlags,
    /// Selects only flows that output to this port.
    pub out_port: Option<u16>,
    /// Selects only flows that use this group.
    pub out_group: Option<u32>,
    /// The flows' table; [`crate::ANY_TABLE`] for all tables.
    pub table: u8,
    /// 0 to add the monitor, 1 to modify, 2 to delete it. OpenFlow 1.0 has one command.
    pub command: u8,
    /// The flows' match has at least these bits.
    pub wanted: Match,
}

impl MonitorRequest {
    /// The flows that the monitor selects.
    pub fn flows(&self) -> FlowRequest {
        let Self { out_port, out_group, .. } = *self;
        FlowRequest { out_port, out_group, ..FlowRequest::of(self.table, self.wanted) }
    }

    pub(super) fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self, Failure> {
        let id = reader.u32()?;
        if version == Version::V10 {
            let flags = reader.u16()?;
            if flags & !0x3f != 0 {
                return Err(Failure::MonitorFlags);
            }
            let out_port = Some(reader.u16()?).filter(|port| *port != port::ANY);
            let length = usize::from(reader.u16()?);
            let table = reader.u8()?;
            reader.zeros(5, Failure::NotZero)?;
            let (wanted, _) = read_nicira_match(reader, length)?;
            let flags = MonitorFlags(flags);
            return Ok(Self { id, flags, out_port, out_group: None, table, command: 0, wanted });
        }
        let out_port =
            Some(number::read(reader, version, Failure::BadPort)?).filter(|port| *port != port::ANY);
        let out_group = Some(reader.u32()?).filter(|group| *group != ANY_GROUP);
        let (flags, table, command) = (reader.u16()?, reader.u8()?, reader.u8()?);
        if flags & !0x7f != 0 {
            return Err(Failure::MonitorFlags);
        }
        if command > 2 {
            return Err(Failure::MonitorCommand);
        }
        let wanted = oxm::read_match(reader, MatchForm::Match)?;
        Ok(Self { id, flags: MonitorFlags(flags), out_port, out_group, table, command, wanted })
    }

    pub(super) fn write(&self, writer: &mut Writer, version: Version) {
        writer.u32(self.id);
        if version == Version::V10 {
            writer.u16(self.flags.0).u16(self.out_port.unwrap_or(port::ANY));
            let at = writer.len();
            writer.u16(0).u8(self.table).zeros(5);
            return write_nicira_match(writer, at, &self.wanted, Cookie::default());
        }
        number::write(writer, version, self.out_port.unwrap_or(port::ANY));
        writer.u32(self.out_group.unwrap_or(ANY_GROUP)).u16(self.flags.0).u8(self.table).u8(self.command);
        oxm::write_match(writer, &self.wanted, version);
    }
}

/// The kind of an event of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "OpenFlow's names")]
pub enum MonitorEvent {
    Initial,
    Added,
    Removed,
    Modified,
}

/// A notification of a monitor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MonitorUpdate {
    /// An event of a flow, in full.
    Full(Box<MonitorFlow>),
    /// A change by the monitor's own controller with this transaction.
    Abbreviated(u32),
    /// OpenFlow 1.4 and later: the switch pauses notifications.
    Paused,
    /// OpenFlow 1.4 and later: the switch resumes notifications.
    Resumed,
}

/// A full report of an event of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MonitorFlow {
    /// The kind of event.
    pub event: MonitorEvent,
    /// Why a flow ended.
    pub reason: u16,
    /// The flow's table.
    pub table: u8,
    /// The flow's priority.
    pub priority: u16,
    /// The flow's time limits.
    pub timeouts: Timeouts,
    /// The flow's cookie.
    pub cookie: u64,
    /// The flow's match.
    pub wanted: Match,
    /// The flow's actions, if the monitor requested them.
    pub actions: Vec<Action>,
}

/// Events by number: of OpenFlow 1.4, and Nicira's.
const EVENTS: [(MonitorEvent, u16, Option<u16>); 4] = [
    (MonitorEvent::Initial, 0, None),
    (MonitorEvent::Added, 1, Some(0)),
    (MonitorEvent::Removed, 2, Some(1)),
    (MonitorEvent::Modified, 3, Some(2)),
];
const ABBREVIATED: u16 = 4;
const ABBREVIATED_10: u16 = 3;
const PAUSED: u16 = 5;
const RESUMED: u16 = 6;

fn number_of(row: &(MonitorEvent, u16, Option<u16>), version: Version) -> Option<u16> {
    if version == Version::V10 { row.2 } else { Some(row.1) }
}

impl MonitorUpdate {
    pub(super) fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self, Failure> {
        let mut body = reader.entry(8)?;
        let number = body.u16()?;
        let old = version == Version::V10;
        if number == if old { ABBREVIATED_10 } else { ABBREVIATED } {
            return body.u32().map(Self::Abbreviated);
        }
        match number {
            PAUSED if !old => return Ok(Self::Paused),
            RESUMED if !old => return Ok(Self::Resumed),
            _ => {}
        }
        let row = EVENTS.iter().find(|row| number_of(row, version) == Some(number));
        let event = row.ok_or(Failure::MonitorEvent)?.0;
        let flow = if old {
            MonitorFlow::read_10(&mut body, event)
        } else {
            MonitorFlow::read(&mut body, event, version)
        };
        flow.map(|flow| Self::Full(Box::new(flow)))
    }

    pub(super) fn write(&self, writer: &mut Writer, version: Version) {
        let (start, old) = (writer.len(), version == Version::V10);
        writer.u16(0);
        match self {
            Self::Full(flow) => {
                let row = EVENTS.iter().find(|row| row.0 == flow.event).unwrap_or(&EVENTS[0]);
                match number_of(row, version) {
                    Some(number) => writer.u16(number),
                    None => writer.u16(0), // OpenFlow 1.0 tells of flows that there are as if they were new
                };
                flow.write(writer, version);
            }
            Self::Abbreviated(transaction) => {
                writer.u16(if old { ABBREVIATED_10 } else { ABBREVIATED }).u32(*transaction);
            }
            Self::Paused | Self::Resumed if old => writer.refuse("a pause of flow monitors"),
            Self::Paused => {
                writer.u16(PAUSED).zeros(4);
            }
            Self::Resumed => {
                writer.u16(RESUMED).zeros(4);
            }
        }
        writer.length(start, 0);
    }
}

impl MonitorFlow {
    fn read_10(body: &mut Reader<'_>, event: MonitorEvent) -> Result<Self, Failure> {
        let (reason, priority) = (body.u16()?, body.u16()?);
        let timeouts = Timeouts { idle: body.u16()?, hard: body.u16()? };
        let (length, table) = (usize::from(body.u16()?), body.u8()?);
        body.skip(1)?;
        let cookie = body.u64()?;
        let (wanted, _) = read_nicira_match(body, length)?;
        let actions = instruction::read(body, Version::V10)?;
        Ok(Self { event, reason, table, priority, timeouts, cookie, wanted, actions })
    }

    fn read(body: &mut Reader<'_>, event: MonitorEvent, version: Version) -> Result<Self, Failure> {
        let (table, reason) = (body.u8()?, body.u8()?.into());
        let timeouts = Timeouts { idle: body.u16()?, hard: body.u16()? };
        let priority = body.u16()?;
        body.skip(4)?;
        let cookie = body.u64()?;
        let wanted = oxm::read_match(body, MatchForm::Match)?;
        let actions = instruction::read(body, version)?;
        Ok(Self { event, reason, table, priority, timeouts, cookie, wanted, actions })
    }

    fn write(&self, writer: &mut Writer, version: Version) {
        if version == Version::V10 {
            writer.u16(self.reason).u16(self.priority).u16(self.timeouts.idle).u16(self.timeouts.hard);
            let at = writer.len();
            writer.u16(0).u8(self.table).zeros(1).u64(self.cookie);
            write_nicira_match(writer, at, &self.wanted, Cookie::default());
        } else {
            writer.u8(self.table).u8(self.reason as u8).u16(self.timeouts.idle).u16(self.timeouts.hard);
            writer.u16(self.priority).zeros(4).u64(self.cookie);
            oxm::write_match(writer, &self.wanted, version);
        }
        instruction::write(writer, &self.actions, version);
    }
}
