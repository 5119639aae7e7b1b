//! Reads actions from text.
use super::super::{ParseError, value};
use super::word::{Word, arrow, named, number, port_of, split, subfield, writable};
use super::{HASH_FIELDS, REASONS, connection, learn};
use crate::{Action, Bundle, Controller, Field, Observation, Sample, Subfield, Timeouts, port, protocol};

const ACTIONS: &str = "output, controller, resubmit, goto_table, set_field, load, move, push, pop, push_vlan, \
                       pop_vlan, push_mpls, pop_mpls, dec_mpls_ttl, set_mpls_label, set_mpls_tc, set_mpls_ttl, \
                       dec_ttl, group, meter, set_queue, pop_queue, clone, conjunction, fin_timeout, learn, note, ct, ct_clear, \
                       check_pkt_larger, bundle, bundle_load, sample, exit, write_actions, clear_actions, \
                       write_metadata, drop";
/// Actions in actions, at most. (Open vSwitch: `MAX_OFPACT_PARSE_DEPTH`.)
const MAX_DEPTH: usize = 64;
/// The most clauses of a conjunction.
const MAX_CLAUSES: u8 = 64;
/// The shortest frame that is sent cut.
const MIN_CUT: u32 = 14;

/// A port that frames can go to.
fn destination(word: &Word<'_>, text: &str) -> Result<Action, ParseError> {
    match port_of(word, text)? {
        port::CONTROLLER => Ok(Action::Controller(Box::default())),
        port::UNSET | port::ANY => Err(word.wrong("no frame can go to this port", "another port")),
        port @ port::FIRST_RESERVED..port::UNSET => Err(word
            .wrong("the number is reserved", format!("a number below {}, not {port}", port::FIRST_RESERVED))),
        port => Ok(Action::Output(port)),
    }
}

fn output(word: &Word<'_>) -> Result<Action, ParseError> {
    if !word.all.starts_with("output(") {
        return match value::port(word.argument) {
            None if !word.argument.is_empty() => subfield(word.argument).map(Action::OutputField),
            _ => destination(word, word.argument),
        };
    }
    let (mut port, mut bytes) = (None, None);
    for part in split(word.argument)? {
        match part.split_once('=') {
            Some(("port", text)) => port = Some(port_of(word, text)?),
            Some(("max_len", text)) => bytes = Some(number::<u32>(word, text)?),
            _ => return Err(word.wrong("unknown word", "port=PORT,max_len=BYTES")),
        }
    }
    match (port, bytes) {
        (Some(port), Some(bytes)) if bytes >= MIN_CUT => match destination(word, &port.to_string())? {
            Action::Output(port) if !matches!(port, port::NORMAL | port::FLOOD | port::ALL | port::TABLE) => {
                Ok(Action::OutputCut(port, bytes))
            }
            _ => Err(word.wrong("this port takes no cut frames", "a number, IN_PORT or LOCAL")),
        },
        _ => Err(word.wrong(
            "port or length is missing or too small",
            format!("port=PORT,max_len=BYTES from {MIN_CUT}"),
        )),
    }
}

fn hex_bytes(word: &Word<'_>, text: &str) -> Result<Vec<u8>, ParseError> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'.').collect();
    let digit = |byte: u8| (byte as char).to_digit(16);
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => Some((digit(*high)? << 4 | digit(*low)?) as u8), // below 256
        _ => None,
    });
    pairs
        .collect::<Option<_>>()
        .ok_or_else(|| word.wrong("no bytes", "pairs of hexadecimal digits, as 01.02"))
}

fn controller(word: &Word<'_>) -> Result<Action, ParseError> {
    let mut to = Controller::default();
    if !word.all.contains('(') {
        if !word.argument.is_empty() {
            to.max_bytes = word.number()?;
        }
        return Ok(Action::Controller(Box::new(to)));
    }
    for part in split(word.argument)? {
        match part.split_once('=').unwrap_or((part, "")) {
            ("reason", text) => to.reason = named(word, &REASONS, text)?,
            ("max_len", text) => to.max_bytes = number(word, text)?,
            ("id", text) => to.id = number(word, text)?,
            ("userdata", text) => to.userdata = hex_bytes(word, text)?,
            ("pause", "") => to.pause = true,
            ("meter_id", text) => to.meter = number(word, text)?,
            _ => {
                return Err(word.wrong("unknown word", "reason=, max_len=, id=, userdata=, pause, meter_id="));
            }
        }
    }
    Ok(Action::Controller(Box::new(to)))
}

