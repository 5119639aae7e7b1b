//! `apply` and `undo`.

use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use host::journal::Entry;
use host::{Knob, Outcome, Picked, PutBack, Summary, Survey};
use measure::Failure;
use serde::Serialize;

use super::subject;
use crate::cli::host::{Apply, Undo};
use crate::exit::Done;
use crate::output::{self, Sink};

const APPLY_SCHEMA: &str = "tautline-host-apply/1";
const UNDO_SCHEMA: &str = "tautline-host-undo/1";

/// What `apply` did, as JSON.
#[derive(Serialize)]
struct Applied<'a> {
    schema: &'static str,
    journal: &'a Path,
    changes: Vec<Change>,
    written: usize,
    refused: usize,
}

#[derive(Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
enum Change {
    Written {
        rule: String,
        #[serde(flatten)]
        knob: Knob,
        found: Option<String>,
        value: String,
    },
    Refused {
        rule: String,
        failure: Failure,
    },
}

impl Change {
    fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Written { rule, knob, found, value } => Change::Written {
                rule: (*rule).to_owned(),
                knob: (*knob).clone(),
                found: found.map(str::to_owned),
                value: (*value).to_owned(),
            },
            Outcome::Refused { rule, failure } => {
                Change::Refused { rule: (*rule).to_owned(), failure: failure.clone() }
            }
        }
    }
}

/// What `undo` did, as JSON.
#[derive(Serialize)]
struct Undone<'a> {
    schema: &'static str,
    journal: &'a Path,
    values: Vec<Value>,
    not_put_back: usize,
    until_reboot: Vec<String>,
}

#[derive(Serialize)]
struct Value {
    #[serde(flatten)]
    entry: Entry,
    #[serde(flatten)]
    outcome: ValueOutcome,
}

#[derive(Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
enum ValueOutcome {
    Restored { meanwhile: Option<String> },
    Gone,
    Rebooted,
    Failed { failure: Failure },
}

impl From<&PutBack> for ValueOutcome {
    fn from(outcome: &PutBack) -> Self {
        match outcome {
            PutBack::Restored { meanwhile } => ValueOutcome::Restored { meanwhile: meanwhile.clone() },
            PutBack::Gone => ValueOutcome::Gone,
            PutBack::Rebooted => ValueOutcome::Rebooted,
            PutBack::Failed(failure) => ValueOutcome::Failed { failure: failure.clone() },
        }
    }
}

/// Text that is printed while it comes, unless programs read the standard output.
struct Lines<'a> {
    sink: &'a Sink,
    text: String,
}

impl Lines<'_> {
    fn add(&mut self, line: &str) -> anyhow::Result<()> {
        self.text.push_str(line);
        if self.sink.is_json_printed() { Ok(()) } else { output::print(line) }
    }
}

/// Makes the changes that the user picked, and prints each.
pub fn apply(arguments: &Apply) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    let mut lines = Lines { sink: &sink, text: String::new() };
    let tree = subject::tree(&arguments.subject.root)?;
    let plan = subject::made(&tree, &arguments.subject)?;
    let picked = Picked {
        rules: (!arguments.all).then(|| arguments.rules.clone()),
        accepted: arguments.accept.clone(),
    };
    let mut changes = Vec::new();
    let summary = host::apply(&tree, &plan, &picked, &arguments.journal, |outcome| {
        let line = match outcome {
            Outcome::Written { rule, knob, found, value } => {
                format!("{rule}: {knob}: {} -> {value}\n", found.unwrap_or("not there"))
            }
            Outcome::Refused { rule, failure } => format!("{rule}: not done: {failure}\n"),
        };
        changes.push(Change::of(outcome));
        let _ = lines.add(&line);
    })?;
    let Summary { written, refused } = summary;
    if written > 0 {
        // With counters it would take a second.
        let wishes = arguments.subject.wishes(Duration::ZERO);
        host::note_what_holds(&Survey::of(&tree, &wishes)?, &arguments.journal)?;
    }
    lines.add(&format!("{written} changed, {refused} refused\n"))?;
    if written > 0 {
        lines
            .add(&format!("`tautline host undo --journal {}` puts it back\n", arguments.journal.display()))?;
    }
    let done = Applied { schema: APPLY_SCHEMA, journal: &arguments.journal, changes, written, refused };
    sink.save(|| lines.text, || Ok(serde_json::to_string_pretty(&done)?))?;
    if refused > 0 {
        bail!("{refused} changes were refused; the output has the reasons, the others stay");
    }
    Ok(Done::Whole)
}

/// Restores all values, and prints which ones need a reboot.
pub fn undo(arguments: &Undo) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    let mut lines = Lines { sink: &sink, text: String::new() };
    let tree = subject::tree(&arguments.root)?;
    let mut values = Vec::new();
    let not_put_back = host::undo(&tree, &arguments.journal, |entry, outcome| {
        values.push(Value { entry: entry.clone(), outcome: outcome.into() });
        let _ = lines.add(&describe(entry, outcome));
    })?;
    if values.is_empty() {
        lines.add(&format!(
            "{}: no journal, or nothing in it: nothing to put back\n",
            arguments.journal.display()
        ))?;
    }
    let until_reboot = host::reboot_only(&tree);
    if !until_reboot.is_empty() {
        lines.add(&format!(
            "only a boot without them takes away, from the kernel's command line: {}\n",
            until_reboot.join(" ")
        ))?;
    }
    let done =
        Undone { schema: UNDO_SCHEMA, journal: &arguments.journal, values, not_put_back, until_reboot };
    sink.save(|| lines.text, || Ok(serde_json::to_string_pretty(&done)?))?;
    if not_put_back > 0 {
        bail!(
            "{not_put_back} values were not restored; the journal is kept: remove the reasons in the output and call \
             undo again"
        );
    }
    Ok(Done::Whole)
}

/// A line that says how one value was restored.
pub fn describe(entry: &Entry, outcome: &PutBack) -> String {
    let found = entry.found.as_deref().unwrap_or("not there");
    let line = match outcome {
        PutBack::Restored { meanwhile: None } => found.to_owned(),
        PutBack::Restored { meanwhile: Some(other) } => {
            format!("{found} (another program had changed it to {other})")
        }
        PutBack::Gone => "gone; nothing to put back".into(),
        PutBack::Rebooted => "as the boot has set it; the host was booted since".into(),
        PutBack::Failed(failure) => format!("not restored: {failure}"),
    };
    format!("{}: {}: {line}\n", entry.rule, entry.knob)
}
