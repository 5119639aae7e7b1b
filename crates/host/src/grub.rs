//! Changes parameters of the kernel's command line at their places in GRUB's files.
//!
//! `grub-mkconfig` sources `/etc/default/grub`, then, on Debian and Ubuntu, `/etc/default/grub.d/*.cfg`, and gives the
//! kernel `$GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT`.

use std::ops::Range;

use linux::cpu_list::is_blank;

use super::command_line::{is, split};
use super::edit::Edit;
use super::shell::{End, Place, Value, Variables};
use super::tree::HostTree;

const FILE: &str = "/etc/default/grub";
const FOLDER: &str = "/etc/default/grub.d";
/// For every entry of the menu, also those for recovery.
const FIRST: &str = "GRUB_CMDLINE_LINUX";
const LAST: &str = "GRUB_CMDLINE_LINUX_DEFAULT";

/// A file, and its text.
type Source = (String, String);

const SEVERAL: &str = "several places of GRUB's files";

/// Whether GRUB's file exists.
pub fn found(tree: &HostTree) -> bool {
    tree.has(FILE)
}

/// The lines that give the kernel these parameters.
///
/// # Errors
/// The part of the files that could not be parsed, in words.
pub fn edits(tree: &HostTree, parameters: &[String]) -> Result<Vec<Edit>, String> {
    let files = files(tree)?;
    let before = Sourced::of(&files)?;
    let mut changes = before.changes(parameters)?;
    let new: Vec<&str> = parameters.iter().map(String::as_str).filter(|new| !before.has(new)).collect();
    let mut edits = Vec::new();
    let mut after = files.clone();
    if !new.is_empty() {
        match &before.end {
            Some(end) => changes.push(appended(end, &new.join(" "))),
            None => edits.push(Edit::new(FILE, format!("{FIRST}=\"{}\"", new.join(" ")))),
        }
    }
    changes.sort_by_key(|change| (change.bytes.start, change.bytes.end));
    for (number, (path, text)) in files.iter().enumerate() {
        let here: Vec<&Change> = changes.iter().filter(|change| change.file == number).collect();
        after[number].1 = changed(text, 0..text.len(), &here);
        edits.extend(lines(path, text, &here));
    }
    if let Some(line) = edits.iter().find(|edit| edit.number.is_none()) {
        after[0].1 = format!("{}\n{}", after[0].1, line.line);
    }
    match Sourced::of(&after).is_ok_and(|after| after.differs_in(&before, parameters)) {
        true => Ok(edits),
        false => Err(format!("a change to one of the parameters changes others too: they share {SEVERAL}")),
    }
}

/// The kernel parameters that the files define.
struct Sourced {
    words: Vec<Word>,
    /// The end of the value that applies to every boot entry.
    end: Option<End>,
}

impl Sourced {
    fn of(files: &[Source]) -> Result<Self, String> {
        let mut variables = Variables::default();
        for (number, (path, text)) in files.iter().enumerate() {
            let read = variables.source(number, text);
            read.map_err(|error| format!("{path}, line {}: {}", error.line, error.found))?;
        }
        let (first, last) = (known(&variables, FIRST)?, known(&variables, LAST)?);
        let words = words(&first).into_iter().chain(words(&last)).take_while(|word| word.text != "--");
        Ok(Sourced { words: words.collect(), end: first.end })
    }

    fn has(&self, parameter: &str) -> bool {
        self.words.iter().any(|word| is(&word.text, split(parameter).0))
    }

    /// The changes that replace the parameters with the same keys. If several parameters have one key, the first one
    /// stays.
    fn changes(&self, parameters: &[String]) -> Result<Vec<Change>, String> {
        let mut changes: Vec<Change> = Vec::new();
        for parameter in parameters {
            let there = self.words.iter().filter(|word| is(&word.text, split(parameter).0));
            for (number, word) in there.enumerate() {
                let place = word
                    .place
                    .as_ref()
                    .ok_or_else(|| format!("{:?} is put together from {SEVERAL}", word.text))?;
                let (bytes, text) = match number {
                    0 => (place.bytes.clone(), parameter.clone()),
                    _ => (word.with_blank.clone(), String::new()),
                };
                // Text of a value that another variable repeats has one place.
                if !changes.iter().any(|old| old.file == place.file && old.bytes.end == bytes.end) {
                    changes.push(Change { file: place.file, bytes, text });
                }
            }
        }
        Ok(changes)
    }

    /// Whether these parameters, and nothing else, are different from before.
    fn differs_in(&self, before: &Self, parameters: &[String]) -> bool {
        let planned = |word: &&Word| parameters.iter().any(|new| is(&word.text, split(new).0));
        let others = |sourced: &Self| -> Vec<String> {
            sourced.words.iter().filter(|word| !planned(word)).map(|word| word.text.clone()).collect()
        };
        others(self) == others(before)
            && parameters.iter().all(|new| self.has(new))
            && self.words.iter().filter(planned).all(|word| parameters.contains(&word.text))
    }
}

