//! `learn` (ovs-actions(7)).

use std::sync::Arc;

use flow::{Action, Learn, LearnSpec, Subfield, Timeouts};

use super::field;
use super::wire::{nx, put_nicira};
use crate::Failure;
use crate::bytes::{Reader, Writer};
use crate::oxm::{self, Prefer};

mod flag {
    pub const SEND_REMOVED: u16 = 1;
    pub const DELETE_LEARNED: u16 = 2;
    pub const WRITE_RESULT: u16 = 4;
}

/// The head of a specification: the width, the source of the value, and its use.
mod head {
    pub const BITS: u16 = 0x7ff;
    pub const IMMEDIATE: u16 = 1 << 13;
    pub const TO: u16 = 3 << 11;
    pub const MATCH: u16 = 0;
    pub const LOAD: u16 = 1 << 11;
    pub const OUTPUT: u16 = 2 << 11;
}

/// The bytes of a value of `bits` bits: whole words of 16 bits.
fn immediate_bytes(bits: u32) -> usize {
    2 * bits.div_ceil(16) as usize
}

/// Reads a field and its lowest bit, for a subfield of `bits` bits.
fn read_bits(body: &mut Reader<'_>, bits: u32) -> Result<Subfield, Failure> {
    let field = oxm::read_header(body)?;
    oxm::subfield(field, body.u16()?.into(), bits)
}

fn read_immediate(body: &mut Reader<'_>, bits: u32) -> Result<u128, Failure> {
    let bytes = body.bytes(immediate_bytes(bits))?;
    let (upper, lower) = bytes.split_at(bytes.len().saturating_sub(16));
    if upper.iter().any(|byte| *byte != 0) {
        return Err(Failure::ActionArgument);
    }
    Ok(lower.iter().fold(0, |value, byte| value << 8 | u128::from(*byte)))
}

/// The next specification; none where zeros fill the action up.
fn read_spec(body: &mut Reader<'_>) -> Result<Option<LearnSpec>, Failure> {
    let word = body.u16()?;
    if word == 0 {
        return Ok(None);
    }
    let bits = u32::from(word & head::BITS);
    if word & !(head::BITS | head::IMMEDIATE | head::TO) != 0 || bits == 0 {
        return Err(Failure::ActionArgument);
    }
    if word & head::IMMEDIATE != 0 {
        let value = read_immediate(body, bits)?;
        let to = match word & head::TO {
            head::MATCH | head::LOAD => read_bits(body, bits)?,
            _ => return Err(Failure::ActionArgument), // a port by number is no output of learn here
        };
        if value & !to.all_bits() != 0 {
            return Err(Failure::ActionArgument);
        }
        return Ok(Some(match word & head::TO {
            head::MATCH => LearnSpec::MatchValue(to, value),
            _ => LearnSpec::LoadValue(value, field::writable(to)?),
        }));
    }
    let from = read_bits(body, bits)?;
    let spec = match word & head::TO {
        head::MATCH => LearnSpec::MatchField(read_bits(body, bits)?, from),
        head::LOAD => LearnSpec::LoadField(from, field::writable(read_bits(body, bits)?)?),
        head::OUTPUT => LearnSpec::Output(from),
        _ => return Err(Failure::ActionArgument),
    };
    match spec {
        LearnSpec::MatchField(one, other) | LearnSpec::LoadField(one, other) if one.bits != other.bits => {
            Err(Failure::SetLength)
        }
        spec => Ok(Some(spec)),
    }
}

