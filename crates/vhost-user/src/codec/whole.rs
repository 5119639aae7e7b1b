//! Whole payloads.
use super::bytes::{Reader, Wire};
use super::table::Rule;
use crate::violation::Violation;

/// Reads a whole payload, or says that its size does not fit.
pub(super) fn read_all<T: Wire>(rule: &Rule, payload: &[u8]) -> Result<T, Violation> {
    let mut reader = Reader::new(rule.name, payload);
    let value = T::read(&mut reader)?;
    reader.finish()?;
    Ok(value)
}

pub(super) fn write_all<T: Wire>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.write(&mut bytes);
    bytes
}
