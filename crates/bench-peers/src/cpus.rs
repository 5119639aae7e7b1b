//! Which CPU is whose.
use anyhow::{Context, ensure};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The first CPU that this process may use is the driver's, the last one the switch's.
pub fn pick() -> anyhow::Result<(usize, usize)> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).context("asking for this process's CPUs")?;
    let cpus: Vec<usize> = (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu) == Ok(true)).collect();
    ensure!(
        cpus.len() >= 2,
        "one CPU is not enough: the switch and the driver poll on one each; start with two or more (taskset -pc $$)"
    );
    Ok((cpus[0], cpus[cpus.len() - 1]))
}

/// Another thread has this CPU and no other from now on.
pub fn pin(thread: u32, cpu: usize) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu).with_context(|| format!("naming CPU {cpu}"))?;
    let pinned = sched_setaffinity(Pid::from_raw(thread as i32), &set);
    pinned.with_context(|| format!("pinning thread {thread} to CPU {cpu}"))
}

/// The calling thread stays on one CPU until this is dropped.
pub struct Pinned(CpuSet);

impl Pinned {
    pub fn to(cpu: usize) -> anyhow::Result<Self> {
        let before = sched_getaffinity(Pid::from_raw(0)).context("asking for this thread's CPUs")?;
        traffic::bound::pin(cpu).with_context(|| format!("pinning to CPU {cpu}"))?;
        Ok(Pinned(before))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = sched_setaffinity(Pid::from_raw(0), &self.0);
    }
}
