//! The machine is the same after as before.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use capability::State;
use libtest_mimic::Failed;
use rustix::process::{Pid, Signal, kill_process};

use crate::{LIMIT, eventually, processes_with, this_binary};

/// The argument that makes this binary run one probe as a parent does.
pub const RUN_ONE: &str = "run-one-probe";

pub fn run_one(name: &str) -> ExitCode {
    let Ok(binary) = std::env::current_exe() else { return ExitCode::FAILURE };
    capability::run_one(&binary, name, LIMIT);
    ExitCode::SUCCESS
}

pub fn nothing_left() -> Result<(), Failed> {
    let before = machine()?;
    capability::run_all(&this_binary()?, LIMIT, &mut |_| {});
    let after = machine()?;
    let new: Vec<_> = after.difference(&before).collect();
    let gone: Vec<_> = before.difference(&after).collect();
    assert!(new.is_empty() && gone.is_empty(), "new: {new:?}, gone: {gone:?}");
    Ok(())
}

/// Everything that a probe might leave, in words. Cgroups, processes and interfaces only by what is
/// this project's: others work on the machine meanwhile.
fn machine() -> Result<BTreeSet<String>, Failed> {
    let mut seen = BTreeSet::new();
    let ours = |name: &str| name.starts_with("tautline");
    for interface in names(Path::new("/sys/class/net")).into_iter().filter(|name| ours(name)) {
        seen.insert(format!("interface {interface}"));
    }
    for cgroup in cgroups(Path::new("/sys/fs/cgroup")) {
        seen.insert(format!("cgroup {}", cgroup.display()));
    }
    for instance in tracing_instances()? {
        seen.insert(format!("tracing instance {instance}"));
    }
    for process in processes_with(&format!("{} {}", this_binary()?.display(), capability::ARGUMENT)) {
        seen.insert(format!("process {process}"));
    }
    // A namespace outlives its processes only where it is mounted.
    for mount in fs::read_to_string("/proc/self/mountinfo")?.lines() {
        seen.insert(format!("mount {mount}"));
    }
    for size in names(Path::new("/sys/kernel/mm/hugepages")) {
        let pool = fs::read_to_string(format!("/sys/kernel/mm/hugepages/{size}/nr_hugepages"))?;
        seen.insert(format!("{size} {pool}"));
    }
    Ok(seen)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn cgroups(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if entry.file_name().to_string_lossy().starts_with("tautline-probe-") {
                found.push(entry.path());
            }
            found.extend(cgroups(&entry.path()));
        }
    }
    found
}

/// Listed in a mount namespace of its own, since tracefs may not be mounted.
fn tracing_instances() -> Result<Vec<String>, Failed> {
    let script = "[ -d /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing; \
                  ls /sys/kernel/tracing/instances";
    let output = Command::new("unshare").args(["--mount", "sh", "-c", script]).output()?;
    let ours = |name: &&str| name.starts_with("tautline");
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter(ours).map(str::to_owned).collect())
}

/// A stand-in for a probe that was killed between making its cgroup and removing it: a folder with the
/// number of a process that is gone.
pub fn killed_with_a_cgroup() -> Result<(), Failed> {
    let own = fs::read_to_string("/proc/self/cgroup")?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(|mount| Path::new(mount).join(own));
    let Some(parent) = mounts.into_iter().find(|folder| folder.join("cgroup.procs").exists()) else {
        return Err("no cgroup v2 to try it in".into());
    };
    let mut ended = Command::new("true").spawn()?;
    ended.wait()?;
    let left = parent.join(format!("tautline-probe-{}", ended.id()));
    let live = parent.join(format!("tautline-probe-{}", std::process::id()));
    fs::create_dir(&left)?;
    fs::create_dir(&live)?;
    let found = capability::run_one(&this_binary()?, "crash", LIMIT);
    let (left_is_there, live_is_there) = (left.exists(), live.exists());
    let _ = fs::remove_dir(&left);
    let _ = fs::remove_dir(&live);
    assert_eq!(found.state, State::Missing);
    assert!(!left_is_there, "a dead probe's cgroup is removed");
    assert!(live_is_there, "a living probe's cgroup is not");
    Ok(())
}

pub fn parent_killed() -> Result<(), Failed> {
    let binary = this_binary()?;
    let mut parent = Command::new(&binary).args([RUN_ONE, "steal-time"]).stdout(Stdio::null()).spawn()?;
    let mark = format!("{} {} steal-time", binary.display(), capability::ARGUMENT);
    let mut probe = None;
    // With more than one thread it is at work, hence tied to its parent. Stopped, it cannot end by itself.
    let at_work = eventually(|| {
        probe = processes_with(&mark).first().copied();
        probe.is_some_and(|pid| names(Path::new(&format!("/proc/{pid}/task"))).len() > 1)
    });
    let probe = probe.and_then(Pid::from_raw).ok_or("the probe never came")?;
    let stopped = kill_process(probe, Signal::STOP);
    parent.kill()?;
    parent.wait()?;
    let gone = eventually(|| processes_with(&mark).is_empty());
    if !gone {
        let _ = kill_process(probe, Signal::KILL);
    }
    assert!(at_work && stopped.is_ok(), "stopped in the middle of its work");
    assert!(gone, "a probe outlived its parent");
    Ok(())
}
