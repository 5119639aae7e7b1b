//! Reads and prints values of fields, with and without a mask.
use std::net::{Ipv4Addr, Ipv6Addr};

use super::{ParseError, flags};
use crate::{Field, Notation};

/// Reserved ports (OpenFlow 1.5 §7.2.1), as 16 bits.
const PORTS: [(&str, u16); 9] = [
    ("UNSET", 0xfff7),
    ("IN_PORT", 0xfff8),
    ("TABLE", 0xfff9),
    ("NORMAL", 0xfffa),
    ("FLOOD", 0xfffb),
    ("ALL", 0xfffc),
    ("CONTROLLER", 0xfffd),
    ("LOCAL", 0xfffe),
    ("ANY", 0xffff),
];

/// Fragments (ovs-fields(7)): value and mask of each name.
const FRAGMENTS: [(&str, u128, u128); 5] =
    [("no", 0, 3), ("yes", 1, 1), ("first", 1, 3), ("later", 3, 3), ("not_later", 0, 2)];

/// Fields that a match has as a whole or not at all. The mask of a fragment is in its name.
const WHOLE: [Field; 25] = [
    Field::RecircId,
    Field::ConjId,
    Field::InPort,
    Field::InPortOxm,
    Field::ActionSetOutput,
    Field::CtZone,
    Field::CtNwProto,
    Field::TunnelTos,
    Field::TunnelTtl,
    Field::EthType,
    Field::VlanPcp,
    Field::NwProto,
    Field::ArpOp,
    Field::NwTos,
    Field::IpDscp,
    Field::NwEcn,
    Field::NwTtl,
    Field::IpFrag,
    Field::IcmpType,
    Field::IcmpCode,
    Field::Icmpv6Type,
    Field::Icmpv6Code,
    Field::NdReserved,
    Field::NdOptionsType,
    Field::VlanTpid,
];

/// Reads a number as C writes it: decimal, `0x` and hexadecimal, or `0` and octal.
pub(super) fn number(text: &str) -> Option<u128> {
    let (digits, base) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    u128::from_str_radix(digits, base).ok().filter(|_| !digits.starts_with('+'))
}

/// Reads a port: a decimal number or a reserved name.
pub(super) fn port(text: &str) -> Option<u16> {
    let named = PORTS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, port)| *port);
    named.or_else(|| text.parse().ok().filter(|_| !text.starts_with('+')))
}

pub(super) fn print_port(port: u128) -> String {
    let name = PORTS.iter().find(|(_, number)| u128::from(*number) == port).map(|(name, _)| *name);
    name.map_or_else(|| port.to_string(), str::to_owned)
}

fn ethernet(text: &str) -> Option<u128> {
    let mut bytes = text.split(':');
    let mut value = 0;
    for _ in 0..6 {
        let byte = bytes.next().filter(|byte| (1..=2).contains(&byte.len()) && !byte.starts_with('+'))?;
        value = value << 8 | u128::from(u8::from_str_radix(byte, 16).ok()?);
    }
    bytes.next().is_none().then_some(value)
}

pub(super) fn print_ethernet(value: u128) -> String {
    let bytes: Vec<_> = (0..6).rev().map(|at| format!("{:02x}", value >> (8 * at) & 0xff)).collect();
    bytes.join(":")
}

fn one(field: Field, text: &str) -> Option<u128> {
    match field.notation() {
        Notation::Ethernet => ethernet(text),
        Notation::Ipv4 => text.parse::<Ipv4Addr>().ok().map(|address| u32::from(address).into()),
        Notation::Ipv6 => text.parse::<Ipv6Addr>().ok().map(u128::from),
        Notation::Port => port(text).map(u128::from),
        Notation::Fragment => None, // by name only
        _ => number(text),
    }
}

fn accepted(field: Field) -> String {
    match field.notation() {
        Notation::Ethernet => "six bytes as 00:11:22:33:44:55, with /MASK of the same form".to_owned(),
        Notation::Ipv4 => "an address as 10.0.0.1, with /PREFIX or /MASK".to_owned(),
        Notation::Ipv6 => "an address as fe80::1, with /PREFIX or /MASK".to_owned(),
        Notation::Port => {
            let names: Vec<_> = PORTS.iter().map(|(name, _)| *name).collect();
            format!("a decimal number up to 65535, or {}", names.join(", "))
        }
        Notation::Fragment => "no, yes, first, later, not_later".to_owned(),
        notation => match flags::names(notation) {
            Some((names, _)) => {
                format!("+NAME and -NAME, NAME|NAME or a number; names: {}", names.join(", "))
            }
            None => {
                let mask = if WHOLE.contains(&field) { "" } else { ", with /MASK" };
                format!("a number of at most {} bits{mask}", field.bits())
            }
        },
    }
}

