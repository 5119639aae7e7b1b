//! Switches rules of an applied plan off and on again while the host runs: between the values that the journal
//! records as found and as written. The journal stays locked meanwhile, and always names the values that `undo`
//! restores.

use std::path::Path;

use measure::Failure;

use super::journal::{Entry, Journal};
use super::tree::HostTree;
use super::undo::{PutBack, put_back};

/// The rules of one journal.
pub struct Toggle<'a> {
    tree: &'a HostTree,
    /// The journal's lock keeps other processes from changing the host meanwhile.
    _journal: Journal,
    rules: Vec<Rule>,
}

/// One rule with its changes, in order.
struct Rule {
    name: String,
    entries: Vec<Entry>,
    on: bool,
}

/// A rule that could not be switched.
#[derive(Debug)]
pub struct ToggleFailure {
    /// The rule's name.
    pub rule: String,
    /// The reason why the rule could not be switched.
    pub failure: Failure,
}

impl<'a> Toggle<'a> {
    /// All rules whose changes are in effect. Returns `None` if there is no journal. A value that another program has
    /// changed since is left unchanged.
    ///
    /// # Errors
    /// The journal cannot be opened, locked or read, or belongs to another host or version; or a value that was
    /// written cannot be read now.
    pub fn open(tree: &'a HostTree, journal: &Path) -> Result<Option<Self>, Failure> {
        let Some(mut journal) = Journal::open(journal)? else { return Ok(None) };
        let story = journal.story(tree)?;
        let mut rules: Vec<Rule> = Vec::new();
        let entries = if story.rebooted { Vec::new() } else { first_found_last_written(story.entries) };
        for entry in entries {
            let now = entry.knob.read(tree)?;
            if !now.is_some_and(|now| entry.knob.same(&now, &entry.writing)) {
                continue;
            }
            match rules.iter_mut().find(|rule| rule.name == entry.rule) {
                Some(rule) => rule.entries.push(entry),
                None => rules.push(Rule { name: entry.rule.clone(), entries: vec![entry], on: true }),
            }
        }
        Ok(Some(Toggle { tree, _journal: journal, rules }))
    }

    /// The names of the rules, in the order in which they were applied.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| rule.name.as_str())
    }

    /// Applies the rules that `on` names and restores the values of all other rules, the last applied first.
    ///
    /// # Errors
    /// A value cannot be read, restored or applied again. The rules before that value's rule are switched, and the
    /// rules after it are not; the failed rule may be partly switched.
    pub fn switch(&mut self, on: impl Fn(&str) -> bool) -> Result<(), ToggleFailure> {
        let tree = self.tree;
        for rule in self.rules.iter_mut().rev().filter(|rule| rule.on && !on(&rule.name)) {
            // Half of it may be back when it fails.
            rule.on = false;
            for entry in rule.entries.iter().rev() {
                if let PutBack::Failed(failure) = put_back(tree, entry) {
                    return Err(ToggleFailure { rule: rule.name.clone(), failure });
                }
            }
        }
        for rule in self.rules.iter_mut().filter(|rule| !rule.on && on(&rule.name)) {
            rule.on = true;
            for entry in &rule.entries {
                apply_again(tree, entry)
                    .map_err(|failure| ToggleFailure { rule: rule.name.clone(), failure })?;
            }
        }
        Ok(())
    }

    /// From now on switches only these rules; the other rules keep their state.
    pub fn only(&mut self, wanted: impl Fn(&str) -> bool) {
        self.rules.retain(|rule| wanted(&rule.name));
    }

    /// Stops switching a rule: its old values are restored if possible, and then stay.
    pub fn give_up(&mut self, rule: &str) {
        for rule in self.rules.iter().filter(|known| known.name == rule) {
            for entry in rule.entries.iter().rev() {
                put_back(self.tree, entry);
            }
        }
        self.rules.retain(|known| known.name != rule);
    }
}

/// A value that several calls of `apply` changed: from the first value found to the last one written.
fn first_found_last_written(entries: Vec<Entry>) -> Vec<Entry> {
    let mut all: Vec<Entry> = Vec::new();
    for entry in entries {
        match all.iter_mut().find(|known| known.knob == entry.knob) {
            Some(known) => known.writing = entry.writing,
            None => all.push(entry),
        }
    }
    all
}

fn apply_again(tree: &HostTree, entry: &Entry) -> Result<(), Failure> {
    let Entry { knob, writing, .. } = entry;
    match knob.read(tree)? {
        Some(now) if knob.same(&now, writing) => Ok(()),
        None if knob.is_of_a_thread() => Ok(()), // it has ended
        _ => knob.set(tree, writing),
    }
}
