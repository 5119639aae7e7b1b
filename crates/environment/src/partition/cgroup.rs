//! An isolated partition of cgroup v2's controller `cpuset`: the kernel's Documentation/admin-guide/cgroup-v2.rst,
//! "Cpuset Interface Files".
//!
//! The kernel moves every other task off the partition's CPUs, except kernel threads that are bound to one CPU, and
//! its scheduler balances no load onto them. Interrupts and timers are not moved: `tautline host` moves these.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use linux::cpus;
use measure::Failure;

use crate::Running;
use crate::cpuset::{ROOT, cgroups};
use crate::janitor::{Janitor, Leftover};
use crate::undo::Undo;

/// The partitions that this process holds. Environments with the same CPUs share one.
static HELD: Mutex<Vec<Weak<Partition>>> = Mutex::new(Vec::new());

/// CPUs of the host on which only the processes and threads run that this process puts there. Dropping the value gives
/// the CPUs back; if this process is killed, the janitor does.
#[derive(Debug)]
pub struct Partition {
    cpus: Vec<usize>,
    folder: PathBuf,
    _undo: Undo,
}

impl Partition {
    /// The partition of these CPUs, in ascending order. The partition is made now, unless this process holds it
    /// already.
    ///
    /// # Errors
    /// There is no cgroup v2 with the controller `cpuset`, this process may not write there, or the kernel makes no
    /// valid partition of these CPUs. The failure has the kernel's reason.
    pub fn hold(cpus: &[usize], janitor: &Arc<Janitor>) -> Result<Arc<Self>, Failure> {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|one| one.strong_count() > 0);
        if let Some(found) = held.iter().filter_map(Weak::upgrade).find(|one| one.cpus == cpus) {
            found.verify()?;
            return Ok(found);
        }
        let made = Arc::new(Self::make(cpus, janitor)?);
        held.push(Arc::downgrade(&made));
        Ok(made)
    }

    fn make(cpus: &[usize], janitor: &Arc<Janitor>) -> Result<Self, Failure> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let list = cpus::list(cpus);
        let doing = doing(cpus);
        let mut undo = Undo::new(janitor);
        enable_controller(&doing, &mut undo)?;
        let name = format!("tautline-{}-cpus-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = Path::new(ROOT).join(&name);
        undo.made(Leftover::Cgroup(name));
        fs::create_dir(&folder).map_err(|error| refused(&doing, "mkdir", &folder, &error))?;
        // Single threads can enter: a guest's vCPUs without QEMU's other threads.
        write(&doing, &folder.join("cgroup.type"), "threaded")?;
        write(&doing, &folder.join("cpuset.cpus"), &list).map_err(|failure| named(failure, cpus))?;
        write(&doing, &folder.join("cpuset.cpus.partition"), "isolated").map_err(|failure| Failure {
            remedy: "boot Linux 6.1 or newer, which has isolated partitions".into(),
            ..failure
        })?;
        let partition = Partition { cpus: cpus.to_vec(), folder, _undo: undo };
        partition.verify()?;
        Ok(partition)
    }

    /// The CPUs, in ascending order.
    pub fn cpus(&self) -> &[usize] {
        &self.cpus
    }

    /// The first CPUs, one for each of `count` CPUs of a run.
    ///
    /// # Errors
    /// The partition has fewer CPUs.
    pub fn first(&self, count: usize) -> Result<&[usize], Failure> {
        self.cpus.get(..count).ok_or_else(|| {
            let answer = format!("the run works on {count} CPUs");
            Failure::new(format!("working on {self}"), answer, "name as many CPUs for the partition")
        })
    }

    /// Checks that the kernel still isolates the CPUs: a CPU that goes offline or another cgroup can end it.
    ///
    /// # Errors
    /// The partition is not valid, or does not have exactly its CPUs. The failure has the kernel's reason.
    pub fn verify(&self) -> Result<(), Failure> {
        let doing = doing(&self.cpus);
        let state = read(&doing, &self.folder.join("cpuset.cpus.partition"))?;
        let effective = read(&doing, &self.folder.join("cpuset.cpus.effective"))?;
        judge(&doing, &self.cpus, &state, &effective).map_err(|failure| named(failure, &self.cpus))
    }

    /// The file through which a process enters: see [`linux::child::enter_cgroups`].
    ///
    /// # Errors
    /// The file may not be opened.
    pub fn entrance(&self) -> Result<File, Failure> {
        open(&doing(&self.cpus), &self.folder.join("cgroup.procs"))
    }

    /// The file through which a process comes to where its threads can enter: the root's. A thread can change only to
    /// a cgroup below its process's cgroup (cgroups(7), "Threaded mode").
    ///
    /// # Errors
    /// The file may not be opened.
    pub fn entrance_of_threads(&self) -> Result<File, Failure> {
        open(&doing(&self.cpus), &Path::new(ROOT).join("cgroup.procs"))
    }

    /// Puts a thread onto the CPUs. Its process must have come through [`Partition::entrance_of_threads`].
    ///
    /// # Errors
    /// The thread has ended, or the kernel refuses to move it.
    pub fn take_thread(&self, thread: u32) -> io::Result<()> {
        fs::write(self.folder.join("cgroup.threads"), thread.to_string())
    }

    /// Keeps the partition until the process in it has ended: the kernel removes no cgroup with a process in it.
    pub(crate) fn outlives(self: &Arc<Self>, running: Running) -> Running {
        let partition = Arc::clone(self);
        running.with_clean_up(Box::new(move || drop(partition)))
    }

    /// A fact to show beside the figures.
    pub fn fact(&self) -> (String, String) {
        ("partition".into(), format!("{self}, isolated by {}", self.folder.display()))
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CPUs {}", cpus::list(&self.cpus))
    }
}

