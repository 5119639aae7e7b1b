//! Actions of OpenFlow itself (1.0 §5.2.4; 1.5 §7.2.6).

use flow::{Action, Field, Group, protocol};

use super::wire::{PRESENT, nx, put, put_nicira, standard, v10};
use super::{field, output};
use crate::bytes::{Reader, Writer};
use crate::{Failure, Version, number};

/// Adds a label and writes this type, if it is one of MPLS.
pub(super) fn push_mpls(kind: u16) -> Result<Action, Failure> {
    match kind {
        protocol::MPLS | protocol::MPLS_MULTICAST => Ok(Action::PushMpls(kind)),
        _ => Err(Failure::ActionArgument),
    }
}

/// Reads an action of OpenFlow 1.0.
pub(super) fn read_10(kind: u16, body: &mut Reader<'_>) -> Result<Action, Failure> {
    let set = |field: Field, value: u128| Action::SetField(field, value, field.all_bits());
    let action = match kind {
        v10::OUTPUT => output::to(body.u16()?, body.u16()?)?,
        v10::SET_VLAN_VID => match body.u16()? {
            number @ 0..=0xfff => {
                body.skip(2)?;
                Action::ModVlanVid(number)
            }
            _ => return Err(Failure::ActionArgument),
        },
        v10::SET_VLAN_PCP => match body.u8()? {
            priority @ 0..=7 => {
                body.skip(3)?;
                Action::ModVlanPcp(priority)
            }
            _ => return Err(Failure::ActionArgument),
        },
        v10::STRIP_VLAN => {
            body.skip(4)?;
            Action::PopVlan
        }
        v10::SET_DL_SRC | v10::SET_DL_DST => {
            let address = body.array::<6>()?.iter().fold(0, |value, byte| value << 8 | u128::from(*byte));
            body.skip(6)?;
            set(if kind == v10::SET_DL_SRC { Field::EthSrc } else { Field::EthDst }, address)
        }
        v10::SET_NW_SRC => set(Field::IpSrc, body.u32()?.into()),
        v10::SET_NW_DST => set(Field::IpDst, body.u32()?.into()),
        v10::SET_NW_TOS => {
            let value = body.u8()?;
            body.skip(3)?;
            if value & 3 != 0 {
                return Err(Failure::ActionArgument);
            }
            set(Field::IpDscp, (value >> 2).into())
        }
        v10::SET_TP_SRC | v10::SET_TP_DST => {
            let value = body.u16()?;
            body.skip(2)?;
            set(if kind == v10::SET_TP_SRC { Field::TcpSrc } else { Field::TcpDst }, value.into())
        }
        _ => return Err(Failure::ActionType),
    };
    body.end().map(|()| action)
}

/// Reads an action of OpenFlow 1.3 and later.
pub(super) fn read(kind: u16, body: &mut Reader<'_>, version: Version) -> Result<Action, Failure> {
    let action = match kind {
        standard::OUTPUT => {
            let port = number::read(body, version, Failure::ActionPort)?;
            let bytes = body.u16()?;
            body.skip(6)?;
            output::to(port, bytes)?
        }
        standard::PUSH_VLAN => {
            let tag = body.u16()?;
            body.skip(2)?;
            if !matches!(tag, protocol::VLAN | protocol::SERVICE_VLAN) {
                return Err(Failure::ActionArgument);
            }
            Action::PushVlan(tag)
        }
        standard::POP_VLAN => {
            body.skip(4)?;
            Action::PopVlan
        }
        standard::PUSH_MPLS => {
            let kind = body.u16()?;
            body.skip(2)?;
            push_mpls(kind)?
        }
        standard::POP_MPLS => {
            let kind = body.u16()?;
            body.skip(2)?;
            Action::PopMpls(kind)
        }
        standard::SET_MPLS_TTL => {
            let value = body.u8()?;
            body.skip(3)?;
            Action::SetOwn(Field::MplsTtl, value.into())
        }
        standard::DEC_MPLS_TTL => {
            body.skip(4)?;
            Action::DecMplsTtl
        }
        standard::SET_QUEUE => Action::SetQueue(body.u32()?),
        standard::GROUP => match body.u32()? {
            group if group <= Group::MAX_ID => Action::Group(group),
            _ => return Err(Failure::ActionGroup),
        },
        standard::SET_TTL => {
            let value = body.u8()?;
            body.skip(3)?;
            Action::SetOwn(Field::NwTtl, value.into())
        }
        standard::DEC_TTL => {
            body.skip(4)?;
            Action::DecTtl(None)
        }
        standard::SET_FIELD => field::read_set(body, version)?,
        standard::COPY_FIELD if version >= Version::V15 => field::read_copy(body)?,
        standard::METER if version >= Version::V15 => Action::Meter(body.u32()?),
        _ => return Err(Failure::ActionType),
    };
    body.end().map(|()| action)
}