/// Reads `learn`, in the form with or without a limit.
pub(super) fn read(kind: u16, body: &mut Reader<'_>) -> Result<Action, Failure> {
    let timeouts = Timeouts { idle: body.u16()?, hard: body.u16()? };
    let (priority, cookie, flags, table) = (body.u16()?, body.u64()?, body.u16()?, body.u8()?);
    body.zeros(1, Failure::ActionNotZero)?;
    let fin_timeouts = (body.u16()?, body.u16()?);
    let (mut limit, mut result) = (0, None);
    let mut known = flag::SEND_REMOVED | flag::DELETE_LEARNED;
    if kind == nx::LEARN2 {
        known |= flag::WRITE_RESULT;
        limit = body.u32()?;
        let start = body.u16()?;
        body.zeros(2, Failure::ActionNotZero)?;
        if flags & flag::WRITE_RESULT != 0 {
            let field = oxm::read_header(body)?;
            result = Some(field::writable(oxm::subfield(field, start.into(), 1)?)?);
        }
    }
    if flags & !known != 0 || table == u8::MAX {
        return Err(Failure::ActionArgument);
    }
    let mut specs = Vec::new();
    while body.len() >= 2 {
        match read_spec(body)? {
            Some(spec) => specs.push(spec),
            None => break,
        }
    }
    let rest = body.len();
    body.zeros(rest, Failure::ActionNotZero)?;
    Ok(Action::Learn(Arc::new(Learn {
        table,
        timeouts,
        fin_timeouts,
        priority,
        cookie,
        send_removed: flags & flag::SEND_REMOVED != 0,
        delete_learned: flags & flag::DELETE_LEARNED != 0,
        limit,
        result,
        specs,
    })))
}

fn write_bits(writer: &mut Writer, bits: Subfield) {
    oxm::write_bare(writer, bits.field, Prefer::Nxm);
    writer.u16(bits.start as u16); // at most 127
}

fn write_immediate(writer: &mut Writer, value: u128, bits: Subfield) {
    writer.value(value, immediate_bytes(field::wire_bits(bits).into()));
    write_bits(writer, bits);
}

fn write_spec(writer: &mut Writer, spec: &LearnSpec) {
    match spec {
        LearnSpec::MatchValue(to, value) => {
            writer.u16(field::wire_bits(*to) | head::IMMEDIATE);
            write_immediate(writer, *value, *to);
        }
        LearnSpec::LoadValue(value, to) => {
            writer.u16(field::wire_bits(*to) | head::IMMEDIATE | head::LOAD);
            write_immediate(writer, *value, *to);
        }
        LearnSpec::MatchField(to, from) => {
            writer.u16(field::wire_bits(*to).min(field::wire_bits(*from)));
            write_bits(writer, *from);
            write_bits(writer, *to);
        }
        LearnSpec::LoadField(from, to) => {
            writer.u16(field::wire_bits(*to).min(field::wire_bits(*from)) | head::LOAD);
            write_bits(writer, *from);
            write_bits(writer, *to);
        }
        LearnSpec::Output(from) => {
            writer.u16(field::wire_bits(*from) | head::OUTPUT);
            write_bits(writer, *from);
        }
    }
}

/// Writes `learn`.
pub(super) fn write(writer: &mut Writer, learn: &Learn) {
    let counts = learn.limit != 0 || learn.result.is_some();
    let mut flags = u16::from(learn.send_removed) * flag::SEND_REMOVED;
    flags |= u16::from(learn.delete_learned) * flag::DELETE_LEARNED;
    flags |= u16::from(learn.result.is_some()) * flag::WRITE_RESULT;
    put_nicira(writer, if counts { nx::LEARN2 } else { nx::LEARN }, |writer| {
        writer.u16(learn.timeouts.idle).u16(learn.timeouts.hard).u16(learn.priority).u64(learn.cookie);
        writer.u16(flags).u8(learn.table).zeros(1).u16(learn.fin_timeouts.0).u16(learn.fin_timeouts.1);
        if counts {
            writer.u32(learn.limit).u16(learn.result.map_or(0, |bit| bit.start as u16)).zeros(2);
            if let Some(bit) = learn.result {
                oxm::write_bare(writer, bit.field, Prefer::Nxm);
            }
        }
        learn.specs.iter().for_each(|spec| write_spec(writer, spec));
    });
}
