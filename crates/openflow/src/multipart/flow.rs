//! Statistics and descriptions of flows (OpenFlow 1.5 §7.3.5.2, §7.3.5.4).

use flow::{Action, Flow, Match, port};

use crate::bytes::{Reader, Writer, padding};
use crate::flow_mod::ANY_GROUP;
use crate::oxm::{self, Cookie, MatchForm};
use crate::statistics::{self, Counts};
use crate::{Failure, Version, instruction, match10, number};

/// Whether a message of OpenFlow 1.0 has Nicira's form.
pub(super) type Nicira = bool;

/// A selection of flows for a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlowRequest {
    /// The flows' table; [`crate::ANY_TABLE`] for all tables.
    pub table: u8,
    /// Selects only flows that output to this port.
    pub out_port: Option<u16>,
    /// Selects only flows that use this group.
    pub out_group: Option<u32>,
    /// The flows' cookie, in the bits of the mask.
    pub cookie: u64,
    /// The bits of the cookie that are compared.
    pub cookie_mask: u64,
    /// The flows' match has at least these bits.
    pub wanted: Match,
    /// OpenFlow 1.0: whether the request has Nicira's form, which has all fields.
    pub nicira: Nicira,
}

/// Whether one of these actions, or of the actions in them, is as `is` says.
fn has(actions: &[Action], is: &dyn Fn(&Action) -> bool) -> bool {
    actions.iter().any(|action| {
        is(action)
            || match action {
                Action::Clone(inner) | Action::WriteActions(inner) => has(inner, is),
                Action::Ct(ct) => has(&ct.exec, is),
                _ => false,
            }
    })
}

/// Whether the actions output to a port.
pub(crate) fn outputs_to(actions: &[Action], number: u16) -> bool {
    has(actions, &|action| match action {
        Action::Output(to) | Action::OutputSized(to, _) | Action::OutputCut(to, _) => *to == number,
        Action::Controller(_) => number == port::CONTROLLER,
        _ => false,
    })
}

/// Whether the actions use a group.
pub(crate) fn uses_group(actions: &[Action], number: u32) -> bool {
    has(actions, &|action| *action == Action::Group(number))
}

impl FlowRequest {
    /// All flows of a table, or of all tables, whose match has at least these bits.
    pub fn of(table: u8, wanted: Match) -> Self {
        Self { table, out_port: None, out_group: None, cookie: 0, cookie_mask: 0, wanted, nicira: false }
    }

    /// Whether the request selects this flow.
    pub fn has(&self, flow: &Flow) -> bool {
        (self.table == crate::ANY_TABLE || self.table == flow.table)
            && (self.cookie ^ flow.cookie) & self.cookie_mask == 0
            && self.out_port.is_none_or(|port| outputs_to(&flow.actions, port))
            && self.out_group.is_none_or(|group| uses_group(&flow.actions, group))
            && self.wanted.covers(&flow.wanted)
    }

    pub(super) fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self, Failure> {
        if version == Version::V10 {
            let wanted = match10::read(reader)?;
            let table = reader.u8()?;
            reader.skip(1)?;
            let out_port = Some(reader.u16()?).filter(|port| *port != port::ANY);
            return Ok(Self {
                table,
                out_port,
                out_group: None,
                cookie: 0,
                cookie_mask: 0,
                wanted,
                nicira: false,
            });
        }
        let table = reader.u8()?;
        reader.skip(3)?;
        let out_port =
            Some(number::read(reader, version, Failure::BadPort)?).filter(|port| *port != port::ANY);
        let out_group = Some(reader.u32()?).filter(|group| *group != ANY_GROUP);
        reader.skip(4)?;
        let (cookie, cookie_mask) = (reader.u64()?, reader.u64()?);
        let wanted = oxm::read_match(reader, MatchForm::Match)?;
        Ok(Self { table, out_port, out_group, cookie, cookie_mask, wanted, nicira: false })
    }

    pub(super) fn read_nicira(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        let out_port = Some(reader.u16()?).filter(|port| *port != port::ANY);
        let length = usize::from(reader.u16()?);
        let table = reader.u8()?;
        reader.skip(3)?;
        let (wanted, cookie) = read_nicira_match(reader, length)?;
        let (cookie, cookie_mask) = (cookie.value, cookie.mask);
        Ok(Self { table, out_port, out_group: None, cookie, cookie_mask, wanted, nicira: true })
    }

