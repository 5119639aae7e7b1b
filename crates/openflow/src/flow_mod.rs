//! Changes of flows, and the messages about ended flows (OpenFlow 1.5 §7.3.4.3, §7.4.2).

use flow::{Action, Field, Flow, Match, Needs, port};

use crate::bytes::{Reader, Writer, padding};
use crate::oxm::{self, Cookie, MatchForm};
use crate::statistics::{self, Counts};
use crate::{Codec, Failure, Version, instruction, match10, number};

/// The kind of change of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "OpenFlow's names")]
pub enum FlowCommand {
    Add,
    Modify,
    ModifyStrict,
    Delete,
    DeleteStrict,
}

const COMMANDS: [FlowCommand; 5] = [
    FlowCommand::Add,
    FlowCommand::Modify,
    FlowCommand::ModifyStrict,
    FlowCommand::Delete,
    FlowCommand::DeleteStrict,
];

/// The table number that means all tables, or any table.
pub const ANY_TABLE: u8 = u8::MAX;
/// The group number that means any group.
pub const ANY_GROUP: u32 = u32::MAX;
/// A buffer's number that means none.
const NO_BUFFER: u32 = u32::MAX;

/// Gives the actions of OpenFlow 1.0 that set ports, which are read as those of TCP, the protocol of the flow's match.
fn name_ports(flow: &mut Flow) {
    let (source, destination) = match &flow.wanted {
        wanted if wanted.meets(Needs::Udp) => (Field::UdpSrc, Field::UdpDst),
        wanted if wanted.meets(Needs::Sctp) => (Field::SctpSrc, Field::SctpDst),
        _ => return,
    };
    for action in &mut flow.actions {
        match action {
            Action::SetField(field @ Field::TcpSrc, ..) => *field = source,
            Action::SetField(field @ Field::TcpDst, ..) => *field = destination,
            _ => {}
        }
    }
}

/// A change of flows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlowMod {
    /// The kind of change.
    pub command: FlowCommand,
    /// The flow to add, or the flow that selects the flows to change. Its table is [`ANY_TABLE`] for flows in all
    /// tables.
    pub flow: Flow,
    /// The bits of a flow's cookie that must be equal to those of `cookie`; not used by the command that adds.
    pub cookie_mask: u64,
    /// The cookie of the flows to change. OpenFlow 1.3 and later have one number for this cookie and the flow's own.
    pub cookie: u64,
    /// Selects only flows that output to this port.
    pub out_port: Option<u16>,
    /// Selects only flows that use this group.
    pub out_group: Option<u32>,
    /// The buffer whose packet passes through the flow.
    pub buffer: Option<u32>,
    /// OpenFlow 1.0: whether the message has the form of Nicira's flow_mod, which has all fields.
    pub nicira: bool,
}

