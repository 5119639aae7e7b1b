//! `apply` and `undo`.

use std::time::Duration;

use anyhow::bail;
use host::tuning::journal::Entry;
use host::tuning::{self, Outcome, Picked, PutBack, Survey};

use super::subject;
use crate::cli::host::{Apply, Undo};
use crate::exit::Done;
use crate::output;

/// Makes the changes that the user picked, and says each.
pub fn apply(arguments: &Apply) -> anyhow::Result<Done> {
    let tree = subject::tree(&arguments.subject.root)?;
    let plan = subject::made(&tree, &arguments.subject)?;
    let picked = Picked {
        rules: (!arguments.all).then(|| arguments.rules.clone()),
        accepted: arguments.accept.clone(),
    };
    let summary = tuning::apply(&tree, &plan, &picked, &arguments.journal, |outcome| {
        let line = match outcome {
            Outcome::Written { rule, knob, found, value } => {
                format!("{rule}: {knob}: {} -> {value}\n", found.unwrap_or("not there"))
            }
            Outcome::Refused { rule, failure } => format!("{rule}: not done: {failure}\n"),
        };
        let _ = output::print(&line);
    })?;
    if summary.written > 0 {
        // With counters it would take a second.
        let wishes = arguments.subject.wishes(Duration::ZERO);
        tuning::note_what_holds(&Survey::of(&tree, &wishes)?, &arguments.journal)?;
    }
    output::print(&format!("{} changed, {} refused\n", summary.written, summary.refused))?;
    if summary.written > 0 {
        output::print(&format!(
            "`tautline host undo --journal {}` puts it back\n",
            arguments.journal.display()
        ))?;
    }
    if summary.refused > 0 {
        bail!("{} changes were refused; the reasons are above, the others stay", summary.refused);
    }
    Ok(Done::Whole)
}

/// Puts everything back, and says what only a reboot brings back.
pub fn undo(arguments: &Undo) -> anyhow::Result<Done> {
    let tree = subject::tree(&arguments.root)?;
    let mut count = 0;
    let failures = tuning::undo(&tree, &arguments.journal, |entry, outcome| {
        count += 1;
        let _ = output::print(&describe(entry, outcome));
    })?;
    if count == 0 {
        output::print(&format!(
            "{}: no journal, or nothing in it: nothing to put back\n",
            arguments.journal.display()
        ))?;
    }
    let stays = tuning::reboot_only(&tree);
    if !stays.is_empty() {
        output::print(&format!(
            "only a boot without them takes away, from the kernel's command line: {}\n",
            stays.join(" ")
        ))?;
    }
    if failures > 0 {
        bail!(
            "{failures} values were not put back; the journal is kept, mend the reasons above and call undo again"
        );
    }
    Ok(Done::Whole)
}

/// A line that says how one value went back.
pub fn describe(entry: &Entry, outcome: &PutBack) -> String {
    let found = entry.found.as_deref().unwrap_or("not there");
    let line = match outcome {
        PutBack::Restored { meanwhile: None } => found.to_owned(),
        PutBack::Restored { meanwhile: Some(other) } => {
            format!("{found} (somebody had changed it to {other} meanwhile)")
        }
        PutBack::Gone => "gone; nothing to put back".into(),
        PutBack::Rebooted => "as the boot has set it; the host was booted since".into(),
        PutBack::Failed(failure) => format!("not put back: {failure}"),
    };
    format!("{}: {}: {line}\n", entry.rule, entry.knob)
}