    pub(super) fn write(&self, writer: &mut Writer, version: Version) {
        if version == Version::V10 {
            if self.cookie_mask != 0 || !match10::write(writer, &self.wanted) {
                writer.refuse("a match that OpenFlow 1.0 has no place for");
            }
            writer.u8(self.table).zeros(1).u16(self.out_port.unwrap_or(port::ANY));
            return;
        }
        writer.u8(self.table).zeros(3);
        number::write(writer, version, self.out_port.unwrap_or(port::ANY));
        writer.u32(self.out_group.unwrap_or(ANY_GROUP)).zeros(4);
        writer.u64(self.cookie).u64(self.cookie_mask);
        oxm::write_match(writer, &self.wanted, version);
    }

    pub(super) fn write_nicira(&self, writer: &mut Writer) {
        writer.u16(self.out_port.unwrap_or(port::ANY));
        let at = writer.len();
        writer.u16(0).u8(self.table).zeros(3);
        write_nicira_match(writer, at, &self.wanted, Cookie { value: self.cookie, mask: self.cookie_mask });
    }
}

/// Reads a match of this length, and the padding after it.
pub(super) fn read_nicira_match(reader: &mut Reader<'_>, length: usize) -> Result<(Match, Cookie), Failure> {
    let mut fields = reader.with(Failure::MatchLength).part(length)?;
    reader.skip(length + padding(length))?;
    oxm::read_fields(&mut fields, MatchForm::WithCookie)
}

/// Writes a match and padding, and writes the match's length at `at`.
pub(super) fn write_nicira_match(writer: &mut Writer, at: usize, wanted: &Match, cookie: Cookie) {
    let start = writer.len();
    oxm::write_fields(writer, wanted, cookie, Version::V10);
    let length = (writer.len() - start) as u16; // checked for the whole message
    writer.set_u16(at, length).pad(start);
}

/// A flow and its counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlowStatistics {
    /// The flow.
    pub flow: Flow,
    /// The flow's counts.
    pub counts: Counts,
    /// Nicira's form: seconds since the last packet and since the last change, each plus one; 0 where it is unknown.
    pub ages: Option<(u16, u16)>,
}

impl FlowStatistics {
    fn read_15(body: &mut Reader<'_>, version: Version) -> Result<Self, Failure> {
        let mut flow = Flow::default();
        body.skip(2)?;
        flow.table = body.u8()?;
        body.skip(1)?;
        flow.priority = body.u16()?;
        flow.timeouts = flow::Timeouts { idle: body.u16()?, hard: body.u16()? };
        let flags = body.u16()?;
        (flow.importance, flow.cookie) = (body.u16()?, body.u64()?);
        instruction::read_flags(&mut flow, flags, version)?;
        flow.wanted = oxm::read_match(body, MatchForm::Match)?;
        let counts = statistics::read(body)?;
        flow.actions = instruction::read_list(body, version)?;
        Ok(Self { flow, counts, ages: None })
    }

    fn read_13(body: &mut Reader<'_>, version: Version) -> Result<Self, Failure> {
        let mut flow = Flow { table: body.u8()?, ..Flow::default() };
        body.skip(1)?;
        let duration = Some((body.u32()?, body.u32()?));
        flow.priority = body.u16()?;
        flow.timeouts = flow::Timeouts { idle: body.u16()?, hard: body.u16()? };
        let flags = body.u16()?;
        instruction::read_flags(&mut flow, flags, version)?;
        let importance = body.u16()?;
        flow.importance = if version >= Version::V14 { importance } else { 0 };
        body.skip(2)?;
        flow.cookie = body.u64()?;
        let (packets, bytes) = (Some(body.u64()?), Some(body.u64()?));
        flow.wanted = oxm::read_match(body, MatchForm::Match)?;
        flow.actions = instruction::read_list(body, version)?;
        let counts = Counts { duration, packets, bytes, ..Counts::default() };
        Ok(Self { flow, counts, ages: None })
    }

    fn read_10(body: &mut Reader<'_>) -> Result<Self, Failure> {
        let mut flow = Flow { table: body.u8()?, ..Flow::default() };
        body.skip(1)?;
        flow.wanted = match10::read(body)?;
        let duration = Some((body.u32()?, body.u32()?));
        flow.priority = body.u16()?;
        flow.timeouts = flow::Timeouts { idle: body.u16()?, hard: body.u16()? };
        body.skip(6)?;
        flow.cookie = body.u64()?;
        let (packets, bytes) = (Some(body.u64()?), Some(body.u64()?));
        flow.actions = instruction::read(body, Version::V10)?;
        let counts = Counts { duration, packets, bytes, ..Counts::default() };
        Ok(Self { flow, counts, ages: None })
    }

