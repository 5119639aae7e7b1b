//! Hosts as one text file: each line a path and its content.
//!
//! ```text
//! # a comment
//! /proc/cmdline: ro quiet
//! /sys/devices/system/cpu/cpu{0-3}/cpufreq/scaling_governor: powersave
//! /sys/devices/system/cpu/cpu{0-3}/topology/thread_siblings_list: {},{+4}
//! /proc/version: |
//!     lines that are indented
//! ```
//!
//! `{0-3}` in a path stands for each of these numbers; `{}` in the content for the first of them, and `{+4}` for it
//! and 4 more.

use std::fs;
use std::io;
use std::path::Path;

/// Writes the files of a recorded host below a folder.
pub fn unpack(text: &str, folder: &Path) -> io::Result<()> {
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = || io::Error::other(format!("{line:?} is no `/path: content`"));
        let (path, first) =
            line.split_once(':').filter(|(path, _)| path.starts_with('/')).ok_or_else(wrong)?;
        let mut content = first.strip_prefix(' ').unwrap_or(first).to_owned();
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
            fs::create_dir_all(place.parent().ok_or_else(wrong)?)?;
            fs::write(place, number.map_or_else(|| content.clone(), |number| fill(&content, number)))?;
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
