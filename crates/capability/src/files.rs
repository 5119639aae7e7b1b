//! Reads kernel files for several probes, and formats sizes.

use std::fs;
use std::path::Path;

pub const KIB: usize = 1024;
pub const MIB: usize = 1024 * KIB;

/// A file's text without the white space around it; empty if the file cannot be read.
pub fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// The text, or a phrase that says that the text is unknown.
pub fn or_unknown(text: String) -> String {
    if text.is_empty() { "unknown".into() } else { text }
}

/// The number in the first line that starts with `field`, in the format of /proc: `VmLck: 64 kB`.
pub fn field(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The size in whole GiB if it is a multiple of 1 GiB, otherwise in MiB or KiB, rounded down.
pub fn bytes(count: usize) -> String {
    match count {
        count if count >= 1024 * MIB && count.is_multiple_of(1024 * MIB) => {
            format!("{} GiB", count / (1024 * MIB))
        }
        count if count >= MIB => format!("{} MiB", count / MIB),
        count => format!("{} KiB", count / KIB),
    }
}
