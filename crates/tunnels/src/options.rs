//! Geneve options as fields of tunnel metadata (RFC 8926 §3.5; ovs-fields(7), `tun_metadata0`).
use flow::{Field, Key};

use crate::Malformed;

/// Class, type and length.
const HEADER_BYTES: usize = 4;
/// A receiver that does not know the option drops the frame.
const CRITICAL: u8 = 0x80;

/// One option and the field that has its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionMap {
    /// The option's class.
    pub class: u16,
    /// The option's type.
    pub kind: u8,
    /// Bytes of the value: 4 or 8.
    pub bytes: u8,
    /// The number of the field `tun_metadata`.
    pub index: u16,
}

impl OptionMap {
    /// The field; none if a key has no field for it.
    fn field(&self) -> Option<Field> {
        Field::TUNNEL_METADATA.get(usize::from(self.index)).copied().filter(|_| matches!(self.bytes, 4 | 8))
    }
}

/// Appends the options whose fields are not zero. Returns the bytes that they take, or `None` if `into` is too short.
pub(crate) fn write(maps: &[OptionMap], key: &Key, into: &mut [u8]) -> Option<usize> {
    let mut at = 0;
    for map in maps {
        let Some(value) = map.field().map(|field| key.get(field) as u64).filter(|value| *value != 0) else {
            continue;
        };
        let value_bytes = usize::from(map.bytes);
        let option = into.get_mut(at..at + HEADER_BYTES + value_bytes)?;
        option[..2].copy_from_slice(&map.class.to_be_bytes());
        (option[2], option[3]) = (map.kind, map.bytes / 4);
        option[HEADER_BYTES..].copy_from_slice(&value.to_be_bytes()[8 - value_bytes..]);
        at += option.len();
    }
    Some(at)
}

/// Reads options into the fields of a key.
///
/// # Errors
/// An option is longer than the options, or a critical one is unknown.
pub(crate) fn read(maps: &[OptionMap], options: &[u8], key: &mut Key) -> Result<(), Malformed> {
    let mut rest = options;
    while let Some((header, behind)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let bytes = usize::from(header[3] & 0x1f) * 4;
        let (value, behind) = behind.split_at_checked(bytes).ok_or(Malformed::Options)?;
        let class = u16::from_be_bytes([header[0], header[1]]);
        let is_of =
            |map: &&OptionMap| (map.class, map.kind, usize::from(map.bytes)) == (class, header[2], bytes);
        match maps.iter().find(is_of).and_then(OptionMap::field) {
            Some(field) => {
                let value = value.iter().fold(0, |number, byte| number << 8 | u128::from(*byte));
                key.set(field, value);
            }
            None if header[2] & CRITICAL != 0 => return Err(Malformed::Critical),
            None => {}
        }
        rest = behind;
    }
    if rest.is_empty() { Ok(()) } else { Err(Malformed::Options) }
}