fn resubmit(word: &Word<'_>) -> Result<Action, ParseError> {
    let mut parts = word.argument.split(',');
    let of_this = |text: &&str| !text.is_empty();
    let input = parts.next().filter(of_this).map(|text| port_of(word, text)).transpose()?;
    let table: Option<u8> = parts.next().filter(of_this).map(|text| number(word, text)).transpose()?;
    let original = match parts.next() {
        None | Some("") => false,
        Some("ct") => true,
        Some(_) => return Err(word.wrong("unknown word", "resubmit(PORT,TABLE) or resubmit(PORT,TABLE,ct)")),
    };
    let (port, table) =
        (input.filter(|port| *port != port::IN_PORT), table.filter(|table| *table != u8::MAX));
    if port.is_none() && table.is_none() {
        return Err(word.wrong("neither port nor table", "resubmit:PORT or resubmit(,TABLE)"));
    }
    Ok(Action::Resubmit { port, table, original })
}

fn set_field(word: &Word<'_>) -> Result<Action, ParseError> {
    let (text, name) = arrow(word, word.argument)?;
    let field =
        Field::by_name(name).ok_or_else(|| word.wrong("no field of this name", "a name of ovs-fields(7)"))?;
    writable(word, Subfield::whole(field))?;
    let (value, mask) = value::parse(field, text)?;
    set(word, field, value, mask)
}

/// Checks a value that an action writes, and returns the action.
pub(super) fn set(word: &Word<'_>, field: Field, value: u128, mask: u128) -> Result<Action, ParseError> {
    match field {
        Field::VlanVid if mask & !value & 0x1000 != 0 => {
            Err(word.wrong("the bit of presence is clear", "0x1000 and the tag's number; or pop_vlan"))
        }
        Field::NwTos if value & 3 != 0 => {
            Err(word.wrong("the two low bits are not of the DSCP", "a multiple of 4"))
        }
        field => Ok(Action::SetField(field, value, mask)),
    }
}

fn load(word: &Word<'_>) -> Result<Action, ParseError> {
    let (text, to) = arrow(word, word.argument)?;
    let bits = writable(word, subfield(to)?)?;
    let value: u128 = number(word, text)?;
    if value > bits.all_bits() {
        return Err(word.wrong("more bits than the destination has", format!("at most {} bits", bits.bits)));
    }
    set(word, bits.field, value << bits.start, bits.mask())
}

fn move_bits(word: &Word<'_>) -> Result<Action, ParseError> {
    let (from, to) = arrow(word, word.argument)?;
    let (from, to) = (subfield(from)?, writable(word, subfield(to)?)?);
    if from.bits != to.bits {
        return Err(
            word.wrong("source and destination have different widths", format!("{} bits in both", from.bits))
        );
    }
    Ok(Action::Move(from, to))
}

fn conjunction(word: &Word<'_>) -> Result<Action, ParseError> {
    let parts = || {
        let (id, rest) = word.argument.split_once(',')?;
        let (clause, of) = rest.trim().split_once('/')?;
        Some((id, clause.parse::<u8>().ok()?, of.parse::<u8>().ok()?))
    };
    match parts() {
        Some((id, clause, of)) if (1..=of).contains(&clause) && (2..=MAX_CLAUSES).contains(&of) => {
            Ok(Action::Conjunction { id: number(word, id)?, clause: clause - 1, of })
        }
        _ => Err(word.wrong("no part of a conjunction", "ID,PART/PARTS, with 2 to 64 parts")),
    }
}

fn check_larger(word: &Word<'_>) -> Result<Action, ParseError> {
    let bit = subfield(word.rest.strip_prefix("->").unwrap_or(""))?;
    if bit.bits != 1 {
        return Err(word.wrong("the destination is not one bit", "check_pkt_larger(BYTES)->FIELD[BIT]"));
    }
    Ok(Action::CheckPacketLarger(word.number()?, writable(word, bit)?))
}

