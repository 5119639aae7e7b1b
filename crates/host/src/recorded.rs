//! Hosts recorded as one text file, in which each line is a path and its content.
//!
//! ```text
//! # a comment
//! /proc/cmdline: ro quiet
//! /sys/devices/system/cpu/cpu{0-3}/cpufreq/scaling_governor: powersave
//! /sys/devices/system/cpu/cpu{0-3}/topology/thread_siblings_list: {},{+4}
//! /proc/version: |
//!     lines that are indented
//! /sys/class/net/: eth0/ lo/ bonding_masters
//! ```
//!
//! `{0-3}` in a path stands for each of these numbers; `{}` in the content stands for the first of them, and `{+4}`
//! for that number plus 4. A path that ends with `/` is a folder, and its content is the names in it; files of the
//! folder without a line of their own are empty.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The files that were read from a host.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    files: BTreeMap<String, String>,
    /// The folders with the names in them; a folder whose existence was only checked has no names.
    folders: BTreeMap<String, BTreeSet<String>>,
    /// The files that exist and could not be read, each with the reason.
    unread: BTreeMap<String, String>,
}

impl Recording {
    pub(super) fn file(&mut self, path: &str, text: &str) {
        self.files.insert(path.to_owned(), text.to_owned());
    }

    pub(super) fn place(&mut self, path: &str) {
        self.folders.entry(path.trim_end_matches('/').to_owned()).or_default();
    }

    /// Records the names in a folder, and which of them are folders.
    pub(super) fn folder<'a>(&mut self, path: &str, names: impl Iterator<Item = (&'a str, bool)>) {
        let known = self.folders.entry(path.trim_end_matches('/').to_owned()).or_default();
        known.extend(names.map(|(name, is_folder)| format!("{name}{}", if is_folder { "/" } else { "" })));
    }

    pub(super) fn unread(&mut self, path: &str, error: &io::Error) {
        self.unread.insert(path.to_owned(), error.to_string());
    }

    /// The recording as one text file, below these lines of comment.
    pub fn text(&self, comment: &str) -> String {
        let mut text = String::new();
        for line in comment.lines() {
            let _ = writeln!(text, "# {line}");
        }
        text.push('\n');
        for (path, content) in &self.files {
            if content.contains('\n') {
                let _ = writeln!(text, "{path}: |");
                for line in content.lines() {
                    let _ = writeln!(text, "    {line}");
                }
            } else {
                let _ = writeln!(text, "{path}: {content}");
            }
        }
        for (path, names) in &self.folders {
            // A file that was searched and read is already there, with its folders.
            if names.is_empty() && self.has_below(path) {
                continue;
            }
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let _ = writeln!(text, "{path}/: {}", names.join(" "));
        }
        for (path, error) in &self.unread {
            let _ = writeln!(text, "# {path}: {error}");
        }
        text
    }

    fn has_below(&self, path: &str) -> bool {
        let below = format!("{path}/");
        let next = self.files.range(below.clone()..).next();
        self.files.contains_key(path) || next.is_some_and(|(file, _)| file.starts_with(&below))
    }
}

/// The most files that one recording may unpack to. The largest host has some ten thousand files.
const MOST_FILES: usize = 1 << 18;
/// The largest size of a recording in bytes: of its text, and of its unpacked files.
pub const MOST_BYTES: usize = 256 << 20;
/// Linux's PATH_MAX.
const LONGEST_PATH: usize = 4096;

/// Writes the files of a recorded host below an empty folder. Another program may have written the text: no path in it
/// leaves the folder, and the unpacked size is limited.
///
/// # Errors
/// A line has not the form that is described above, the unpacked size is too large, or a file cannot be written.
pub fn unpack(text: &str, folder: &Path) -> io::Result<()> {
    let mut lines = text.lines().peekable();
    let mut folders = Vec::new();
    let mut room = (MOST_FILES, MOST_BYTES);
    let mut take = |files: usize, bytes: usize| {
        room = (room.0.checked_sub(files)?, room.1.checked_sub(files.saturating_mul(bytes))?);
        Some(())
    };
    let too_much =
        || io::Error::other(format!("it has more than {MOST_FILES} files or {} MiB", MOST_BYTES >> 20));
    while let Some(line) = lines.next() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = || io::Error::other(format!("{line:?} is no `/path: content`"));
        // A device's address has colons of its own.
        let empty = || Some((line.strip_suffix(':')?, ""));
        let (path, first) = line
            .split_once(": ")
            .or_else(empty)
            .filter(|(path, _)| path.starts_with('/') && path.len() <= LONGEST_PATH)
            .ok_or_else(wrong)?;
        let mut content = first.to_owned();
        if content == "|" {
            content.clear();
            while let Some(more) = lines.next_if(|line| line.starts_with("    ")) {
                content.push_str(&more[4..]);
                content.push('\n');
            }
        } else {
            content.push('\n');
        }
        let paths = expand(path).ok_or_else(too_much)?;
        take(paths.len(), path.len() + content.len()).ok_or_else(too_much)?;
        for (path, number) in paths {
            let place = below(folder, &path).ok_or_else(wrong)?;
            let content = number.map_or_else(|| content.clone(), |number| fill(&content, number));
            if path.ends_with('/') {
                folders.push((place, content));
                continue;
            }
            fs::create_dir_all(place.parent().ok_or_else(wrong)?)?;
            fs::write(place, content)?;
        }
    }
    // Last: a name may be that of a file which stands further below.
    for (place, names) in folders {
        fs::create_dir_all(&place)?;
        for name in names.split_whitespace() {
            let wrong = || io::Error::other(format!("{name:?} is no name in a folder"));
            let place = below(&place, name)
                .filter(|_| !name.trim_end_matches('/').contains('/'))
                .ok_or_else(wrong)?;
            if place.exists() {
                continue;
            }
            take(1, name.len()).ok_or_else(too_much)?;
            match name.ends_with('/') {
                true => fs::create_dir(place)?,
                false => fs::write(place, "\n")?,
            }
        }
    }
    Ok(())
}

