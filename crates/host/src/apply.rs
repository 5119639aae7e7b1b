//! Makes the changes of a plan that are possible at run time and that the user picked.

use std::path::Path;

use measure::Failure;

use super::audit::Audit;
use super::journal::{Entry, Journal};
use super::knob::Knob;
use super::plan::{Plan, PlannedRule};
use super::rules::{Change, State};
use super::survey::Survey;
use super::tree::HostTree;

/// The changes that the user picked.
#[derive(Clone, Debug, Default)]
pub struct Picked {
    /// The names of the picked rules; `None` picks all rules of the plan.
    pub rules: Option<Vec<String>>,
    /// The rules whose hazard the user accepts.
    pub accepted: Vec<String>,
}

/// The outcome of one change.
#[derive(Debug)]
pub enum Outcome<'a> {
    /// The value was written and read back.
    Written {
        /// The rule that the change is for.
        rule: &'a str,
        /// The knob that was changed.
        knob: &'a Knob,
        /// The value before the change.
        found: Option<&'a str>,
        /// The value now.
        value: &'a str,
    },
    /// Not made.
    Refused {
        /// The rule that the change is for.
        rule: &'a str,
        /// The reason why the change was not made.
        failure: Failure,
    },
}

/// The outcome of all changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Changes made.
    pub written: usize,
    /// The number of changes that could not be made.
    pub refused: usize,
}

/// Makes the changes that the user picked. A refused change does not stop the others; it is reported to `say`. No
/// value is restored automatically: the user calls `undo`.
///
/// # Errors
/// Before the first write: a rule's name is unknown, a hazard was not accepted, or the journal cannot be begun.
/// Later: a line cannot be written to the journal, which ends the changes.
pub fn apply(
    tree: &HostTree,
    plan: &Plan,
    picked: &Picked,
    journal: &Path,
    mut say: impl FnMut(&Outcome),
) -> Result<Summary, Failure> {
    let chosen = choose(plan, picked)?;
    let mut summary = Summary::default();
    if chosen.iter().all(|rule| rule.at_run_time().next().is_none()) {
        return Ok(summary);
    }
    let mut journal = Journal::begin(journal, tree)?;
    for rule in chosen {
        for change in rule.at_run_time() {
            let Change::Set { knob, value } = change else { continue };
            match set(tree, &mut journal, &rule.rule, knob, value)? {
                Ok(None) => {}
                Ok(Some(found)) => {
                    summary.written += 1;
                    let found = found.as_deref();
                    say(&Outcome::Written { rule: &rule.rule, knob, found, value });
                }
                Err(failure) => {
                    summary.refused += 1;
                    say(&Outcome::Refused { rule: &rule.rule, failure });
                }
            }
        }
    }
    Ok(summary)
}

/// Writes to the journal which rules hold after a plan was applied.
/// [`no_longer_holds`](super::drift::no_longer_holds) compares the host with this list.
///
/// # Errors
/// The journal cannot be opened, locked, read or written, or belongs to another host or version.
pub fn note_what_holds(survey: &Survey, journal: &Path) -> Result<(), Failure> {
    let Some(mut journal) = Journal::open(journal)? else { return Ok(()) };
    // Moves to the journal's end, where the next line goes.
    journal.story(survey.tree)?;
    let findings = Audit::of(survey).findings.into_iter();
    journal
        .holds(findings.filter(|finding| finding.state == State::Pass).map(|finding| finding.rule).collect())
}

type Before = Option<String>;

/// Makes one change after its line is in the journal. The outer error is the journal's and ends all changes; the
/// inner one is the change's own.
fn set(
    tree: &HostTree,
    journal: &mut Journal,
    rule: &str,
    knob: &Knob,
    value: &str,
) -> Result<Result<Option<Before>, Failure>, Failure> {
    let found = match knob.read(tree) {
        Ok(found) => found,
        Err(failure) => return Ok(Err(failure)),
    };
    if found.as_deref().is_some_and(|found| knob.same(found, value)) {
        return Ok(Ok(None));
    }
    if found.is_none() && knob.is_of_a_thread() {
        return Ok(Ok(None)); // it has ended since the plan was made
    }
    let entry = Entry { rule: rule.into(), knob: knob.clone(), found: found.clone(), writing: value.into() };
    journal.record(entry)?;
    match knob.set(tree, value) {
        Ok(()) => Ok(Ok(Some(found))),
        Err(failure) => {
            journal.refused(knob)?;
            Ok(Err(failure))
        }
    }
}

fn choose<'a>(plan: &'a Plan, picked: &Picked) -> Result<Vec<&'a PlannedRule>, Failure> {
    let known = |name: &String| super::rules::find(name).is_some();
    let named = picked.rules.iter().flatten().chain(&picked.accepted);
    if let Some(wrong) = named.clone().find(|name| !known(name)) {
        return Err(Failure::new(
            format!("picking the rule {wrong}"),
            "there is no such rule",
            "`tautline host plan` names them",
        ));
    }
    let wanted = |rule: &&PlannedRule| picked.rules.as_ref().is_none_or(|rules| rules.contains(&rule.rule));
    let chosen: Vec<&PlannedRule> = plan.rules.iter().filter(wanted).collect();
    let hazards: Vec<String> = chosen
        .iter()
        .filter(|rule| rule.at_run_time().next().is_some() && !picked.accepted.contains(&rule.rule))
        .filter_map(|rule| Some(format!("{}: {}", rule.rule, rule.hazard.as_ref()?)))
        .collect();
    if !hazards.is_empty() {
        let options: Vec<String> = hazards
            .iter()
            .filter_map(|hazard| Some(format!("--accept {}", hazard.split_once(':')?.0)))
            .collect();
        return Err(Failure::new(
            "applying what can cut a connection or stall a CPU",
            hazards.join("; "),
            format!("nothing was changed; leave these rules out (--rules), or say {}", options.join(" ")),
        ));
    }
    Ok(chosen)
}
