//! Reads `learn` from text.
use std::sync::Arc;

use super::super::{ParseError, value};
use super::word::{Word, arrow, number, split, subfield, writable};
use crate::{Action, Field, Learn, LearnSpec, Subfield};

fn load(word: &Word<'_>, text: &str) -> Result<LearnSpec, ParseError> {
    let (from, to) = arrow(word, text)?;
    let to = writable(word, subfield(to)?)?;
    if value::number(from).is_some() {
        let value: u128 = number(word, from)?;
        return fits(word, value, to).map(|()| LearnSpec::LoadValue(value, to));
    }
    let from = subfield(from)?;
    same_width(word, from, to).map(|()| LearnSpec::LoadField(from, to))
}

fn fits(word: &Word<'_>, value: u128, bits: Subfield) -> Result<(), ParseError> {
    if value <= bits.all_bits() {
        return Ok(());
    }
    Err(word.wrong("more bits than the field has", format!("at most {} bits for {bits}", bits.bits)))
}

fn same_width(word: &Word<'_>, one: Subfield, other: Subfield) -> Result<(), ParseError> {
    if one.bits == other.bits {
        return Ok(());
    }
    Err(word.wrong("different widths", format!("as many bits of {one} as of {other}")))
}

fn spec(word: &Word<'_>, part: &str) -> Result<LearnSpec, ParseError> {
    if let Some(text) = part.strip_prefix("load:") {
        return load(word, text);
    }
    if let Some(text) = part.strip_prefix("output:") {
        return subfield(text).map(LearnSpec::Output);
    }
    let Some((name, text)) = part.split_once('=') else {
        return subfield(part).map(|bits| LearnSpec::MatchField(bits, bits));
    };
    let wanted = subfield(name)?;
    if Field::by_name(name).is_some()
        && let Ok((value, mask)) = value::parse(wanted.field, text)
        && mask == wanted.field.all_bits()
    {
        return Ok(LearnSpec::MatchValue(wanted, value));
    }
    if value::number(text).is_some() {
        let value: u128 = number(word, text)?;
        return fits(word, value, wanted).map(|()| LearnSpec::MatchValue(wanted, value));
    }
    let of = subfield(text)?;
    same_width(word, wanted, of).map(|()| LearnSpec::MatchField(wanted, of))
}

pub(super) fn parse(word: &Word<'_>) -> Result<Action, ParseError> {
    let mut learn = Learn::default();
    for part in split(word.argument)? {
        match part.split_once('=').unwrap_or((part, "")) {
            ("table", text) => learn.table = number(word, text)?,
            ("priority", text) => learn.priority = number(word, text)?,
            ("idle_timeout", text) => learn.timeouts.idle = number(word, text)?,
            ("hard_timeout", text) => learn.timeouts.hard = number(word, text)?,
            ("fin_idle_timeout", text) => learn.fin_timeouts.0 = number(word, text)?,
            ("fin_hard_timeout", text) => learn.fin_timeouts.1 = number(word, text)?,
            ("cookie", text) => learn.cookie = number(word, text)?,
            ("send_flow_rem", "") => learn.send_removed = true,
            ("delete_learned", "") => learn.delete_learned = true,
            ("limit", text) => learn.limit = number(word, text)?,
            ("result_dst", text) => match writable(word, subfield(text)?)? {
                bit if bit.bits == 1 => learn.result = Some(bit),
                _ => return Err(word.wrong("the destination is not one bit", "result_dst=FIELD[BIT]")),
            },
            _ => learn.specs.push(spec(word, part)?),
        }
    }
    Ok(Action::Learn(Arc::new(learn)))
}