/// The path below a folder; `None` if it would leave the folder.
fn below(folder: &Path, path: &str) -> Option<PathBuf> {
    let path = Path::new(path.trim_start_matches('/'));
    path.components().all(|part| matches!(part, Component::Normal(_))).then(|| folder.join(path))
}

/// All paths that a pattern stands for, each with the number of its first braces; none where there are too many.
fn expand(path: &str) -> Option<Vec<(String, Option<usize>)>> {
    let itself = || Some(vec![(path.to_owned(), None)]);
    let Some((before, rest)) = path.split_once('{') else { return itself() };
    let Some((range, after)) = rest.split_once('}') else { return itself() };
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) else { return itself() };
    let rests = expand(after)?;
    if last.saturating_sub(first).saturating_add(1).saturating_mul(rests.len()) > MOST_FILES {
        return None;
    }
    let with =
        |number: usize| rests.iter().map(move |(rest, _)| (format!("{before}{number}{rest}"), Some(number)));
    Some((first..=last).flat_map(with).collect())
}

/// Replaces braces by the number, or by the number plus the offset in them.
fn fill(content: &str, number: usize) -> String {
    let mut text = String::new();
    let mut rest = content;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        match after.split_once('}').map(|(inside, after)| (inside.strip_prefix('+').unwrap_or(inside), after))
        {
            Some(("", after)) => {
                text.push_str(&number.to_string());
                rest = after;
            }
            Some((more, after)) if more.parse::<usize>().is_ok() => {
                text.push_str(&number.saturating_add(more.parse().unwrap_or(0)).to_string());
                rest = after;
            }
            _ => {
                text.push('{');
                rest = after;
            }
        }
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostTree;

    #[test]
    fn a_hostile_recording_leaves_its_folder_and_its_limits_nowhere() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("folder");
        fs::create_dir(&folder).unwrap();
        fs::write(place.path().join("mine"), "mine").unwrap();
        let long = "/proc/".to_owned() + &"{0-9}".repeat(9) + ": x";
        let deep = "/a/".to_owned() + &"{0}".repeat(100_000) + ": x";
        let large = format!("/sys/a{{0-99999}}: {}", "x".repeat(10_000));
        for hostile in [
            "/../mine: x",
            "/proc/../../mine: x",
            "/proc/..: x",
            "/../: mine",
            "/..//: mine",
            "/proc/: ../../mine",
            "/proc/: ..",
            "/proc/: ../",
            "/proc/: a/b",
            "/proc/: /mine",
            "/: ..",
            "/proc/{0-18446744073709551615}: x",
            &long,
            &large,
            &deep,
        ] {
            let error = unpack(hostile, &folder).expect_err(hostile).to_string();
            assert!(["is no", "more than"].iter().any(|words| error.contains(words)), "{hostile}: {error}");
            assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2, "{hostile}");
            assert_eq!(fs::read(place.path().join("mine")).unwrap(), b"mine", "{hostile}");
        }
        unpack("/a{1}: {+18446744073709551615}\n//b/./c: 1\n", &folder).unwrap();
        assert_eq!(fs::read_to_string(folder.join("a1")).unwrap(), "18446744073709551615\n");
        assert_eq!(fs::read_to_string(folder.join("b/c")).unwrap(), "1\n");
    }

    #[test]
    fn what_was_read_of_a_host_is_read_again_of_its_recording() {
        let first = tempfile::tempdir().unwrap();
        let text = "/proc/cmdline: ro {0-3} quiet\n/proc/version: |\n    one\n    \n    two\n/sys/class/net/: bonding_masters eth0/ lo/\n\
                    /sys/class/net/lo/mtu: 65536\n/sys/class/net/lo/empty: \n/proc/never: read\n/sys/bus/pci/0000:00:01.0/node: 0\n/sys/kernel/x/: \n";
        unpack(text, first.path()).unwrap();
        let look = |tree: &HostTree| {
            let files = [
                "/proc/cmdline",
                "/proc/version",
                "/sys/bus/pci/0000:00:01.0/node",
                "/sys/class/net/lo/mtu",
                "/sys/class/net/lo/empty",
                "/none",
            ];
            let read = files.map(|path| tree.read(path).ok());
            let folders = ["/sys/class/net", "/sys/class", "/no"].map(|path| tree.names(path));
            (read, folders, ["/sys/kernel/x", "/proc/cmdline", "/no"].map(|path| tree.has(path)))
        };
        let tree = HostTree::at(first.path()).recording();
        let before = look(&tree);
        assert_eq!(before.1[0], ["bonding_masters", "eth0", "lo"]);
        assert_eq!(before.2, [true, true, false]);
        assert!(tree.read("/sys/class/net").is_err(), "a folder");
        let text = tree.recorded().unwrap().text("a host\nof two lines");
        assert!(text.starts_with("# a host\n# of two lines\n\n"), "{text}");
        assert!(text.contains("\n# /sys/class/net: Is a directory"), "{text}");
        assert!(!text.contains("never"), "{text}");
        let second = tempfile::tempdir().unwrap();
        unpack(&text, second.path()).unwrap();
        assert_eq!(look(&HostTree::at(second.path())), before, "{text}");
        assert!(HostTree::at(second.path()).recorded().is_none());
    }
}
