//! Nicira's actions, as in Open vSwitch (ovs-actions(7)).

use flow::{Action, Field, Group, Subfield, Timeouts};

use super::wire::{nx, put_nicira};
use super::{controller, field, learn, output, pick, standard};
use crate::bytes::{Reader, Writer};
use crate::oxm::{self, Prefer};
use crate::{Failure, Version};

/// The most clauses of a conjunction.
const MAX_CLAUSES: u8 = 64;

/// An action without arguments.
fn bare(body: &mut Reader<'_>, action: Action) -> Result<Action, Failure> {
    body.zeros(6, Failure::ActionNotZero)?;
    Ok(action)
}

fn resubmit(kind: u16, body: &mut Reader<'_>) -> Result<Action, Failure> {
    let port = Some(body.u16()?).filter(|port| *port != flow::port::IN_PORT);
    let table = body.u8()?;
    body.skip(3)?;
    let table = Some(table).filter(|table| kind != nx::RESUBMIT && *table != u8::MAX);
    Ok(Action::Resubmit { port, table, original: kind == nx::RESUBMIT_TABLE_CT })
}

fn set_tunnel(value: u64) -> Action {
    Action::SetField(Field::TunnelId, value.into(), Field::TunnelId.all_bits())
}

fn count_down(body: &mut Reader<'_>) -> Result<Action, Failure> {
    let count = usize::from(body.u16()?);
    body.zeros(4, Failure::ActionNotZero)?;
    let ids = body.part(2 * count)?.all(|ids| ids.u16())?;
    let rest = body.len();
    body.skip(rest.min(6))?; // what fills the list up to eight bytes
    Ok(Action::DecTtl(Some(ids)))
}

fn conjunction(body: &mut Reader<'_>) -> Result<Action, Failure> {
    let (clause, of, id) = (body.u8()?, body.u8()?, body.u32()?);
    if !(2..=MAX_CLAUSES).contains(&of) || clause >= of {
        return Err(Failure::BadConjunction);
    }
    Ok(Action::Conjunction { id, clause, of })
}

fn check_length(body: &mut Reader<'_>) -> Result<Action, Failure> {
    let (bytes, start) = (body.u16()?, body.u16()?);
    let to = oxm::read_header(body)?;
    let rest = body.len();
    body.zeros(rest, Failure::ActionNotZero)?;
    let to = field::writable(oxm::subfield(to, start.into(), 1)?)?;
    Ok(Action::CheckPacketLarger(bytes, to))
}

/// Reads the bytes behind the subtype.
pub(super) fn read(kind: u16, body: &mut Reader<'_>, version: Version) -> Result<Action, Failure> {
    let action = match kind {
        nx::RESUBMIT | nx::RESUBMIT_TABLE | nx::RESUBMIT_TABLE_CT => resubmit(kind, body)?,
        nx::SET_TUNNEL => {
            body.skip(2)?;
            set_tunnel(body.u32()?.into())
        }
        nx::SET_TUNNEL64 => {
            body.skip(6)?;
            set_tunnel(body.u64()?)
        }
        nx::SET_QUEUE => {
            body.skip(2)?;
            Action::SetQueue(body.u32()?)
        }
        nx::POP_QUEUE => bare(body, Action::PopQueue)?,
        nx::REG_MOVE => field::read_move(body)?,
        nx::REG_LOAD => field::read_load(body)?,
        nx::REG_LOAD2 => field::read_load_2(body)?,
        nx::NOTE => Action::Note(body.rest().to_vec()),
        nx::BUNDLE | nx::BUNDLE_LOAD => pick::read_bundle(kind, body)?,
        nx::OUTPUT_REG => output::read_field(body)?,
        nx::OUTPUT_REG2 => output::read_field_2(body)?,
        nx::OUTPUT_TRUNC => output::read_cut(body)?,
        nx::LEARN | nx::LEARN2 => learn::read(kind, body)?,
        nx::GROUP => {
            body.skip(2)?;
            match body.u32()? {
                group if group <= Group::MAX_ID => Action::Group(group),
                _ => return Err(Failure::ActionGroup),
            }
        }
        nx::EXIT => bare(body, Action::Exit)?,
        nx::PUSH_MPLS | nx::POP_MPLS => {
            let (pushes, number) = (kind == nx::PUSH_MPLS, body.u16()?);
            body.zeros(4, Failure::ActionNotZero)?;
            if pushes { standard::push_mpls(number)? } else { Action::PopMpls(number) }
        }
        nx::SET_MPLS_TTL | nx::SET_MPLS_TC => {
            let value = body.u8()?;
            body.zeros(5, Failure::ActionNotZero)?;
            Action::SetOwn(if kind == nx::SET_MPLS_TC { Field::MplsTc } else { Field::MplsTtl }, value.into())
        }
        nx::SET_MPLS_LABEL => {
            body.skip(2)?;
            Action::SetOwn(Field::MplsLabel, body.u32()?)
        }
        nx::DEC_MPLS_TTL => bare(body, Action::DecMplsTtl)?,
        nx::FIN_TIMEOUT => {
            let timeouts = Timeouts { idle: body.u16()?, hard: body.u16()? };
            body.zeros(2, Failure::ActionNotZero)?;
            Action::FinTimeout(timeouts)
        }
        nx::DEC_TTL => bare(body, Action::DecTtl(None))?,
        nx::DEC_TTL_CNT_IDS => count_down(body)?,
        nx::CONTROLLER => controller::read(body)?,
        nx::CONTROLLER2 => controller::read_2(body)?,
        nx::WRITE_METADATA if version == Version::V10 => {
            body.zeros(6, Failure::ActionNotZero)?;
            Action::WriteMetadata(body.u64()?, body.u64()?)
        }
        nx::STACK_PUSH => Action::Push(field::read_stack(body)?),
        nx::STACK_POP => Action::Pop(field::writable(field::read_stack(body)?)?),
        nx::SAMPLE | nx::SAMPLE2 | nx::SAMPLE3 | nx::SAMPLE4 => pick::read_sample(kind, body)?,
        nx::CONJUNCTION => conjunction(body)?,
        nx::CT_CLEAR => bare(body, Action::CtClear)?,
        nx::CHECK_PKT_LARGER => check_length(body)?,
        _ => return Err(Failure::ActionExperimenterType),
    };
    body.end().map(|()| action)
}

