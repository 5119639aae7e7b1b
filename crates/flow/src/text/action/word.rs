//! Splits actions into words, and words into arguments.
use super::super::{ParseError, value};
use crate::{Field, Subfield};

/// Splits a text at commas and blanks that are outside of parentheses.
pub(in crate::text) fn split(text: &str) -> Result<Vec<&str>, ParseError> {
    let (mut words, mut depth, mut from) = (Vec::new(), 0_usize, 0);
    let unbalanced = || ParseError::new(text, "parentheses do not match", "a \")\" for each \"(\"");
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1).ok_or_else(unbalanced)?,
            ',' | ' ' | '\t' | '\r' | '\n' if depth == 0 => {
                words.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err(unbalanced());
    }
    words.push(&text[from..]);
    words.retain(|word| !word.is_empty());
    Ok(words)
}

/// One word and its parts: `name:argument`, `name(argument)rest` or `name=argument`.
pub(in crate::text) struct Word<'a> {
    pub all: &'a str,
    pub name: &'a str,
    pub argument: &'a str,
    /// The text behind the parentheses.
    pub rest: &'a str,
}

impl<'a> Word<'a> {
    pub(in crate::text) fn new(all: &'a str) -> Self {
        let at = all.find([':', '(', '=']).unwrap_or(all.len());
        let (name, tail) = all.split_at(at);
        let (argument, rest) = match tail.strip_prefix('(') {
            Some(inner) => inner.rsplit_once(')').unwrap_or((inner, "")),
            None => (tail.get(1..).unwrap_or(""), ""),
        };
        Self { all, name, argument, rest }
    }

    pub(in crate::text) fn wrong(&self, why: &str, accepted: impl Into<String>) -> ParseError {
        ParseError::new(self.all, why, accepted)
    }

    /// The argument as a number of this type.
    pub(in crate::text) fn number<T: TryFrom<u128>>(&self) -> Result<T, ParseError> {
        number(self, self.argument)
    }
}

pub(in crate::text) fn number<T: TryFrom<u128>>(word: &Word<'_>, text: &str) -> Result<T, ParseError> {
    value::number(text).and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
        let bits = 8 * size_of::<T>();
        word.wrong(
            "no number of this action",
            format!("a number of at most {bits} bits in place of {text:?}"),
        )
    })
}

/// Bits of a field: `NXM_NX_REG0[]`, `reg0[3]`, `reg0[3..6]` or `reg0`.
pub(in crate::text) fn subfield(text: &str) -> Result<Subfield, ParseError> {
    let wrong = |why: &str, accepted: String| ParseError::new(text, why, accepted);
    let (name, bits) = match text.split_once('[') {
        Some((name, bits)) => (name, bits.strip_suffix(']')),
        None => (text, Some("")),
    };
    let field = Field::by_header(name)
        .ok_or_else(|| wrong("no field of this name", "a name or header of ovs-fields(7)".to_owned()))?;
    let range = || {
        let bits = bits?;
        if bits.is_empty() {
            return Some(Subfield::whole(field));
        }
        let (first, last) = bits.split_once("..").unwrap_or((bits, bits));
        let (start, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        (start <= last && last < field.bits()).then(|| Subfield { field, start, bits: last - start + 1 })
    };
    range().ok_or_else(|| {
        wrong("no bits of this field", format!("[], [BIT] or [FIRST..LAST] below {}", field.bits()))
    })
}

pub(in crate::text) fn writable(word: &Word<'_>, bits: Subfield) -> Result<Subfield, ParseError> {
    if bits.field.is_writable() {
        return Ok(bits);
    }
    Err(word.wrong("the field is read-only", "a field that ovs-fields(7) calls writable"))
}

/// The texts on both sides of an arrow.
pub(in crate::text) fn arrow<'a>(word: &Word<'a>, text: &'a str) -> Result<(&'a str, &'a str), ParseError> {
    text.split_once("->").ok_or_else(|| word.wrong("the destination is missing", "SOURCE->DESTINATION"))
}

pub(in crate::text) fn named<T: Copy>(
    word: &Word<'_>,
    names: &[(&str, T)],
    text: &str,
) -> Result<T, ParseError> {
    names.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<_> = names.iter().map(|(name, _)| *name).collect();
        word.wrong("no value of this name", names.join(", "))
    })
}

pub(in crate::text) fn port_of(word: &Word<'_>, text: &str) -> Result<u16, ParseError> {
    value::port(text)
        .ok_or_else(|| word.wrong("no port", "a decimal number, or a reserved name such as LOCAL"))
}