fn doing(cpus: &[usize]) -> String {
    format!("taking CPUs {} from everything else by a cgroup", cpus::list(cpus))
}

/// Makes `cpuset` available to the cgroups below the root.
fn enable_controller(doing: &str, undo: &mut Undo) -> Result<(), Failure> {
    let root = Path::new(ROOT);
    let has_cpuset = |text: &str| text.split_whitespace().any(|one| one == "cpuset");
    let available = fs::read_to_string(root.join("cgroup.controllers")).map_err(|error| {
        let is_mounted = fs::read_dir(root).is_ok_and(|mut entries| entries.next().is_some());
        let (answer, remedy) = match is_mounted {
            true => (
                format!("{ROOT} is not cgroup v2: no {ROOT}/cgroup.controllers; cgroup v1 has no partitions"),
                "boot with systemd.unified_cgroup_hierarchy=1 and cgroup_no_v1=all",
            ),
            false => (format!("{ROOT}: {error}"), "mount -t cgroup2 cgroup2 /sys/fs/cgroup"),
        };
        Failure::new(doing, answer, remedy)
    })?;
    if !has_cpuset(&available) {
        let answer = format!("{ROOT}/cgroup.controllers has no cpuset, but {:?}", available.trim());
        return Err(Failure::new(
            doing,
            answer,
            "boot with cgroup_no_v1=all: cgroup v1 uses the controller; on a kernel without it, build CONFIG_CPUSETS",
        ));
    }
    let control = root.join("cgroup.subtree_control");
    if has_cpuset(&read(doing, &control)?) {
        return Ok(());
    }
    undo.made(Leftover::CpusetController);
    write(doing, &control, "+cpuset")
}

/// The failure, with the other cgroups that name one of these CPUs.
fn named(failure: Failure, cpus: &[usize]) -> Failure {
    let own = format!("tautline-{}-", std::process::id());
    let others: Vec<String> = cgroups()
        .filter(|folder| !folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&own)))
        .filter_map(|folder| {
            let list = fs::read_to_string(folder.join("cpuset.cpus")).ok()?;
            let names = cpus::parse(list.trim()).ok()?.iter().any(|cpu| cpus.contains(cpu));
            names.then(|| format!("{} names CPUs {}", folder.display(), list.trim()))
        })
        .collect();
    if others.is_empty() {
        return failure;
    }
    Failure {
        answer: format!("{}; {}", failure.answer, others.join(", ")),
        remedy: "name CPUs that no other cgroup names, or end what uses that cgroup".into(),
        ..failure
    }
}

/// Whether a partition's files say that exactly these CPUs are isolated.
fn judge(doing: &str, cpus: &[usize], state: &str, effective: &str) -> Result<(), Failure> {
    if state != "isolated" {
        return Err(Failure::new(doing, format!("cpuset.cpus.partition reads {state:?}"), remedy(state)));
    }
    if cpus::parse(effective).ok().as_deref() == Some(cpus) {
        return Ok(());
    }
    let answer = format!("cpuset.cpus.effective has CPUs {effective:?}");
    Err(Failure::new(doing, answer, "name CPUs that are online"))
}

/// What helps against the reasons that kernel/cgroup/cpuset.c gives (`perr_strings`).
fn remedy(state: &str) -> &'static str {
    let says = |words| state.contains(words);
    match () {
        () if says("not exclusive") => "name CPUs that no other cgroup names",
        () if says("distribute") => "leave at least one CPU to everything else",
        () if says("hotplug") || says("Invalid cpu list") || says("is empty") => "name CPUs that are online",
        () if says("housekeeping") => {
            "name CPUs that isolcpus and nohz_full leave alone, or only such that they name"
        }
        () if says("Parent") => "run it on the host, outside of a container",
        () => "name other CPUs",
    }
}

fn read(doing: &str, file: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(file).map_err(|error| refused(doing, "reading", file, &error))?;
    Ok(text.trim().to_owned())
}

fn write(doing: &str, file: &Path, text: &str) -> Result<(), Failure> {
    fs::write(file, text).map_err(|error| refused(doing, &format!("writing {text:?} to"), file, &error))
}

fn open(doing: &str, file: &Path) -> Result<File, Failure> {
    File::options().write(true).open(file).map_err(|error| refused(doing, "opening", file, &error))
}

fn refused(doing: &str, what: &str, file: &Path, error: &io::Error) -> Failure {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "run it as root, on the host and outside of a container"
        }
        _ => "name CPUs that are online and that no other cgroup names",
    };
    Failure::new(doing, format!("{what} {}: {error}", file.display()), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exactly_these_cpus_isolated_count() {
        let judged = |state, effective| judge("x", &[2, 3], state, effective);
        assert!(judged("isolated", "2-3").is_ok());
        for (state, effective, remedy) in [
            ("isolated", "2", "online"),
            ("isolated", "", "online"),
            ("member", "2-3", "other CPUs"),
            ("isolated invalid (Cpu list in cpuset.cpus not exclusive)", "0-1", "no other cgroup"),
            ("isolated invalid (Parent unable to distribute cpu downstream)", "0-3", "leave at least one"),
            ("isolated invalid (Parent is not a partition root)", "2-3", "outside of a container"),
            ("isolated invalid (No cpu available due to hotplug)", "0-1", "online"),
            ("isolated invalid (partition config conflicts with housekeeping setup)", "0-1", "isolcpus"),
        ] {
            let failure = judged(state, effective).unwrap_err();
            assert!(failure.remedy.contains(remedy), "{state}: {failure}");
            assert!(
                effective.is_empty() || failure.answer.contains(state) || failure.answer.contains(effective)
            );
        }
    }
}
