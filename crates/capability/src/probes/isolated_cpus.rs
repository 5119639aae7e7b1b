use std::io;

use measure::Failure;
use rustix::thread::sched_getcpu;

use super::cgroup_tree::{Version, hierarchies};
use crate::files::text;
use crate::finding::Finding;

/// Moves this thread to an isolated CPU, or looks whether its cpuset partition is isolated.
///
/// # Errors
/// The kernel names no isolated CPU, and this process is in no isolated cpuset partition. An isolated CPU that this
/// thread may not use makes a partial finding.
pub fn run() -> Result<Finding, Failure> {
    let folder = "/sys/devices/system/cpu";
    let none = |list: String| if list.is_empty() || list == "(null)" { "none".to_owned() } else { list };
    let isolated = text(format!("{folder}/isolated"));
    let tickless = none(text(format!("{folder}/nohz_full")));
    let (partition, own_isolated) = partition();
    let facts = format!("tickless (nohz_full): {tickless}; cpuset partitions: {partition}");
    let remedy = "isolate at run time with a cgroup v2 cpuset partition (cpuset.cpus.partition = isolated), \
                  or boot with isolcpus=managed_irq,domain,LIST nohz_full=LIST rcu_nocbs=LIST";
    let Some(cpu) = linux::cpus::parse(&isolated).ok().and_then(|cpus| cpus.first().copied()) else {
        return Ok(if own_isolated {
            Finding::proven(format!("this process is in an isolated cpuset partition; {facts}"))
        } else {
            let failure =
                Failure::new(format!("reading {folder}/isolated"), format!("none; {facts}"), remedy);
            return Err(failure);
        });
    };
    let tried = format!("running on isolated CPU {cpu} of {isolated}");
    match run_on(cpu) {
        Ok(()) => Ok(Finding::proven(format!("{tried}; {facts}"))),
        Err(error) => Ok(Finding::partial(
            format!("{tried}: {error}; {facts}"),
            "allow this process those CPUs: taskset, or cpuset.cpus of its cgroup",
        )),
    }
}

/// Moves this thread to the CPU and checks where it runs.
fn run_on(cpu: usize) -> io::Result<()> {
    linux::cpus::bind(&[cpu])?;
    match sched_getcpu() {
        here if here == cpu => Ok(()),
        other => Err(io::Error::other(format!("accepted, but running on CPU {other}"))),
    }
}

/// What the unified hierarchy says about partitions, and whether this process is in an isolated one.
fn partition() -> (String, bool) {
    let Some(unified) = hierarchies().into_iter().find(|tree| tree.version == Version::V2) else {
        return ("no cgroup v2".into(), false);
    };
    if !unified.has("cpuset") {
        return ("cgroup v2 without the cpuset controller".into(), false);
    }
    // The top cgroup has no such file: its CPUs are what partitions leave.
    match text(unified.own.join("cpuset.cpus.partition")).as_str() {
        "" => ("available, none set for this cgroup".into(), false),
        state => (format!("this cgroup is `{state}`"), state == "isolated"),
    }
}
