//! Finds the settings of an applied plan that another program has changed since.

use std::path::Path;

use measure::Failure;
use serde::{Deserialize, Serialize};

use super::audit::Audit;
use super::journal::Journal;
use super::rules::State;
use super::tree::HostTree;

/// One setting that another program has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broken {
    /// The name of the setting's rule.
    pub rule: String,
    /// The knob that was written, or the subject of the rule.
    pub what: String,
    /// The value that was written, or the value that the rule wants.
    pub wanted: String,
    /// The value now.
    pub found: String,
}

/// Compares the journal with the host. Returns first the values that differ from the written ones, then the rules
/// that the host met when the plan was applied and no longer meets (for example because irqbalance runs again).
/// Returns an empty list if no plan is applied.
///
/// # Errors
/// The journal cannot be opened, locked or read, or belongs to another host or version; or a value that was written
/// cannot be read now.
pub fn no_longer_holds(
    tree: &HostTree,
    audit: &Audit,
    journal: &Path,
) -> Result<Option<Vec<Broken>>, Failure> {
    let Some(mut journal) = Journal::open(journal)? else { return Ok(None) };
    let story = journal.story(tree)?;
    if story.rebooted || story.entries.is_empty() {
        return Ok(None);
    }
    let mut broken: Vec<Broken> = Vec::new();
    for (number, entry) in story.entries.iter().enumerate() {
        let changed_later = story.entries[number + 1..].iter().any(|later| later.knob == entry.knob);
        if changed_later || story.refused.contains(&entry.knob) {
            continue;
        }
        let Some(found) = entry.knob.read(tree)? else {
            // A thread has ended, a device is gone; a cgroup that is gone is missed.
            if entry.found.is_none() {
                broken.push(Broken {
                    rule: entry.rule.clone(),
                    what: entry.knob.to_string(),
                    wanted: entry.writing.clone(),
                    found: "gone".into(),
                });
            }
            continue;
        };
        if !entry.knob.same(&found, &entry.writing) {
            broken.push(Broken {
                rule: entry.rule.clone(),
                what: entry.knob.to_string(),
                wanted: entry.writing.clone(),
                found,
            });
        }
    }
    let by_knob: Vec<String> = broken.iter().map(|one| one.rule.clone()).collect();
    for finding in &audit.findings {
        let held = story.holds.contains(&finding.rule);
        if held && finding.state == State::Fail && !by_knob.contains(&finding.rule) {
            broken.push(Broken {
                rule: finding.rule.clone(),
                what: finding.title.clone(),
                wanted: finding.wanted.clone(),
                found: finding.found.clone(),
            });
        }
    }
    Ok(Some(broken))
}
