//! `ct` and `nat` (ovs-actions(7)).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use flow::{Action, Ct, Field, Nat, NatSide, Zone};

use super::wire::{EXPERIMENTER, head, nx, put_nicira, zone_words};
use crate::Failure;
use crate::bytes::{Reader, Writer};
use crate::failure::NICIRA;
use crate::oxm::{self, Prefer};

mod flag {
    pub const COMMIT: u16 = 1;
    pub const FORCE: u16 = 2;
    pub const SOURCE: u16 = 1;
    pub const DESTINATION: u16 = 2;
    pub const PERSISTENT: u16 = 4;
    pub const HASH: u16 = 8;
    pub const RANDOM: u16 = 16;
}

/// The parts of a range, one bit each; the bits are in the order of the values.
mod range {
    pub const V4_MIN: u16 = 1;
    pub const V4_MAX: u16 = 2;
    pub const V6_MIN: u16 = 4;
    pub const V6_MAX: u16 = 8;
    pub const PORT_MIN: u16 = 16;
    pub const PORT_MAX: u16 = 32;
    pub const ALL: u16 = 63;
}

/// No table: the frame does not go on elsewhere.
const NO_TABLE: u8 = u8::MAX;
/// Control ports of the protocols that have data connections.
const FTP: u16 = 21;
const TFTP: u16 = 69;

/// The first and the last value of a range, each if its bit is set.
fn bounds<T: Copy + PartialOrd>(
    present: (bool, bool),
    mut one: impl FnMut() -> Result<T, Failure>,
) -> Result<Option<(T, T)>, Failure> {
    match present {
        (false, false) => Ok(None),
        (false, true) => Err(Failure::ActionArgument),
        (true, more) => {
            let first = one()?;
            let last = if more { one()? } else { first };
            if first <= last { Ok(Some((first, last))) } else { Err(Failure::ActionArgument) }
        }
    }
}

fn read_nat(body: &mut Reader<'_>) -> Result<Nat, Failure> {
    body.skip(2)?;
    let (flags, present) = (body.u16()?, body.u16()?);
    let has = |bit: u16| present & bit != 0;
    let side = match flags & (flag::SOURCE | flag::DESTINATION) {
        0 => None,
        flag::SOURCE => Some(NatSide::Source),
        flag::DESTINATION => Some(NatSide::Destination),
        _ => return Err(Failure::ActionArgument),
    };
    if flags > 31 || present > range::ALL || side.is_none() && (flags != 0 || present != 0) {
        return Err(Failure::ActionArgument);
    }
    let v4 = bounds((has(range::V4_MIN), has(range::V4_MAX)), || body.u32().map(Ipv4Addr::from))?;
    let v6 = bounds((has(range::V6_MIN), has(range::V6_MAX)), || body.u128().map(Ipv6Addr::from))?;
    let ports = bounds((has(range::PORT_MIN), has(range::PORT_MAX)), || body.u16())?;
    let addresses = match (v4, v6) {
        (Some((first, last)), None) => Some((IpAddr::V4(first), IpAddr::V4(last))),
        (None, Some((first, last))) => Some((IpAddr::V6(first), IpAddr::V6(last))),
        (None, None) => None,
        _ => return Err(Failure::ActionArgument),
    };
    let rest = body.len();
    if rest >= 8 {
        return Err(Failure::ActionLength);
    }
    body.skip(rest)?;
    let is = |bit: u16| flags & bit != 0;
    Ok(Nat {
        side,
        addresses,
        ports,
        persistent: is(flag::PERSISTENT),
        hash: is(flag::HASH),
        random: is(flag::RANDOM),
    })
}

/// The next action, if it is `nat`.
fn next_nat(body: &mut Reader<'_>) -> Result<Option<Nat>, Failure> {
    let mut ahead = *body;
    let (kind, mut inner) = head(&mut ahead)?;
    if kind != EXPERIMENTER || inner.u32()? != NICIRA || inner.u16()? != nx::NAT {
        return Ok(None);
    }
    *body = ahead;
    read_nat(&mut inner).map(Some)
}

/// Only the connection's own mark and label can be written.
fn is_own(action: &Action) -> bool {
    match action {
        Action::SetField(field, ..) => matches!(field, Field::CtMark | Field::CtLabel),
        Action::Move(_, to) => matches!(to.field, Field::CtMark | Field::CtLabel),
        _ => false,
    }
}