impl FlowMod {
    /// A command with a flow and no other settings.
    pub fn new(command: FlowCommand, flow: Flow) -> Self {
        Self {
            command,
            flow,
            cookie_mask: 0,
            cookie: 0,
            out_port: None,
            out_group: None,
            buffer: None,
            nicira: false,
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self, Failure> {
        let mut flow = Flow { cookie: reader.u64()?, ..Flow::default() };
        let cookie_mask = reader.u64()?;
        flow.table = reader.u8()?;
        let command = *COMMANDS.get(usize::from(reader.u8()?)).ok_or(Failure::FlowModCommand)?;
        flow.timeouts = flow::Timeouts { idle: reader.u16()?, hard: reader.u16()? };
        flow.priority = reader.u16()?;
        let buffer = Some(reader.u32()?).filter(|buffer| *buffer != NO_BUFFER);
        let out_port = number::read(reader, version, Failure::BadPort)?;
        let out_group = Some(reader.u32()?).filter(|group| *group != ANY_GROUP);
        let flags = reader.u16()?;
        let importance = reader.u16()?;
        flow.importance = if version >= Version::V14 { importance } else { 0 };
        instruction::read_flags(&mut flow, flags, version)?;
        flow.wanted = oxm::read_match(reader, MatchForm::Match)?;
        flow.actions = instruction::read_list(reader, version)?;
        let back = |action: &Action| matches!(action, Action::GotoTable(table) if *table <= flow.table);
        if flow.table != ANY_TABLE && flow.actions.iter().any(back) {
            return Err(Failure::InstructionTable);
        }
        let out_port = Some(out_port).filter(|port| *port != port::ANY);
        let cookie = flow.cookie;
        Ok(Self { command, flow, cookie_mask, cookie, out_port, out_group, buffer, nicira: false })
    }

    /// Reads a flow_mod of OpenFlow 1.0, or Nicira's form of it.
    pub(crate) fn read_10(reader: &mut Reader<'_>, codec: Codec, nicira: bool) -> Result<Self, Failure> {
        let mut flow = Flow::default();
        if !nicira {
            flow.wanted = match10::read(reader)?;
        }
        flow.cookie = reader.u64()?;
        let command = reader.u16()?;
        flow.table = if codec.table_ids { (command >> 8) as u8 } else { ANY_TABLE };
        let command = if codec.table_ids { command & 0xff } else { command };
        let command = *COMMANDS.get(usize::from(command)).ok_or(Failure::FlowModCommand)?;
        flow.timeouts = flow::Timeouts { idle: reader.u16()?, hard: reader.u16()? };
        flow.priority = reader.u16()?;
        let buffer = Some(reader.u32()?).filter(|buffer| *buffer != NO_BUFFER);
        let out_port = Some(reader.u16()?).filter(|port| *port != port::ANY);
        let flags = reader.u16()?;
        instruction::read_flags(&mut flow, flags, Version::V10)?;
        let mut cookie = Cookie::default();
        if nicira {
            let length = usize::from(reader.u16()?);
            reader.skip(6)?;
            let mut fields = reader.with(Failure::MatchLength).padded(length)?;
            reader.skip(length + padding(length))?;
            (flow.wanted, cookie) = oxm::read_fields(&mut fields, MatchForm::WithCookie)?;
        }
        flow.actions = instruction::read(reader, Version::V10)?;
        name_ports(&mut flow);
        let (cookie, cookie_mask) = (cookie.value, cookie.mask);
        Ok(Self { command, flow, cookie_mask, cookie, out_port, out_group: None, buffer, nicira })
    }

    fn number(&self) -> u8 {
        COMMANDS.iter().position(|command| *command == self.command).unwrap_or_default() as u8 // below five
    }

    pub(crate) fn write(&self, writer: &mut Writer, version: Version) {
        let flow = &self.flow;
        writer.u64(flow.cookie).u64(self.cookie_mask).u8(flow.table).u8(self.number());
        writer.u16(flow.timeouts.idle).u16(flow.timeouts.hard).u16(flow.priority);
        writer.u32(self.buffer.unwrap_or(NO_BUFFER));
        number::write(writer, version, self.out_port.unwrap_or(port::ANY));
        writer.u32(self.out_group.unwrap_or(ANY_GROUP)).u16(instruction::flags(flow, version));
        writer.u16(if version >= Version::V14 { flow.importance } else { 0 });
        oxm::write_match(writer, &flow.wanted, version);
        instruction::write(writer, &flow.actions, version);
    }

    /// Whether OpenFlow 1.0's own form can express the message.
    pub(crate) fn fits_10(&self) -> bool {
        !self.nicira && self.cookie_mask == 0 && match10::fits(&self.flow.wanted)
    }

    /// Writes OpenFlow 1.0's own form if it can express the message, and Nicira's form otherwise.
    pub(crate) fn write_10(&self, writer: &mut Writer, codec: Codec) {
        let (flow, fits) = (&self.flow, self.fits_10());
        if fits {
            match10::write(writer, &flow.wanted);
        }
        let table = if codec.table_ids { u16::from(flow.table) << 8 } else { 0 };
        writer.u64(flow.cookie).u16(table | u16::from(self.number()));
        writer.u16(flow.timeouts.idle).u16(flow.timeouts.hard).u16(flow.priority);
        writer.u32(self.buffer.unwrap_or(NO_BUFFER)).u16(self.out_port.unwrap_or(port::ANY));
        writer.u16(instruction::flags(flow, Version::V10));
        if !fits {
            let cookie = Cookie { value: self.cookie, mask: self.cookie_mask };
            let at = writer.len();
            writer.u16(0).zeros(6);
            let start = writer.len();
            oxm::write_fields(writer, &flow.wanted, cookie, Version::V10);
            let length = (writer.len() - start) as u16; // checked for the whole message
            writer.set_u16(at, length).pad(start);
        }
        instruction::write(writer, &flow.actions, Version::V10);
    }
}

/// The reason why a flow has ended (OpenFlow 1.5 §7.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "OpenFlow's names")]
pub enum RemovedReason {
    IdleTimeout,
    HardTimeout,
    Delete,
    GroupDelete,
    MeterDelete,
    Eviction,
}

const REASONS: [RemovedReason; 6] = [
    RemovedReason::IdleTimeout,
    RemovedReason::HardTimeout,
    RemovedReason::Delete,
    RemovedReason::GroupDelete,
    RemovedReason::MeterDelete,
    RemovedReason::Eviction,
];

/// The message that a flow has ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlowRemoved {
    /// Why.
    pub reason: RemovedReason,
    /// Its table. The flow's table; OpenFlow 1.0 does not send it.
    pub table: u8,
    /// Its priority.
    pub priority: u16,
    /// Its cookie.
    pub cookie: u64,
    /// Its times.
    pub timeouts: flow::Timeouts,
    /// Its match.
    pub wanted: Match,
    /// The flow's counts.
    pub counts: Counts,
}

impl FlowRemoved {
    pub(crate) fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self, Failure> {
        let reason_of = |number: u8| REASONS.get(usize::from(number)).copied().ok_or(Failure::BadReason);
        if version >= Version::V15 {
            let (table, reason) = (reader.u8()?, reason_of(reader.u8()?)?);
            let priority = reader.u16()?;
            let timeouts = flow::Timeouts { idle: reader.u16()?, hard: reader.u16()? };
            let cookie = reader.u64()?;
            let wanted = oxm::read_match(reader, MatchForm::Match)?;
            let counts = statistics::read(reader)?;
            return Ok(Self { reason, table, priority, cookie, timeouts, wanted, counts });
        }
        let mut wanted = Match::ANY;
        let old = version == Version::V10;
        if old {
            wanted = match10::read(reader)?;
        }
        let (cookie, priority) = (reader.u64()?, reader.u16()?);
        let (reason, table) = (reason_of(reader.u8()?)?, reader.u8()?);
        let duration = Some((reader.u32()?, reader.u32()?));
        let mut timeouts = flow::Timeouts { idle: reader.u16()?, hard: reader.u16()? };
        let (packets, bytes) = (Some(reader.u64()?), Some(reader.u64()?));
        let table = if old { 0 } else { table };
        timeouts.hard = if old { 0 } else { timeouts.hard };
        if !old {
            wanted = oxm::read_match(reader, MatchForm::Match)?;
        }
        let counts = Counts { duration, packets, bytes, ..Counts::default() };
        Ok(Self { reason, table, priority, cookie, timeouts, wanted, counts })
    }

