//! Supervises a QEMU that another program started: moves its threads to their CPUs, with a journal, and restores
//! them.

use std::path::{Path, PathBuf};

use host::journal::{Entry, Journal};
use host::threads::Thread;
use host::{HostTree, PutBack, threads, undo};
use measure::Failure;

use crate::{Placement, Profile, Role, Roles, Shortfall, Watch, memory};

/// The folder of the journals if the user names none.
pub const JOURNALS: &str = "/var/lib/tautline/vm";

/// The path of the journal for changes to this QEMU.
pub fn journal_of(process: u32) -> PathBuf {
    Path::new(JOURNALS).join(format!("attach-{process}.jsonl"))
}

/// The source that says which threads run vCPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToldBy {
    /// QEMU itself, by QMP, or the names of its threads.
    Qemu,
    /// A file of libvirt, which may be older than the process after a crash of the daemon or of the machine.
    Libvirt,
}

/// The number of vCPUs of a QEMU. `roles` are the roles that QEMU or libvirt reported; without them the threads'
/// names are used.
///
/// # Errors
/// There is no such process, it may not be inspected, or its threads are not the threads that `roles` names.
pub fn count_vcpus(process: u32, roles: &Roles, told_by: ToldBy) -> Result<usize, Failure> {
    let tried = format!("looking for the vCPUs of process {process}");
    let found = threads::of_process(&HostTree::live(), process.cast_signed())
        .map_err(|error| Failure::new(&tried, error, "run as the user who started it, or as root"))?;
    if let Some(answer) = contradiction(process, roles, told_by, &found) {
        return Err(Failure::new(
            &tried,
            answer,
            match told_by {
                ToldBy::Qemu => "name the --pid of the QEMU that this monitor is of",
                ToldBy::Libvirt => {
                    "the domain does not run, and libvirt's file of it is old (`virsh list` shows running ones); a guest \
                 that runs is named by --pid"
                }
            },
        ));
    }
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

/// What shows that these are not the threads that `roles` is about.
fn contradiction(process: u32, roles: &Roles, told_by: ToldBy, found: &[Thread]) -> Option<String> {
    roles.0.iter().find_map(|(id, role)| {
        let Role::Vcpu(number) = role else { return None };
        let Some(thread) = found.iter().find(|thread| thread.id.id == *id) else {
            return Some(format!("{role} is said to be thread {id}, which is none of the process"));
        };
        // QEMU runs vCPUs on threads beside its first one, and libvirt has it name them: all by one where an emulated
        // CPU has one thread only.
        let name = &thread.id.name;
        let is_named = name.starts_with(&format!("CPU {number}/")) || name.starts_with("ALL CPUs/");
        let is_vcpu = *id != process.cast_signed() && (told_by == ToldBy::Qemu || is_named);
        (!is_vcpu).then(|| format!("{role} is said to be its thread {id}, which is {name:?} and no vCPU"))
    })
}

/// The shortfall of a profile that requires locked guest memory, if less than `memory_mib` MiB is locked. If the size
/// is unknown, any amount of locked memory satisfies the profile.
pub fn memory_not_locked(process: u32, memory_mib: Option<u64>, profile: Profile) -> Option<Shortfall> {
    if !profile.locks_memory() {
        return None;
    }
    let found = memory::locked_mib(&HostTree::live(), process.cast_signed()).unwrap_or_default();
    (found < memory_mib.unwrap_or(1)).then(|| memory::not_locked(found, memory_mib))
}

/// Watches the threads of a process. The journal records each setting before it is changed.
///
/// # Errors
/// The journal cannot be read or written, or another process holds its lock.
pub fn watch(process: u32, placement: &Placement, journal: &Path) -> Result<Watch, Failure> {
    // Entries of an earlier process with this number concern nothing that still exists, so the file is removed.
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

/// Restores the settings that a journal records. Returns the number of settings that could not be restored.
///
/// # Errors
/// The journal cannot be locked, read or removed.
pub fn put_back(journal: &Path, say: impl FnMut(&Entry, &PutBack)) -> Result<usize, Failure> {
    undo(&HostTree::live(), journal, say)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    struct Ended(Child);

    impl Drop for Ended {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn vcpus(threads: impl IntoIterator<Item = (i32, usize)>) -> Roles {
        Roles(threads.into_iter().map(|(thread, number)| (thread, Role::Vcpu(number))).collect())
    }

    #[test]
    fn a_process_that_is_no_guest_is_refused_whoever_says_it_is_one() {
        let sleep = Ended(Command::new("sleep").arg("600").spawn().unwrap());
        let process = sleep.0.id();
        for (roles, told_by, said) in [
            (vcpus([(process.cast_signed(), 0)]), ToldBy::Libvirt, "no vCPU"),
            (vcpus([(process.cast_signed(), 0)]), ToldBy::Qemu, "no vCPU"),
            (vcpus([(1, 0)]), ToldBy::Libvirt, "none of the process"),
            (vcpus([(1, 0)]), ToldBy::Qemu, "none of the process"),
            (Roles::default(), ToldBy::Qemu, "none of its threads"),
        ] {
            let error = count_vcpus(process, &roles, told_by).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
    }

    #[test]
    fn threads_are_vcpus_by_their_names_where_a_file_says_so_and_by_qemu_s_word() {
        let (told, ready) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let body = move || {
            let this = std::fs::read_link("/proc/thread-self").unwrap();
            told.send(this.file_name().unwrap().to_str().unwrap().parse::<i32>().unwrap()).unwrap();
            let _ = ended.recv();
        };
        let thread = std::thread::Builder::new().name("CPU 3/KVM".to_owned()).spawn(body).unwrap();
        let (id, process) = (ready.recv().unwrap(), std::process::id());
        let count = |number, told_by| count_vcpus(process, &vcpus([(id, number)]), told_by).ok();
        assert_eq!(count(3, ToldBy::Libvirt), Some(4));
        assert_eq!(count(2, ToldBy::Libvirt), None, "of another guest");
        assert_eq!(count(2, ToldBy::Qemu), Some(3), "without debug-threads=on names say nothing");
        drop(end);
        thread.join().unwrap();
    }
}
