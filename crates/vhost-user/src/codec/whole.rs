//! Whole payloads.
use super::bytes::{Reader, Wire};
use super::table::Rule;
use crate::violation::Violation;

/// Reads a whole payload. Fails if its size does not fit.
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

#[cfg(test)]
mod tests {
    use super::super::payload::{MAX_TABLE_REGIONS, MemoryRegion, MemoryTable};
    use super::super::table::frontend_request;
    use super::*;

    /// The sizes in the message table already refuse these messages: the table and the parser must each be correct
    /// alone.
    #[test]
    fn what_does_not_fit_is_refused_by_what_reads_it_too() {
        let field = |result: Result<MemoryTable, Violation>| result.unwrap_err().field;
        let region = MemoryRegion { guest_address: 0, size_bytes: 4096, user_address: 0, mmap_offset: 0 };
        let table = |count: usize| write_all(&MemoryTable { regions: vec![region; count] });
        let rule = frontend_request(5).unwrap();
        let most = table(MAX_TABLE_REGIONS);
        assert!(read_all::<MemoryTable>(rule, &most).is_ok());
        assert_eq!(field(read_all(rule, &table(MAX_TABLE_REGIONS + 1))), "number of regions");
        assert_eq!(field(read_all(rule, &[&most[..], &[0]].concat())), "payload size");
        assert_eq!(field(read_all(rule, &most[1..])), "payload size");
    }
}