    /// Whether OpenFlow 1.0's own form can express the match and the table.
    pub(crate) fn fits_10(&self) -> bool {
        self.table == 0 && match10::fits(&self.wanted)
    }

    /// Reads Nicira's form, which has all fields.
    pub(crate) fn read_nicira(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        let (cookie, priority) = (reader.u64()?, reader.u16()?);
        let reason = REASONS.get(usize::from(reader.u8()?)).copied().ok_or(Failure::BadReason)?;
        let table = reader.u8()?.saturating_sub(1);
        let duration = Some((reader.u32()?, reader.u32()?));
        let timeouts = flow::Timeouts { idle: reader.u16()?, hard: 0 };
        let length = usize::from(reader.u16()?);
        let (packets, bytes) = (Some(reader.u64()?), Some(reader.u64()?));
        let mut fields = reader.with(Failure::MatchLength).part(length)?;
        reader.skip(length + padding(length))?;
        let (wanted, _) = oxm::read_fields(&mut fields, MatchForm::WithCookie)?;
        let counts = Counts { duration, packets, bytes, ..Counts::default() };
        Ok(Self { reason, table, priority, cookie, timeouts, wanted, counts })
    }

    /// Writes Nicira's form.
    pub(crate) fn write_nicira(&self, writer: &mut Writer) {
        let duration = self.counts.duration.unwrap_or_default();
        writer.u64(self.cookie).u16(self.priority).u8(self.reason_number());
        writer.u8(self.table.saturating_add(1)).u32(duration.0).u32(duration.1).u16(self.timeouts.idle);
        let at = writer.len();
        writer.u16(0).u64(self.counts.packets.unwrap_or(u64::MAX)).u64(self.counts.bytes.unwrap_or(u64::MAX));
        let start = writer.len();
        oxm::write_fields(writer, &self.wanted, Cookie::default(), Version::V10);
        let length = (writer.len() - start) as u16; // checked for the whole message
        writer.set_u16(at, length).pad(start);
    }

    fn reason_number(&self) -> u8 {
        REASONS.iter().position(|reason| *reason == self.reason).unwrap_or_default() as u8 // below six
    }

    pub(crate) fn write(&self, writer: &mut Writer, version: Version) {
        let reason = self.reason_number();
        if version >= Version::V15 {
            writer.u8(self.table).u8(reason).u16(self.priority);
            writer.u16(self.timeouts.idle).u16(self.timeouts.hard).u64(self.cookie);
            oxm::write_match(writer, &self.wanted, version);
            return statistics::write(writer, &self.counts);
        }
        let old = version == Version::V10;
        if old {
            match10::write(writer, &self.wanted);
        }
        let duration = self.counts.duration.unwrap_or_default();
        writer.u64(self.cookie).u16(self.priority).u8(reason).u8(if old { 0 } else { self.table });
        writer.u32(duration.0).u32(duration.1).u16(self.timeouts.idle);
        writer.u16(if old { 0 } else { self.timeouts.hard });
        writer.u64(self.counts.packets.unwrap_or(u64::MAX)).u64(self.counts.bytes.unwrap_or(u64::MAX));
        if !old {
            oxm::write_match(writer, &self.wanted, version);
        }
    }
}
