//! Reads and prints flags by name: `+trk-new`, `syn|ack`, or a number.
use super::ParseError;
use crate::Notation;

const CT_STATE: &[&str] = &["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"];
const TCP: &[&str] =
    &["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns", "[200]", "[400]", "[800]"];
/// The only flag of a tunnel that a match may have.
const TUNNEL: &[&str] = &["oam"];

/// The names of the flags of a notation, lowest bit first, and the bits of all these flags.
pub(super) fn names(notation: Notation) -> Option<(&'static [&'static str], u128)> {
    match notation {
        Notation::CtState => Some((CT_STATE, 0xff)),
        Notation::TcpFlags => Some((TCP, 0xfff)),
        Notation::TunnelFlags => Some((TUNNEL, 1)),
        _ => None,
    }
}

fn bit(names: &[&str], name: &str) -> Option<u128> {
    names.iter().position(|other| *other == name).map(|at| 1 << at)
}

fn unknown(names: &[&str], name: &str) -> ParseError {
    ParseError::new(name, "unknown flag", names.join(", "))
}

/// Reads flags; returns their values and the mask of the bits that are compared.
pub(super) fn parse(names: &[&str], all: u128, text: &str) -> Result<(u128, u128), ParseError> {
    let (mut value, mut mask) = (0, 0);
    if !text.starts_with(['+', '-']) {
        for name in text.split('|') {
            value |= bit(names, name).ok_or_else(|| unknown(names, name))?;
        }
        return Ok((value, all));
    }
    let mut rest = text;
    while let Some(sign) = rest.chars().next() {
        let word = &rest[1..];
        let (name, after) = word.split_at(word.find(['+', '-']).unwrap_or(word.len()));
        let flag = bit(names, name).ok_or_else(|| unknown(names, name))?;
        if mask & flag != 0 {
            return Err(ParseError::new(name, "the flag is given twice", "each flag once"));
        }
        mask |= flag;
        if sign == '+' {
            value |= flag;
        }
        rest = after;
    }
    Ok((value, mask))
}

/// Prints `syn|ack` if every bit is compared, and `+syn-ack` otherwise.
pub(super) fn print(names: &[&str], all: u128, value: u128, mask: u128) -> String {
    let set = |wanted: u128| names.iter().enumerate().filter(move |(at, _)| wanted >> at & 1 != 0);
    // A single flag is printed with its sign.
    if mask & all == all && names.len() > 1 {
        let words = set(value).map(|(_, name)| *name).collect::<Vec<_>>();
        return if words.is_empty() { "0".to_owned() } else { words.join("|") };
    }
    set(mask).map(|(at, name)| format!("{}{name}", if value >> at & 1 != 0 { '+' } else { '-' })).collect()
}
