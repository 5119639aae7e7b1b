//! What several probes read from the kernel's files, and how they write sizes.

use std::fs;
use std::path::Path;

pub const KIB: usize = 1024;
pub const MIB: usize = 1024 * KIB;

/// A file's text without the white space around it; empty where it cannot be read.
pub fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// The text, or words for there being none.
pub fn or_unknown(text: String) -> String {
    if text.is_empty() { "unknown".into() } else { text }
}

/// The number in the first line of a text that starts with `field`, as /proc has them: `VmLck:  64 kB`.
pub fn field(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Binary units, as far as the number is round.
pub fn bytes(count: usize) -> String {
    match count {
        count if count >= 1024 * MIB && count.is_multiple_of(1024 * MIB) => {
            format!("{} GiB", count / (1024 * MIB))
        }
        count if count >= MIB => format!("{} MiB", count / MIB),
        count => format!("{} KiB", count / KIB),
    }
}
