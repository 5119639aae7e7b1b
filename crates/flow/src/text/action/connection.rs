//! Reads `ct` and `nat` from text.
use std::net::IpAddr;

use super::super::{ParseError, value};
use super::word::{Word, number, split, subfield};
use crate::{Action, Ct, Field, Nat, NatSide, Zone};

/// `ADDRESS[-ADDRESS][:PORT[-PORT]]`. IPv6 addresses before a range or ports are in brackets.
fn range(word: &Word<'_>, text: &str, nat: &mut Nat) -> Option<()> {
    let address = |text: &str| -> Option<(IpAddr, usize)> {
        if let Some(inner) = text.strip_prefix('[') {
            let end = inner.find(']')?;
            return Some((IpAddr::V6(inner[..end].parse().ok()?), end + 2));
        }
        if let Ok(address) = text.parse() {
            return Some((IpAddr::V6(address), text.len()));
        }
        let end = text.find(['-', ':']).unwrap_or(text.len());
        Some((IpAddr::V4(text[..end].parse().ok()?), end))
    };
    let mut rest = text;
    if !rest.starts_with(':') {
        let (first, end) = address(rest)?;
        rest = &rest[end..];
        let mut last = first;
        if let Some(text) = rest.strip_prefix('-') {
            let (address, end) = address(text)?;
            (last, rest) = (address, &text[end..]);
        }
        if first.is_ipv4() != last.is_ipv4() || first > last {
            return None;
        }
        nat.addresses = Some((first, last));
    }
    if let Some(ports) = rest.strip_prefix(':') {
        let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
        let (first, last) = (number::<u16>(word, first).ok()?, number::<u16>(word, last).ok()?);
        nat.ports = Some((first, last)).filter(|_| first != 0 && first <= last);
        return nat.ports.map(drop);
    }
    rest.is_empty().then_some(())
}

fn nat(word: &Word<'_>) -> Result<Nat, ParseError> {
    let mut nat = Nat::default();
    for part in split(word.argument)? {
        match part.split_once('=').unwrap_or((part, "")) {
            (side @ ("src" | "dst"), text) if nat.side.is_none() => {
                nat.side = Some(if side == "src" { NatSide::Source } else { NatSide::Destination });
                if !text.is_empty() && range(word, text, &mut nat).is_none() {
                    return Err(
                        word.wrong("no range", "ADDRESS-ADDRESS:PORT-PORT; IPv6 addresses in brackets")
                    );
                }
            }
            ("persistent", "") => nat.persistent = true,
            ("hash", "") => nat.hash = true,
            ("random", "") => nat.random = true,
            _ => {
                return Err(word.wrong("unknown word", "src, src=RANGE, dst=RANGE, persistent, hash, random"));
            }
        }
    }
    if nat.side.is_none() && nat != Nat::default() {
        return Err(word.wrong("flags without an address", "src or dst beside them"));
    }
    if nat.addresses.is_none() && nat.ports.is_none() {
        nat = Nat { side: nat.side, ..Nat::default() };
    }
    Ok(nat)
}

fn zone(word: &Word<'_>, text: &str) -> Result<Zone, ParseError> {
    if value::number(text).is_some() {
        return number(word, text).map(Zone::Number);
    }
    match subfield(text)? {
        bits if bits.bits == 16 => Ok(Zone::Of(bits)),
        _ => Err(word.wrong("a zone has 16 bits", "a number, or 16 bits of a field")),
    }
}

/// Only the connection's own mark and label can be written there.
fn exec(
    word: &Word<'_>,
    text: &str,
    list: impl Fn(&str) -> Result<Vec<Action>, ParseError>,
) -> Result<Vec<Action>, ParseError> {
    let actions = list(text)?;
    let own = |action: &Action| match action {
        Action::SetField(field, ..) => matches!(field, Field::CtMark | Field::CtLabel),
        Action::Move(_, to) => matches!(to.field, Field::CtMark | Field::CtLabel),
        _ => false,
    };
    if !actions.iter().all(own) {
        return Err(word.wrong("exec writes another field", "set_field, load or move to ct_mark or ct_label"));
    }
    Ok(actions)
}

/// `list` reads the actions of `exec`.
pub(super) fn parse(
    word: &Word<'_>,
    list: impl Fn(&str) -> Result<Vec<Action>, ParseError>,
) -> Result<Action, ParseError> {
    let mut ct = Ct {
        commit: false,
        force: false,
        table: None,
        zone: Zone::Number(0),
        helper: 0,
        nat: None,
        exec: Vec::new(),
    };
    for part in split(word.argument)? {
        let part = Word::new(part);
        match part.name {
            "commit" => ct.commit = true,
            "force" => ct.force = true,
            "table" => match part.number()? {
                u8::MAX => return Err(word.wrong("no table", "0 to 254")),
                table => ct.table = Some(table),
            },
            "zone" => ct.zone = zone(word, part.argument)?,
            "alg" => match part.argument {
                "ftp" => ct.helper = 21,
                "tftp" => ct.helper = 69,
                _ => return Err(word.wrong("unknown protocol", "ftp, tftp")),
            },
            "nat" => ct.nat = Some(nat(&part)?),
            "exec" => ct.exec = exec(word, part.argument, &list)?,
            _ => return Err(word.wrong("unknown word", "commit, force, table=, zone=, nat, exec(…), alg=")),
        }
    }
    let commits = ct.force || !ct.exec.is_empty() || ct.nat.as_ref().is_some_and(|nat| nat.side.is_some());
    if commits && !ct.commit {
        return Err(word.wrong("force, exec and new translations need commit", "commit beside them"));
    }
    Ok(Action::Ct(Box::new(ct)))
}
