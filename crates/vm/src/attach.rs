//! A QEMU that others started: its threads put in their places behind a journal, and put back.

use std::path::{Path, PathBuf};

use host::tuning::journal::{Entry, Journal};
use host::tuning::{HostTree, PutBack, threads, undo};
use measure::Failure;

use crate::{Placement, Profile, Role, Roles, Shortfall, Watch, memory};

/// Where journals are kept if the user says nothing.
pub const JOURNALS: &str = "/var/lib/tautline/vm";

/// The journal of what was done to a QEMU.
pub fn journal_of(process: u32) -> PathBuf {
    Path::new(JOURNALS).join(format!("attach-{process}.jsonl"))
}

/// How many vCPUs a QEMU has. `roles` are as QEMU or libvirt told them; else names tell.
pub fn count_vcpus(process: u32, roles: &Roles) -> Result<usize, Failure> {
    let tried = format!("looking for the vCPUs of process {process}");
    let found = threads::of_process(&HostTree::live(), process.cast_signed())
        .map_err(|error| Failure::new(&tried, error, "run as the user who started it, or as root"))?;
    let numbers = found.iter().filter_map(|thread| match roles.of(thread.id.id, &thread.id.name) {
        Role::Vcpu(number) => Some(number + 1),
        _ => None,
    });
    numbers.max().ok_or_else(|| {
        let answer = if found.is_empty() { "there is no such process" } else { "none of its threads is one" };
        let remedy =
            "name a QEMU's --pid, and its monitor with --qmp where it was started without debug-threads=on";
        Failure::new(&tried, answer, remedy)
    })
}

/// That a profile wants memory locked which is not. Where its size is not known, any that is locked will do.
pub fn memory_not_locked(process: u32, memory_mib: Option<u64>, profile: Profile) -> Option<Shortfall> {
    if !profile.locks_memory() {
        return None;
    }
    let found = memory::locked_mib(&HostTree::live(), process.cast_signed()).unwrap_or_default();
    (found < memory_mib.unwrap_or(1)).then(|| memory::not_locked(found, memory_mib))
}

/// Looks after a process, writing down what it finds.
pub fn watch(process: u32, placement: &Placement, journal: &Path) -> Result<Watch, Failure> {
    // What is in it of an earlier process with this number is gone, and the file with it.
    let tree = HostTree::live();
    if let Some(mut old) = Journal::open(journal)? {
        let story = old.story(&tree)?;
        let lives = |entry: &Entry| matches!(entry.knob.read(&tree), Ok(Some(_)));
        if story.rebooted || !story.entries.iter().any(lives) {
            old.remove()?;
        }
    }
    Ok(Watch::new(process, placement.clone()).with_journal(Journal::begin(journal, &tree)?))
}

/// Puts back what a journal says. How much could not be.
pub fn put_back(journal: &Path, say: impl FnMut(&Entry, &PutBack)) -> Result<usize, Failure> {
    undo(&HostTree::live(), journal, say)
}