fn bundle(word: &Word<'_>) -> Result<Action, ParseError> {
    let accepted = "FIELDS,BASIS,ALGORITHM,ofport,[DESTINATION,]members:PORT,…";
    let wrong = || word.wrong("not understood", accepted);
    let (head, members) = word
        .argument
        .split_once("members:")
        .or_else(|| word.argument.split_once("slaves:"))
        .ok_or_else(wrong)?;
    let head = split(head)?;
    let (fields, basis, algorithm, load) = match (word.name, head.as_slice()) {
        ("bundle", [fields, basis, algorithm, "ofport"]) => (fields, basis, algorithm, None),
        ("bundle_load", [fields, basis, algorithm, "ofport", load]) => {
            (fields, basis, algorithm, Some(*load))
        }
        _ => return Err(wrong()),
    };
    let members = split(members)?.into_iter().map(|text| port_of(word, text)).collect::<Result<_, _>>()?;
    Ok(Action::Bundle(Box::new(Bundle {
        fields: named(word, &HASH_FIELDS, fields)?,
        basis: number(word, basis)?,
        by_weight: named(word, &[("hrw", true), ("active_backup", false)], algorithm)?,
        members,
        load: load.map(|load| writable(word, subfield(load)?)).transpose()?,
    })))
}

fn sample(word: &Word<'_>) -> Result<Action, ParseError> {
    let zero = Observation::Number(0);
    let mut sample =
        Sample { probability: 0, collector_set: 0, domain: zero, point: zero, port: None, egress: None };
    let observation = |text: &str| match value::number(text) {
        Some(_) => number(word, text).map(Observation::Number),
        None => subfield(text).map(Observation::Of),
    };
    for part in split(word.argument)? {
        match part.split_once('=').unwrap_or((part, "")) {
            ("probability", text) => sample.probability = number(word, text)?,
            ("collector_set_id", text) => sample.collector_set = number(word, text)?,
            ("obs_domain_id", text) => sample.domain = observation(text)?,
            ("obs_point_id", text) => sample.point = observation(text)?,
            ("sampling_port", text) => sample.port = Some(port_of(word, text)?),
            ("ingress", "") => sample.egress = Some(false),
            ("egress", "") => sample.egress = Some(true),
            _ => return Err(word.wrong("unknown word", "probability=, collector_set_id=, obs_domain_id=, …")),
        }
    }
    if sample.probability == 0 {
        return Err(word.wrong("no probability", "probability=1 to 65535"));
    }
    Ok(Action::Sample(Box::new(sample)))
}

/// Sets a field by its own action.
fn own(word: &Word<'_>, field: Field) -> Result<Option<Action>, ParseError> {
    match word.number::<u32>()? {
        value if u128::from(value) <= field.all_bits() => Ok(Some(Action::SetOwn(field, value))),
        _ => Err(word.wrong("the field has fewer bits", format!("a number of {} bits", field.bits()))),
    }
}

/// Actions that other names stand for.
fn older(word: &Word<'_>) -> Result<Option<Action>, ParseError> {
    let field = match word.name {
        "mod_dl_src" => Field::EthSrc,
        "mod_dl_dst" => Field::EthDst,
        "mod_nw_src" => Field::IpSrc,
        "mod_nw_dst" => Field::IpDst,
        "mod_nw_ttl" => return own(word, Field::NwTtl),
        "set_mpls_label" => return own(word, Field::MplsLabel),
        "set_mpls_tc" => return own(word, Field::MplsTc),
        "set_mpls_ttl" => return own(word, Field::MplsTtl),
        "mod_nw_ecn" => Field::NwEcn,
        "mod_tp_src" => Field::TcpSrc,
        "mod_tp_dst" => Field::TcpDst,
        "set_tunnel" | "set_tunnel64" => Field::TunnelId,
        "mod_nw_tos" => {
            let tos: u8 = word.number()?;
            return set(word, Field::NwTos, tos.into(), 0xff)
                .map(|_| Some(Action::SetField(Field::IpDscp, (tos >> 2).into(), 0x3f)));
        }
        _ => return Ok(None),
    };
    let (value, mask) = value::parse(field, word.argument)?;
    Ok(Some(Action::SetField(field, value, mask)))
}

fn dec_ttl(word: &Word<'_>) -> Result<Action, ParseError> {
    if !word.all.contains('(') {
        return Ok(Action::DecTtl(None));
    }
    let ids = split(word.argument)?.into_iter().map(|id| number(word, id)).collect::<Result<_, _>>()?;
    Ok(Action::DecTtl(Some(ids)))
}

