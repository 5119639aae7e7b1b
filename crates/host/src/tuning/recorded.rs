//! Hosts as one text file: each line a path and its content.
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
//! `{0-3}` in a path stands for each of these numbers; `{}` in the content for the first of them, and `{+4}` for it
//! and 4 more. A path that ends with `/` is a folder, its content the names in it; files among them that have no line
//! of their own are empty.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

/// What was read of a host.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    files: BTreeMap<String, String>,
    /// With the names in them; of those that were only looked for, none.
    folders: BTreeMap<String, BTreeSet<String>>,
    /// What is there and could not be read, and why.
    unread: BTreeMap<String, String>,
}

impl Recording {
    pub(super) fn file(&mut self, path: &str, text: &str) {
        self.files.insert(path.to_owned(), text.to_owned());
    }

    pub(super) fn place(&mut self, path: &str) {
        self.folders.entry(path.trim_end_matches('/').to_owned()).or_default();
    }

    /// The names in a folder, and which of them are folders.
    pub(super) fn folder<'a>(&mut self, path: &str, names: impl Iterator<Item = (&'a str, bool)>) {
        let known = self.folders.entry(path.trim_end_matches('/').to_owned()).or_default();
        known.extend(names.map(|(name, is_folder)| format!("{name}{}", if is_folder { "/" } else { "" })));
    }

    pub(super) fn unread(&mut self, path: &str, error: &io::Error) {
        self.unread.insert(path.to_owned(), error.to_string());
    }

    /// As one text file, below these lines of comment.
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
            // A file that was looked for and read is there already, and so is the way to it.
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

/// Writes the files of a recorded host below a folder.
pub fn unpack(text: &str, folder: &Path) -> io::Result<()> {
    let mut lines = text.lines().peekable();
    let mut folders = Vec::new();
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
            .filter(|(path, _)| path.starts_with('/'))
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
        for (path, number) in expand(path) {
            let place = folder.join(path.trim_start_matches('/'));
            if path.ends_with('/') {
                folders.push((place, content.clone()));
                continue;
            }
            fs::create_dir_all(place.parent().ok_or_else(wrong)?)?;
            fs::write(place, number.map_or_else(|| content.clone(), |number| fill(&content, number)))?;
        }
    }
    // Last: a name may be that of a file which stands further below.
    for (place, names) in folders {
        fs::create_dir_all(&place)?;
        for name in names.split_whitespace().filter(|name| !place.join(name).exists()) {
            match name.strip_suffix('/') {
                Some(folder) => fs::create_dir(place.join(folder))?,
                None => fs::write(place.join(name), "\n")?,
            }
        }
    }
    Ok(())
}

/// All paths that a pattern stands for, each with the number of its first braces.
fn expand(path: &str) -> Vec<(String, Option<usize>)> {
    let Some((before, rest)) = path.split_once('{') else { return vec![(path.to_owned(), None)] };
    let Some((range, after)) = rest.split_once('}') else { return vec![(path.to_owned(), None)] };
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) else {
        return vec![(path.to_owned(), None)];
    };
    let rests = expand(after);
    (first..=last)
        .flat_map(|number| {
            rests.iter().map(move |(rest, _)| (format!("{before}{number}{rest}"), Some(number)))
        })
        .collect()
}

/// Puts the number, or one that is so much greater, in place of braces.
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
                text.push_str(&(number + more.parse::<usize>().unwrap_or(0)).to_string());
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
    use crate::tuning::HostTree;

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