/// A prefix's length or a mask.
fn mask(field: Field, text: &str) -> Option<u128> {
    if matches!(field.notation(), Notation::Ipv4 | Notation::Ipv6)
        && let Some(length) = text.parse::<u32>().ok().filter(|length| *length <= field.bits())
    {
        return Some(field.all_bits() & !(field.all_bits().checked_shr(length).unwrap_or(0)));
    }
    one(field, text)
}

/// Reads a value and its mask.
///
/// # Errors
/// The text is not a value of the field, or has more bits than the field.
pub(super) fn parse(field: Field, text: &str) -> Result<(u128, u128), ParseError> {
    let all = field.all_bits();
    if text == "*" {
        return Ok((0, 0));
    }
    if let Some((_, value, mask)) = FRAGMENTS.iter().find(|(name, ..)| *name == text)
        && field.notation() == Notation::Fragment
    {
        return Ok((*value, *mask));
    }
    let (first, second) = text.split_once('/').map_or((text, None), |(first, second)| (first, Some(second)));
    let wrong = |why: &str| ParseError::new(format!("{}={text}", field.name()), why, accepted(field));
    if let Some((names, all)) = flags::names(field.notation())
        && number(first).is_none()
    {
        return flags::parse(names, all, text);
    }
    let value = one(field, first).ok_or_else(|| wrong("no value of this field"))?;
    let mask = match second {
        None => flags::names(field.notation()).map_or(all, |(_, all)| all),
        Some(text) => mask(field, text).ok_or_else(|| wrong("no mask of this field"))?,
    };
    let all = flags::names(field.notation()).map_or(all, |(_, all)| all);
    if value > all || mask > all {
        return Err(wrong("more bits than the field has"));
    }
    if mask != 0 && mask != all && WHOLE.contains(&field) {
        return Err(wrong("the field has no mask"));
    }
    Ok((value & mask, mask))
}

fn print_one(field: Field, value: u128) -> String {
    match field.notation() {
        Notation::Ethernet => print_ethernet(value),
        Notation::Ipv4 => Ipv4Addr::from(value as u32).to_string(),
        Notation::Ipv6 => Ipv6Addr::from(value).to_string(),
        Notation::Port => print_port(value),
        Notation::Decimal => value.to_string(),
        _ => hex(value),
    }
}

/// Prints a number as C's `%#x` does: zero has no prefix.
pub(super) fn hex(value: u128) -> String {
    if value == 0 { "0".to_owned() } else { format!("{value:#x}") }
}

/// The length of the prefix, if the mask is a prefix.
fn prefix(field: Field, mask: u128) -> Option<u32> {
    let length = (mask << (128 - field.bits())).leading_ones();
    (mask == field.all_bits() & !field.all_bits().checked_shr(length).unwrap_or(0)).then_some(length)
}

/// Prints a value, and its mask unless all bits are compared.
pub(super) fn print(field: Field, value: u128, mask: u128) -> String {
    if let Some((names, all)) = flags::names(field.notation()) {
        return flags::print(names, all, value, mask);
    }
    if let Some((name, ..)) = FRAGMENTS.iter().find(|row| (row.1, row.2) == (value, mask))
        && field.notation() == Notation::Fragment
    {
        return (*name).to_owned();
    }
    if mask == field.all_bits() {
        return print_one(field, value);
    }
    match field.notation() {
        Notation::Ipv4 | Notation::Ipv6 => match prefix(field, mask) {
            Some(length) => format!("{}/{length}", print_one(field, value)),
            None => format!("{}/{}", print_one(field, value), print_one(field, mask)),
        },
        Notation::Ethernet => format!("{}/{}", print_one(field, value), print_one(field, mask)),
        Notation::Decimal => format!("0x{value:x}/0x{mask:x}"),
        _ => format!("{}/{}", hex(value), hex(mask)),
    }
}