fn fin_timeout(word: &Word<'_>) -> Result<Action, ParseError> {
    let mut timeouts = Timeouts::default();
    for part in split(word.argument)? {
        match part.split_once('=') {
            Some(("idle_timeout", seconds)) => timeouts.idle = number(word, seconds)?,
            Some(("hard_timeout", seconds)) => timeouts.hard = number(word, seconds)?,
            _ => return Err(word.wrong("unknown word", "idle_timeout=SECONDS, hard_timeout=SECONDS")),
        }
    }
    Ok(Action::FinTimeout(timeouts))
}

fn note(word: &Word<'_>) -> Result<Action, ParseError> {
    let mut note = hex_bytes(word, word.argument)?;
    // As on the wire, where the note ends with the action.
    note.resize((note.len() + 2).next_multiple_of(8).max(8) - 2, 0);
    Ok(Action::Note(note))
}

fn one(word: &Word<'_>, depth: usize) -> Result<Action, ParseError> {
    match word.name {
        "output" => output(word),
        "controller" | "CONTROLLER" => controller(word),
        "resubmit" => resubmit(word),
        "goto_table" => word.number().map(Action::GotoTable),
        "set_field" => set_field(word),
        "load" => load(word),
        "move" => move_bits(word),
        "push" => subfield(word.argument).map(Action::Push),
        "pop" => writable(word, subfield(word.argument)?).map(Action::Pop),
        "push_vlan" => match word.number()? {
            kind @ (0x8100_u16 | 0x88a8) => Ok(Action::PushVlan(kind)),
            _ => Err(word.wrong("no type of a VLAN tag", "0x8100 or 0x88a8")),
        },
        "push_mpls" => match word.number()? {
            kind @ (protocol::MPLS | protocol::MPLS_MULTICAST) => Ok(Action::PushMpls(kind)),
            _ => Err(word.wrong("no type of MPLS", "0x8847 or 0x8848")),
        },
        "pop_mpls" => word.number().map(Action::PopMpls),
        "dec_mpls_ttl" => Ok(Action::DecMplsTtl),
        "pop_vlan" | "strip_vlan" => Ok(Action::PopVlan),
        "mod_vlan_vid" => match word.number()? {
            number @ 0..0x1000 => Ok(Action::ModVlanVid(number)),
            _ => Err(word.wrong("no VLAN", "a number below 4096")),
        },
        "mod_vlan_pcp" => match word.number()? {
            priority @ 0..8 => Ok(Action::ModVlanPcp(priority)),
            _ => Err(word.wrong("no priority of a VLAN", "0 to 7")),
        },
        "dec_ttl" => dec_ttl(word),
        "fin_timeout" => fin_timeout(word),
        "group" => word.number().map(Action::Group),
        "meter" => match word.number()? {
            0 => Err(word.wrong("no meter", "a number from 1")),
            meter => Ok(Action::Meter(meter)),
        },
        "set_queue" => word.number().map(Action::SetQueue),
        "pop_queue" => Ok(Action::PopQueue),
        "clone" => list(word.argument, depth + 1).map(Action::Clone),
        "conjunction" => conjunction(word),
        "learn" => learn::parse(word),
        "note" => note(word),
        "ct" => connection::parse(word, |text| list(text, depth + 1)),
        "ct_clear" => Ok(Action::CtClear),
        "check_pkt_larger" => check_larger(word),
        "bundle" | "bundle_load" => bundle(word),
        "sample" => sample(word),
        "exit" => Ok(Action::Exit),
        "write_actions" => list(word.argument, depth + 1).map(Action::WriteActions),
        "clear_actions" => Ok(Action::ClearActions),
        "write_metadata" => {
            let (value, mask) = value::parse(Field::Metadata, word.argument)?;
            Ok(Action::WriteMetadata(value as u64, mask as u64)) // fields of 64 bits
        }
        _ => match older(word)? {
            Some(action) => Ok(action),
            None if value::port(word.all).is_some() => destination(word, word.all),
            None => Err(word.wrong("no action of this name", ACTIONS)),
        },
    }
}

/// Reads actions with commas between them. `drop` must be the only action.
pub(in super::super) fn list(text: &str, depth: usize) -> Result<Vec<Action>, ParseError> {
    if depth > MAX_DEPTH {
        return Err(ParseError::new(text, "too many actions in actions", format!("{MAX_DEPTH} at most")));
    }
    let words = split(text)?;
    if words.as_slice() == ["drop"] {
        return Ok(Vec::new());
    }
    words.into_iter().map(|word| one(&Word::new(word), depth)).collect()
}