fn write_bare(writer: &mut Writer, kind: u16) {
    put_nicira(writer, kind, |writer| {
        writer.zeros(6);
    });
}

fn write_resubmit(writer: &mut Writer, input: Option<u16>, table: Option<u8>, original: bool) {
    let kind = match (table, original) {
        (_, true) => nx::RESUBMIT_TABLE_CT,
        (None, false) => nx::RESUBMIT,
        (Some(_), false) => nx::RESUBMIT_TABLE,
    };
    let table = table.unwrap_or(if original { u8::MAX } else { 0 });
    put_nicira(writer, kind, |writer| {
        writer.u16(input.unwrap_or(flow::port::IN_PORT)).u8(table).zeros(3);
    });
}

fn write_check(writer: &mut Writer, bytes: u16, bit: Subfield) {
    put_nicira(writer, nx::CHECK_PKT_LARGER, |writer| {
        writer.u16(bytes).u16(bit.start as u16); // at most 127
        oxm::write_bare(writer, bit.field, Prefer::Nxm);
        writer.zeros(6);
    });
}

/// Writes an action that only Nicira defines and that is the same in all versions.
pub(super) fn write(writer: &mut Writer, action: &Action) {
    match action {
        Action::Resubmit { port, table, original } => write_resubmit(writer, *port, *table, *original),
        Action::PopQueue => write_bare(writer, nx::POP_QUEUE),
        Action::Exit => write_bare(writer, nx::EXIT),
        Action::CtClear => write_bare(writer, nx::CT_CLEAR),
        Action::Note(note) => put_nicira(writer, nx::NOTE, |writer| {
            writer.put(note);
        }),
        Action::Push(bits) => field::write_stack(writer, nx::STACK_PUSH, *bits),
        Action::Pop(bits) => field::write_stack(writer, nx::STACK_POP, *bits),
        Action::DecTtl(Some(ids)) => put_nicira(writer, nx::DEC_TTL_CNT_IDS, |writer| {
            writer.u16(ids.len() as u16).zeros(4); // more do not fit into the message
            ids.iter().for_each(|id| {
                writer.u16(*id);
            });
        }),
        Action::FinTimeout(Timeouts { idle, hard }) => put_nicira(writer, nx::FIN_TIMEOUT, |writer| {
            writer.u16(*idle).u16(*hard).zeros(2);
        }),
        Action::Conjunction { id, clause, of } => put_nicira(writer, nx::CONJUNCTION, |writer| {
            writer.u8(*clause).u8(*of).u32(*id);
        }),
        Action::CheckPacketLarger(bytes, bit) => write_check(writer, *bytes, *bit),
        _ => writer.refuse("an action that is not Nicira's"),
    }
}