    fn read_nicira(body: &mut Reader<'_>) -> Result<Self, Failure> {
        let mut flow = Flow { table: body.u8()?, ..Flow::default() };
        body.skip(1)?;
        let duration = Some((body.u32()?, body.u32()?));
        flow.priority = body.u16()?;
        flow.timeouts = flow::Timeouts { idle: body.u16()?, hard: body.u16()? };
        let length = usize::from(body.u16()?);
        let ages = Some((body.u16()?, body.u16()?));
        flow.cookie = body.u64()?;
        let (packets, bytes) = (Some(body.u64()?), Some(body.u64()?));
        (flow.wanted, _) = read_nicira_match(body, length)?;
        flow.actions = instruction::read(body, Version::V10)?;
        let counts = Counts { duration, packets, bytes, ..Counts::default() };
        Ok(Self { flow, counts, ages })
    }

    pub(super) fn read(reader: &mut Reader<'_>, version: Version, nicira: Nicira) -> Result<Self, Failure> {
        let mut body = reader.entry(24)?;
        match version {
            Version::V10 if nicira => Self::read_nicira(&mut body),
            Version::V10 => Self::read_10(&mut body),
            Version::V13 | Version::V14 => Self::read_13(&mut body, version),
            Version::V15 => Self::read_15(&mut body, version),
        }
    }

    pub(super) fn write(&self, writer: &mut Writer, version: Version, nicira: Nicira) {
        let (flow, start) = (&self.flow, writer.len());
        if version == Version::V15 {
            writer.zeros(4).u8(flow.table).zeros(1).u16(flow.priority);
            writer.u16(flow.timeouts.idle).u16(flow.timeouts.hard).u16(instruction::flags(flow, version));
            writer.u16(flow.importance).u64(flow.cookie);
            oxm::write_match(writer, &flow.wanted, version);
            statistics::write(writer, &self.counts);
            instruction::write(writer, &flow.actions, version);
            writer.length(start, 0);
            return;
        }
        let old = version == Version::V10;
        writer.u16(0).u8(flow.table).zeros(1);
        if old && !nicira && !match10::write(writer, &flow.wanted) {
            writer.refuse("a match that OpenFlow 1.0 has no place for");
        }
        let duration = self.counts.duration.unwrap_or_default();
        writer.u32(duration.0).u32(duration.1).u16(flow.priority);
        writer.u16(flow.timeouts.idle).u16(flow.timeouts.hard);
        let at = writer.len();
        match (old, nicira) {
            (true, true) => {
                let ages = self.ages.unwrap_or_default();
                writer.u16(0).u16(ages.0).u16(ages.1)
            }
            (true, false) => writer.zeros(6),
            _ => {
                let importance = if version >= Version::V14 { flow.importance } else { 0 };
                writer.u16(instruction::flags(flow, version)).u16(importance).zeros(2)
            }
        };
        writer.u64(flow.cookie);
        writer.u64(self.counts.packets.unwrap_or(u64::MAX)).u64(self.counts.bytes.unwrap_or(u64::MAX));
        match (old, nicira) {
            (true, true) => write_nicira_match(writer, at, &flow.wanted, Cookie::default()),
            (true, false) => {}
            _ => oxm::write_match(writer, &flow.wanted, version),
        }
        instruction::write(writer, &flow.actions, version);
        writer.length(start, 0);
    }
}

/// Reads the total counts of several flows.
pub(super) fn read_aggregate(reader: &mut Reader<'_>, version: Version) -> Result<Counts, Failure> {
    if version >= Version::V15 {
        return statistics::read(reader);
    }
    let (packets, bytes, flows) = (Some(reader.u64()?), Some(reader.u64()?), Some(reader.u32()?));
    reader.skip(4)?;
    Ok(Counts { packets, bytes, flows, ..Counts::default() })
}

/// Writes the total counts of several flows.
pub(super) fn write_aggregate(writer: &mut Writer, counts: &Counts, version: Version) {
    if version >= Version::V15 {
        return statistics::write(writer, counts);
    }
    writer.u64(counts.packets.unwrap_or(u64::MAX)).u64(counts.bytes.unwrap_or(u64::MAX));
    writer.u32(counts.flows.unwrap_or_default()).zeros(4);
}
