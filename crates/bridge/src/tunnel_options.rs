//! The assignment of Geneve options to fields of tunnel metadata.

use openflow::{Failure, TlvCommand, TlvMap, TlvMod};

/// The limit of all options in bytes, as in Open vSwitch.
pub(crate) const MAX_BYTES: u32 = 256;
pub(crate) const MAX_FIELDS: u16 = 64;

/// The assignment after a change.
pub(crate) fn changed(maps: &[TlvMap], change: &TlvMod) -> Result<Vec<TlvMap>, Failure> {
    let mut next = maps.to_vec();
    match change.command {
        TlvCommand::Clear => next.clear(),
        TlvCommand::Delete => {
            for map in &change.maps {
                next.retain(|known| (known.class, known.kind) != (map.class, map.kind));
            }
        }
        TlvCommand::Add => {
            for map in &change.maps {
                if next.iter().any(|known| known.index == map.index) {
                    return Err(Failure::TlvMapped);
                }
                if next.iter().any(|known| (known.class, known.kind) == (map.class, map.kind)) {
                    return Err(Failure::TlvDuplicate);
                }
                next.push(*map);
            }
            if next.iter().map(|map| u32::from(map.bytes)).sum::<u32>() > MAX_BYTES {
                return Err(Failure::TlvFull);
            }
        }
    }
    Ok(next)
}