/// Writes a field of 32 bits, or of fewer bits and zeros behind them.
fn put_number(writer: &mut Writer, kind: u16, number: u32) {
    put(writer, kind, |writer| {
        writer.u32(number);
    });
}

fn write_10(writer: &mut Writer, action: &Action) {
    match action {
        Action::PopVlan => put_number(writer, v10::STRIP_VLAN, 0),
        Action::ModVlanVid(number) => put_number(writer, v10::SET_VLAN_VID, u32::from(*number) << 16),
        Action::ModVlanPcp(priority) => put_number(writer, v10::SET_VLAN_PCP, u32::from(*priority) << 24),
        Action::DecTtl(_) => put_nicira(writer, nx::DEC_TTL, |writer| {
            writer.zeros(6);
        }),
        Action::SetQueue(queue) => put_nicira(writer, nx::SET_QUEUE, |writer| {
            writer.zeros(2).u32(*queue);
        }),
        Action::Group(group) => put_nicira(writer, nx::GROUP, |writer| {
            writer.zeros(2).u32(*group);
        }),
        Action::PushMpls(kind) => put_nicira(writer, nx::PUSH_MPLS, |writer| {
            writer.u16(*kind).zeros(4);
        }),
        Action::PopMpls(kind) => put_nicira(writer, nx::POP_MPLS, |writer| {
            writer.u16(*kind).zeros(4);
        }),
        Action::SetOwn(Field::MplsLabel, label) => put_nicira(writer, nx::SET_MPLS_LABEL, |writer| {
            writer.zeros(2).u32(*label);
        }),
        Action::SetOwn(field @ (Field::MplsTc | Field::MplsTtl), value) => {
            let kind = if *field == Field::MplsTc { nx::SET_MPLS_TC } else { nx::SET_MPLS_TTL };
            put_nicira(writer, kind, |writer| {
                writer.u8(*value as u8).zeros(5); // was read from 8 bits
            });
        }
        Action::SetOwn(field, value) => {
            field::write_set(writer, *field, (*value).into(), field.all_bits(), Version::V10);
        }
        Action::DecMplsTtl => put_nicira(writer, nx::DEC_MPLS_TTL, |writer| {
            writer.zeros(6);
        }),
        // Set-VLAN behind `push_vlan` pushes a tag. Open vSwitch too leaves out what 1.0 cannot name: the tag's kind, a meter.
        _ => {}
    }
}

/// Writes an action that OpenFlow itself defines.
pub(super) fn write(writer: &mut Writer, action: &Action, version: Version) {
    match action {
        Action::Output(to) => output::write(writer, *to, 0, version),
        Action::OutputSized(to, bytes) => output::write(writer, *to, *bytes, version),
        Action::OutputCut(to, bytes) => put_nicira(writer, nx::OUTPUT_TRUNC, |writer| {
            writer.u16(*to).u32(*bytes);
        }),
        Action::OutputField(bits) => output::write_field(writer, *bits),
        action if version == Version::V10 => write_10(writer, action),
        Action::SetQueue(queue) => put_number(writer, standard::SET_QUEUE, *queue),
        Action::Group(group) => put_number(writer, standard::GROUP, *group),
        Action::Meter(meter) if version >= Version::V15 => put_number(writer, standard::METER, *meter),
        Action::PushVlan(tag) => put_number(writer, standard::PUSH_VLAN, u32::from(*tag) << 16),
        Action::PopVlan => put_number(writer, standard::POP_VLAN, 0),
        Action::PushMpls(kind) => put_number(writer, standard::PUSH_MPLS, u32::from(*kind) << 16),
        Action::PopMpls(kind) => put_number(writer, standard::POP_MPLS, u32::from(*kind) << 16),
        Action::DecMplsTtl => put_number(writer, standard::DEC_MPLS_TTL, 0),
        Action::SetOwn(Field::NwTtl, ttl) => put_number(writer, standard::SET_TTL, ttl << 24),
        Action::SetOwn(Field::MplsTtl, ttl) => put_number(writer, standard::SET_MPLS_TTL, ttl << 24),
        Action::SetOwn(field, value) => {
            let value = u128::from(*value) & field.all_bits();
            field::write_set(writer, *field, value, field.all_bits(), version);
        }
        // Open vSwitch pushes a tag before if there is none; the list alone does not show it.
        Action::ModVlanVid(number) => {
            let all = Field::VlanVid.all_bits();
            field::write_set(writer, Field::VlanVid, u128::from(*number) | PRESENT, all, version);
        }
        Action::ModVlanPcp(priority) => {
            field::write_set(writer, Field::VlanPcp, (*priority).into(), Field::VlanPcp.all_bits(), version);
        }
        Action::DecTtl(_) => put_number(writer, standard::DEC_TTL, 0),
        _ => writer.refuse("meter among actions"),
    }
}
