//! Restores the values that a journal records, the last written first.

use std::path::Path;

use measure::Failure;

use super::command_line::{CommandLine, is};
use super::journal::{Entry, Journal};
use super::tree::HostTree;

/// The outcome of restoring one value.
#[derive(Debug)]
pub enum PutBack {
    /// The value is the same as before the change.
    Restored {
        /// The value before it was restored, if another program had changed it since the write.
        meanwhile: Option<String>,
    },
    /// The thread has ended or the device was removed: there is nothing to restore.
    Gone,
    /// The host was rebooted, which reset all values of the running kernel.
    Rebooted,
    /// The value could not be restored.
    Failed(Failure),
}

/// Restores all values, the last written first, and removes the journal after all of them were restored. Returns the
/// number of values that could not be restored. The function may be called any number of times, also after a crash in
/// the middle of it.
///
/// # Errors
/// The journal cannot be opened, locked or read, belongs to another host or version, or cannot be removed in the end.
/// A value that cannot be restored is reported to `say` and counted.
pub fn undo(
    tree: &HostTree,
    journal: &Path,
    mut say: impl FnMut(&Entry, &PutBack),
) -> Result<usize, Failure> {
    let Some(mut journal) = Journal::open(journal)? else { return Ok(0) };
    let story = journal.story(tree)?;
    let mut failures = 0;
    for entry in story.entries.iter().rev() {
        let outcome = if story.rebooted { PutBack::Rebooted } else { put_back(tree, entry) };
        failures += usize::from(matches!(outcome, PutBack::Failed(_)));
        say(entry, &outcome);
    }
    if failures == 0 {
        journal.remove()?;
    }
    Ok(failures)
}

/// Restores one value.
pub(super) fn put_back(tree: &HostTree, entry: &Entry) -> PutBack {
    let Entry { knob, found, writing, .. } = entry;
    let now = match knob.read(tree) {
        Ok(now) => now,
        Err(failure) => return PutBack::Failed(failure),
    };
    let (Some(found), Some(now)) = (found, &now) else {
        return match (found, &now) {
            (None, Some(_)) => match knob.remove(tree) {
                Ok(()) => PutBack::Restored { meanwhile: None },
                Err(failure) => PutBack::Failed(failure),
            },
            (Some(_), _) => PutBack::Gone,
            (None, None) => PutBack::Restored { meanwhile: None },
        };
    };
    let meanwhile = (!knob.same(now, writing) && !knob.same(now, found)).then(|| now.clone());
    if now == found {
        return PutBack::Restored { meanwhile };
    }
    let restored = knob.write(tree, found).and_then(|()| match knob.read(tree)? {
        Some(now) if knob.same(&now, found) => Ok(()),
        now => Err(Failure::new(
            format!("putting {knob} back to {found:?}"),
            format!("the kernel took it, and says {:?} now", now.unwrap_or_default()),
            "write it by hand; the journal is kept",
        )),
    });
    match restored {
        Ok(()) => PutBack::Restored { meanwhile },
        Err(failure) => PutBack::Failed(failure),
    }
}

/// Parameters on the running kernel's command line that only a reboot removes.
pub fn reboot_only(tree: &HostTree) -> Vec<String> {
    const KEYS: [&str; 8] = [
        "isolcpus",
        "nohz_full",
        "rcu_nocbs",
        "rcutree.nohz_full_patience_delay",
        "rcupdate.rcu_normal_after_boot",
        "skew_tick",
        "nosoftlockup",
        "kvm-arm.vgic_v4_enable",
    ];
    let line = CommandLine::parse(&tree.read("/proc/cmdline").unwrap_or_default());
    let known = |parameter: &&str| KEYS.iter().any(|key| is(parameter, key));
    line.kernels_own().filter(known).map(str::to_owned).collect()
}
