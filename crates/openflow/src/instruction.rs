//! Instructions of a flow (OpenFlow 1.5 §7.2.5). The model keeps them among the actions.

use flow::{Action, Flow};

use crate::bytes::{Reader, Writer};
use crate::{Failure, Version, action};

const GOTO_TABLE: u16 = 1;
const WRITE_METADATA: u16 = 2;
const WRITE_ACTIONS: u16 = 3;
const APPLY_ACTIONS: u16 = 4;
const CLEAR_ACTIONS: u16 = 5;
const METER: u16 = 6;
const EXPERIMENTER: u16 = 0xffff;

/// Instructions in the order in which they work.
#[derive(Default)]
struct Found {
    meter: Option<Action>,
    applied: Option<Vec<Action>>,
    clear: Option<Action>,
    written: Option<Action>,
    metadata: Option<Action>,
    goto: Option<Action>,
}

fn once<T>(place: &mut Option<T>, value: T) -> Result<(), Failure> {
    if place.replace(value).is_some() { Err(Failure::DuplicateInstruction) } else { Ok(()) }
}

impl Found {
    fn one(&mut self, reader: &mut Reader<'_>, version: Version) -> Result<(), Failure> {
        let mut ahead = reader.with(Failure::InstructionLength);
        let (kind, length) = (ahead.u16()?, usize::from(ahead.u16()?));
        if length < 8 || length % 8 != 0 {
            return Err(Failure::InstructionLength);
        }
        let mut body = reader.with(Failure::InstructionLength).part(length)?;
        reader.skip(length)?;
        body.skip(4)?;
        match kind {
            GOTO_TABLE => {
                once(&mut self.goto, Action::GotoTable(body.u8()?))?;
                body.skip(3)?;
            }
            WRITE_METADATA => {
                body.skip(4)?;
                once(&mut self.metadata, Action::WriteMetadata(body.u64()?, body.u64()?))?;
            }
            WRITE_ACTIONS => {
                body.skip(4)?;
                once(&mut self.written, Action::WriteActions(action::read_list(&mut body, version)?))?;
            }
            APPLY_ACTIONS => {
                body.skip(4)?;
                once(&mut self.applied, action::read_list(&mut body, version)?)?;
            }
            CLEAR_ACTIONS => {
                body.skip(4)?;
                once(&mut self.clear, Action::ClearActions)?;
            }
            METER if version < Version::V15 => once(&mut self.meter, Action::Meter(body.u32()?))?,
            EXPERIMENTER => return Err(Failure::InstructionExperimenter),
            _ => return Err(Failure::UnknownInstruction),
        }
        body.end()
    }
}

/// Reads instructions up to the end.
pub(crate) fn read_list(reader: &mut Reader<'_>, version: Version) -> Result<Vec<Action>, Failure> {
    let mut found = Found::default();
    while !reader.is_empty() {
        found.one(reader, version)?;
    }
    let mut actions: Vec<_> = found.meter.into_iter().chain(found.applied.into_iter().flatten()).collect();
    actions.extend([found.clear, found.written, found.metadata, found.goto].into_iter().flatten());
    Ok(actions)
}

/// Reads the actions of a flow: actions in OpenFlow 1.0, instructions in later versions.
pub(crate) fn read(reader: &mut Reader<'_>, version: Version) -> Result<Vec<Action>, Failure> {
    match version {
        Version::V10 => action::read_list(reader, version),
        _ => read_list(reader, version),
    }
}

/// Whether it is an instruction of this version, not an action.
fn is_instruction(action: &Action, version: Version) -> bool {
    match action {
        Action::Meter(_) => version < Version::V15,
        Action::WriteActions(_) | Action::ClearActions | Action::WriteMetadata(..) | Action::GotoTable(_) => {
            true
        }
        _ => false,
    }
}

fn put(writer: &mut Writer, kind: u16, body: impl FnOnce(&mut Writer)) {
    let start = writer.len();
    writer.u16(kind).u16(0);
    body(writer);
    writer.pad(start).length(start, 2);
}

fn write_instruction(writer: &mut Writer, action: &Action, version: Version) {
    match action {
        Action::Meter(meter) => put(writer, METER, |writer| {
            writer.u32(*meter);
        }),
        Action::WriteActions(actions) => put(writer, WRITE_ACTIONS, |writer| {
            writer.zeros(4);
            action::write_list(writer, actions, version);
        }),
        Action::ClearActions => put(writer, CLEAR_ACTIONS, |writer| {
            writer.zeros(4);
        }),
        Action::WriteMetadata(value, mask) => put(writer, WRITE_METADATA, |writer| {
            writer.zeros(4).u64(*value).u64(*mask);
        }),
        Action::GotoTable(table) => put(writer, GOTO_TABLE, |writer| {
            writer.u8(*table);
        }),
        _ => {}
    }
}

/// Writes the actions of a flow.
pub(crate) fn write(writer: &mut Writer, actions: &[Action], version: Version) {
    if version == Version::V10 {
        return action::write_list(writer, actions, version);
    }
    let mut rest = actions;
    while let Some(first) = rest.first() {
        if is_instruction(first, version) {
            write_instruction(writer, first, version);
            rest = &rest[1..];
            continue;
        }
        let applied = rest.iter().take_while(|action| !is_instruction(action, version)).count();
        put(writer, APPLY_ACTIONS, |writer| {
            writer.zeros(4);
            action::write_list(writer, &rest[..applied], version);
        });
        rest = &rest[applied..];
    }
}

/// Flags of a flow in a message (OpenFlow 1.5 §7.3.4.3).
mod flag {
    pub const SEND_REMOVED: u16 = 1;
    pub const CHECK_OVERLAP: u16 = 2;
    pub const RESET_COUNTS: u16 = 4;
    pub const NO_PACKET_COUNTS: u16 = 8;
    pub const NO_BYTE_COUNTS: u16 = 16;
}

/// Sets a flow's flags from the flags of a message.
pub(crate) fn read_flags(flow: &mut Flow, flags: u16, version: Version) -> Result<(), Failure> {
    let known = if version == Version::V10 { 3 } else { 31 };
    if flags & !known != 0 {
        return Err(Failure::FlowModFlags);
    }
    flow.flags.send_removed = flags & flag::SEND_REMOVED != 0;
    flow.flags.check_overlap = flags & flag::CHECK_OVERLAP != 0;
    flow.flags.reset_counts = flags & flag::RESET_COUNTS != 0;
    flow.flags.no_packet_counts = flags & flag::NO_PACKET_COUNTS != 0;
    flow.flags.no_byte_counts = flags & flag::NO_BYTE_COUNTS != 0;
    Ok(())
}

/// A flow's flags in the form of a message. OpenFlow 1.0 has two flags.
pub(crate) fn flags(flow: &Flow, version: Version) -> u16 {
    let all = [
        (flow.flags.send_removed, flag::SEND_REMOVED),
        (flow.flags.check_overlap, flag::CHECK_OVERLAP),
        (flow.flags.reset_counts, flag::RESET_COUNTS),
        (flow.flags.no_packet_counts, flag::NO_PACKET_COUNTS),
        (flow.flags.no_byte_counts, flag::NO_BYTE_COUNTS),
    ];
    let flags = all.into_iter().filter(|(is, _)| *is).fold(0, |flags, (_, bit)| flags | bit);
    if version == Version::V10 { flags & 3 } else { flags }
}
