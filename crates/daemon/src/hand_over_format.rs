//! The document that a switch hands over to the one that takes over.
//!
//! Versions that differ by one are compatible: unknown fields are ignored, and missing ones have a default. [`FORMAT`]
//! is raised when a switch that does not know a field could not continue.
use std::collections::BTreeMap;

use control::{BridgeDescription, PortDescription};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the hand-over format that this switch writes.
pub const FORMAT: u32 = 1;

/// The oldest and the newest that are read.
const READ: std::ops::RangeInclusive<u32> = FORMAT.saturating_sub(1)..=FORMAT + 1;

/// The message by which the new switch confirms that it has received everything.
pub const TAKEN: &[u8] = b"taken over\n";

/// The state of a switch. Numbers of descriptors are places in the list that is sent with it.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct HandOver {
    /// [`FORMAT`] of the switch that hands over.
    pub format: u32,
    /// The time from which no frame moved, in nanoseconds of CLOCK_MONOTONIC.
    pub stood_still_at: u64,
    /// The control socket.
    pub control: Option<usize>,
    /// The ports, by name.
    pub ports: BTreeMap<String, PortWords>,
    /// Addresses, and the port behind which each was seen.
    pub stations: Vec<(String, String)>,
    /// Addresses learned in VLANs: the VLAN, the address, and the port behind which it was seen.
    pub vlan_stations: Vec<(u16, String, String)>,
    /// The ports and bridges of owners.
    pub owned: Owned,
    /// A memory file with the tracked connections.
    pub connections: Option<usize>,
    /// The names of ports by their numbers in that file.
    pub connection_ports: BTreeMap<u16, String>,
}

/// The ports and bridges of owners, such as a database, by owner and name.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Owned {
    /// The ports.
    pub ports: BTreeMap<String, BTreeMap<String, PortDescription>>,
    /// The bridges.
    pub bridges: BTreeMap<String, BTreeMap<String, BridgeWords>>,
}

/// A bridge of a hand-over.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct BridgeWords {
    /// The description by its owner.
    pub description: BridgeDescription,
    /// Flows, groups, meters and tunnel options of the bridge; `None` if its ports learn.
    pub lines: Option<Vec<String>>,
}

/// A port of a hand-over.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct PortWords {
    /// The port's own state.
    pub words: Value,
    /// Places of its descriptors.
    pub files: Vec<usize>,
}

/// Checks that this switch and one that uses this format can hand over to each other.
///
/// # Errors
/// The format is more than one version away from [`FORMAT`].
pub fn check(format: u32) -> Result<(), String> {
    match READ.contains(&format) {
        true => Ok(()),
        false => Err(format!(
            "hand-over format {format} is not spoken here, {FORMAT} is, and those next to it; upgrade by a version in between"
        )),
    }
}

/// Reads a hand-over from JSON.
///
/// # Errors
/// The bytes are not JSON of this form or name no format, or the causes of [`check`].
pub fn read(bytes: &[u8]) -> Result<HandOver, String> {
    let not_understood = |why: String| format!("not understood: {why}");
    let value: Value = serde_json::from_slice(bytes).map_err(|error| not_understood(error.to_string()))?;
    // A document whose fields all have defaults could be read from any JSON.
    if value.get("format").is_none() {
        return Err(not_understood("it names no format".into()));
    }
    let read: HandOver = serde_json::from_value(value).map_err(|error| not_understood(error.to_string()))?;
    check(read.format).map(|()| read)
}

/// The present time in nanoseconds of CLOCK_MONOTONIC, which is the same in all processes.
pub fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_one_apart_understand_each_other() {
        let newer =
            br#"{"format":2,"colour":"blue","ports":{"one":{"files":[3],"words":{"path":"/x"},"speed":9}}}"#;
        let read = read(newer).unwrap();
        assert_eq!(
            (read.ports["one"].files.as_slice(), read.control, read.stood_still_at),
            (&[3][..], None, 0)
        );
        assert!(super::read(br#"{"format":0}"#).is_ok(), "all but the version is missing");
        let error = super::read(br#"{"format":3}"#).unwrap_err();
        assert!(error.contains("format 3") && error.contains("in between"), "{error}");
        assert!(super::read(b"[]").is_err() && super::read(b"").is_err());
    }
}