/// GRUB's files, in the order in which they are sourced; the first of them always.
fn files(tree: &HostTree) -> Result<Vec<Source>, String> {
    let mut paths = vec![FILE.to_owned()];
    let mut parts: Vec<String> = tree.names(FOLDER);
    // As the shell sorts what `*.cfg` stands for.
    parts.sort();
    parts.retain(|name| name.ends_with(".cfg") && !name.starts_with('.'));
    paths.extend(parts.iter().map(|name| format!("{FOLDER}/{name}")));
    let mut files = Vec::new();
    for path in paths {
        match tree.read(&path) {
            Ok(text) if text.contains(char::REPLACEMENT_CHARACTER) => {
                return Err(format!("{path}: it is not in UTF-8"));
            }
            Ok(text) => files.push((path, text)),
            Err(unread) if unread.is_absent() && path != FILE => {}
            Err(unread) if unread.is_absent() => files.push((path, String::new())),
            Err(unread) => return Err(unread.to_string()),
        }
    }
    Ok(files)
}

fn known(variables: &Variables, name: &str) -> Result<Value, String> {
    let value = variables.get(name);
    match &value.unknown {
        Some(reason) => Err(format!("the value of {name} depends on {reason}")),
        None => Ok(value),
    }
}

/// A parameter in a value.
struct Word {
    text: String,
    /// The place of the parameter; `None` if the parameter is composed of several parts.
    place: Option<Place>,
    /// The parameter's bytes together with the blank before it.
    with_blank: Range<usize>,
}

/// The parameters in a value. A blank between quotes is part of one.
fn words(value: &Value) -> Vec<Word> {
    let all = &value.characters;
    let mut words = Vec::new();
    let mut quoted = false;
    let mut begin = None;
    for at in 0..=all.len() {
        let blank = all.get(at).is_none_or(|(c, _)| is_blank(*c) && !quoted);
        quoted ^= all.get(at).is_some_and(|(c, _)| *c == '"');
        match begin {
            None if !blank => begin = Some(at),
            Some(from) if blank => {
                words.push(word(all, from, at));
                begin = None;
            }
            _ => {}
        }
    }
    words
}

fn word(all: &[(char, Place)], from: usize, to: usize) -> Word {
    let (first, last) = (&all[from].1, &all[to - 1].1);
    let beside = |other: &Place| other.file == first.file && other.run == first.run;
    let bytes = first.bytes.start..last.bytes.end;
    let blank = from.checked_sub(1).map(|at| &all[at].1).filter(|blank| beside(blank));
    let begin =
        blank.filter(|blank| blank.bytes.end == bytes.start).map_or(bytes.start, |blank| blank.bytes.start);
    let with_blank = begin..bytes.end;
    Word {
        text: all[from..to].iter().map(|(c, _)| c).collect(),
        place: all[from..to].iter().all(|(_, place)| beside(place)).then(|| Place { bytes, ..first.clone() }),
        with_blank,
    }
}

/// Text in place of other text.
#[derive(Debug)]
struct Change {
    file: usize,
    bytes: Range<usize>,
    text: String,
}

/// The change that appends parameters to a value. Parameters of plans need no quotes of their own.
fn appended(end: &End, parameters: &str) -> Change {
    let blank = if end.empty { "" } else { " " };
    let quote = if end.quoted { "" } else { "\"" };
    let text = format!("{quote}{blank}{parameters}{quote}");
    Change { file: end.file, bytes: end.byte..end.byte, text }
}

/// A part of a text after its changes, which are sorted.
fn changed(text: &str, bytes: Range<usize>, changes: &[&Change]) -> String {
    let (mut new, mut at) = (String::new(), bytes.start);
    for change in changes {
        new += text.get(at..change.bytes.start).unwrap_or_default();
        new += &change.text;
        at = change.bytes.end;
    }
    new + text.get(at..bytes.end).unwrap_or_default()
}

/// The lines of a file that changes, which are sorted, make different.
fn lines(path: &str, text: &str, changes: &[&Change]) -> Vec<Edit> {
    let line_of = |byte: usize| text[..byte].matches('\n').count();
    let starts: Vec<usize> =
        std::iter::once(0).chain(text.match_indices('\n').map(|(byte, _)| byte + 1)).collect();
    let mut edits = Vec::new();
    let mut rest = changes;
    while let Some(first) = rest.first() {
        let from = line_of(first.bytes.start);
        let (mut to, mut count) = (from, 0);
        while let Some(next) = rest.get(count).filter(|next| line_of(next.bytes.start) <= to) {
            to = to.max(line_of(next.bytes.end));
            count += 1;
        }
        let bytes = starts[from]..starts.get(to + 1).map_or(text.len(), |next| next - 1);
        let now = text[bytes.clone()].to_owned();
        let line = changed(text, bytes, &rest[..count]);
        if line != now {
            edits.push(Edit { number: Some(from + 1), now: Some(now), ..Edit::new(path, line) });
        }
        rest = &rest[count..];
    }
    edits
}
