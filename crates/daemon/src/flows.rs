//! The file of `--flows`: a flow, a group or a meter on each line, as `ovs-ofctl add-flows`, `add-groups` and `add-meter`
//! read it.
use std::fmt::Display;
use std::path::Path;

use crate::bridges::{OWN, SwitchBridge, lines};
use crate::configuration_file::read_up_to;
use crate::error::Invalid;

/// The most bytes of a file: more than a million of OVN's flows need.
const MOST_BYTES: u64 = 256 << 20;

/// Makes a bridge of the flows of a file.
///
/// # Errors
/// The file cannot be read; or a line is no flow, group or meter, has an action that is not there yet, names a group or
/// meter that the file does not have, or contradicts another one.
pub fn read(path: &Path) -> Result<SwitchBridge, Invalid> {
    let wrong = |why: &dyn Display| Invalid(format!("--flows {}: {why}", path.display()));
    let of_line = |line: usize, why: &dyn Display| wrong(&format_args!("line {line}: {why}"));
    let text = read_up_to(path, MOST_BYTES)
        .map_err(|error| wrong(&format_args!("{error}; name a regular file that can be read")))?;
    let lines = lines(&text).map_err(|(line, why)| of_line(line, &why))?;
    let numbers: Vec<usize> = lines.iter().map(|line| line.number).collect();
    let made = SwitchBridge::of_changes(OWN, lines.into_iter().map(|line| line.what.addition()));
    made.map_err(|(at, failure)| of_line(numbers.get(at).copied().unwrap_or_default(), &failure))
}