fn read_zone(body: &mut Reader<'_>) -> Result<Zone, Failure> {
    let mut header = body.part(4)?;
    let packed = body.u16()?;
    if header.peek() == [0; 4] {
        return Ok(Zone::Number(packed));
    }
    match oxm::unpack(oxm::read_header(&mut header)?, packed)? {
        bits if bits.bits == 16 => Ok(Zone::Of(bits)),
        _ => Err(Failure::SetLength),
    }
}

/// Reads `ct`; `action` reads the actions in it.
pub(super) fn read<'a>(
    body: &mut Reader<'a>,
    action: impl Fn(&mut Reader<'a>) -> Result<Action, Failure>,
) -> Result<Action, Failure> {
    let flags = body.u16()?;
    let zone = read_zone(body)?;
    let table = Some(body.u8()?).filter(|table| *table != NO_TABLE);
    body.skip(3)?;
    let helper = body.u16()?;
    if flags & !(flag::COMMIT | flag::FORCE) != 0 || !matches!(helper, 0 | FTP | TFTP) {
        return Err(Failure::ActionArgument);
    }
    let (mut nat, mut exec) = (None, Vec::new());
    while !body.is_empty() {
        if let Some(found) = next_nat(body)? {
            if nat.replace(found).is_some() {
                return Err(Failure::ActionArgument);
            }
            continue;
        }
        let action = action(body)?;
        if !is_own(&action) {
            return Err(Failure::SetArgument);
        }
        exec.push(action);
    }
    let (commit, force) = (flags & flag::COMMIT != 0, flags & flag::FORCE != 0);
    let new_translation = nat.as_ref().is_some_and(|nat| nat.side.is_some());
    if !commit && (force || !exec.is_empty() || new_translation) {
        return Err(Failure::ActionArgument);
    }
    Ok(Action::Ct(Box::new(Ct { commit, force, table, zone, helper, nat, exec })))
}

fn write_nat(writer: &mut Writer, nat: &Nat) {
    let mut flags = match nat.side {
        None => 0,
        Some(NatSide::Source) => flag::SOURCE,
        Some(NatSide::Destination) => flag::DESTINATION,
    };
    for (is, bit) in [(nat.persistent, flag::PERSISTENT), (nat.hash, flag::HASH), (nat.random, flag::RANDOM)]
    {
        flags |= if is { bit } else { 0 };
    }
    let mut present = match nat.addresses {
        None => 0,
        Some((first, last)) => match (first.is_ipv4(), first == last) {
            (true, true) => range::V4_MIN,
            (true, false) => range::V4_MIN | range::V4_MAX,
            (false, true) => range::V6_MIN,
            (false, false) => range::V6_MIN | range::V6_MAX,
        },
    };
    present |= match nat.ports {
        None => 0,
        Some((first, last)) if first == last => range::PORT_MIN,
        Some(_) => range::PORT_MIN | range::PORT_MAX,
    };
    put_nicira(writer, nx::NAT, |writer| {
        writer.zeros(2).u16(flags).u16(present);
        if let Some((first, last)) = nat.addresses {
            for address in [Some(first), Some(last).filter(|last| *last != first)].into_iter().flatten() {
                match address {
                    IpAddr::V4(address) => writer.put(&address.octets()),
                    IpAddr::V6(address) => writer.put(&address.octets()),
                };
            }
        }
        if let Some((first, last)) = nat.ports {
            writer.u16(first);
            if last != first {
                writer.u16(last);
            }
        }
    });
}

/// Writes `ct`; `exec` writes the actions in it.
pub(super) fn write(writer: &mut Writer, ct: &Ct, exec: impl FnOnce(&mut Writer)) {
    let flags = (u16::from(ct.commit) * flag::COMMIT) | (u16::from(ct.force) * flag::FORCE);
    put_nicira(writer, nx::CT, |writer| {
        writer.u16(flags);
        let (field, words) = zone_words(ct.zone);
        match field {
            Some(field) => oxm::write_bare(writer, field, Prefer::Nxm),
            None => {
                writer.u32(0);
            }
        }
        writer.u16(words).u8(ct.table.unwrap_or(NO_TABLE)).zeros(3).u16(ct.helper);
        if let Some(nat) = &ct.nat {
            write_nat(writer, nat);
        }
        exec(writer);
    });
}
