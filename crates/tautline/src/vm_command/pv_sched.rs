//! Raises a guest's vCPUs as the guest's hints ask.

use std::fmt;

use measure::Failure;
use memory::sealed_memfd;
use pv_sched::{Claim, Daemon, PAGE_BYTES, Page, Raised, Settings, Vcpu};
use serde::Serialize;
use vm::{Placement, Profile, Role, SharedMemory, ThreadStatus};

use crate::exit::Usage;

/// The plan for raising vCPUs, before the guest exists.
pub struct PvSched {
    settings: Settings,
    page: Page,
    memory: SharedMemory,
    cpus: Vec<Option<usize>>,
}

/// Raising of vCPUs in progress.
pub struct Raising {
    daemon: Daemon,
    _claims: Vec<Claim>,
}

/// How the raising is shown.
#[derive(Debug, Serialize)]
pub struct RaisedStatus {
    /// SCHED_FIFO priority of a raised vCPU.
    priority: i32,
    /// The longest raised time in each period, µs.
    budget_us: u64,
    period_us: u64,
    /// The results of raising each vCPU; empty before the end.
    vcpus: Vec<RaisedVcpu>,
}

/// The raised time of one vCPU.
#[derive(Debug, Serialize)]
struct RaisedVcpu {
    vcpu: usize,
    #[serde(flatten)]
    raised: Raised,
}

impl PvSched {
    /// The plan for a guest whose vCPUs are placed so.
    pub fn plan(profile: Profile, placement: &Placement) -> anyhow::Result<Self> {
        if !profile.places_threads() || profile.priority().is_some() {
            let text = "--pv-sched: it raises vCPUs that have CPUs and the ordinary policy; name the profile throughput or latency";
            return Err(Usage(text.into()).into());
        }
        let made = || -> std::io::Result<_> {
            let memory = sealed_memfd(c"tautline-pv-sched", PAGE_BYTES)?;
            Ok((memory.try_clone()?, SharedMemory::new(memory)?))
        };
        let (memory, shared) = made().map_err(|error| {
            Failure::new("making a page that the guest shares", error, "see what the system said")
        })?;
        let settings = Settings { cpus: placement.housekeeping.iter().collect(), ..Settings::default() };
        Ok(PvSched { settings, page: Page::map(&memory)?, memory: shared, cpus: placement.vcpus.clone() })
    }

    /// For QEMU.
    pub fn memory(&self) -> SharedMemory {
        self.memory.clone()
    }

    /// Claims a share of real-time CPU time on the CPU of each vCPU. Claims nothing for a vCPU without a CPU of
    /// its own, because it may run anywhere.
    pub fn claim(&self) -> Result<Vec<Claim>, Failure> {
        self.cpus.iter().copied().flatten().map(Claim::of).collect()
    }

    /// Begins to raise vCPUs, whose threads are among these of QEMU.
    pub fn start(self, claims: Vec<Claim>, threads: &[ThreadStatus]) -> Result<Raising, Failure> {
        let vcpu = |thread: &ThreadStatus| match thread.role {
            Role::Vcpu(slot) if slot < pv_sched::SLOTS => {
                let cpu = self.cpus.get(slot).copied().flatten();
                Some(Vcpu { thread: thread.id, hints: self.page.hints.clone(), slot, cpu })
            }
            _ => None,
        };
        let vcpus = threads.iter().filter_map(vcpu).collect();
        let daemon = Daemon::start(self.settings, vcpus, vec![self.page.exchange])?;
        Ok(Raising { daemon, _claims: claims })
    }

    /// The settings, and what was done for each vCPU.
    pub fn status(raised: Vec<Raised>) -> RaisedStatus {
        let Settings { priority, budget, period, .. } = Settings::default();
        let vcpus = raised.into_iter().enumerate().map(|(vcpu, raised)| RaisedVcpu { vcpu, raised });
        RaisedStatus {
            priority,
            budget_us: budget.as_micros() as u64,
            period_us: period.as_micros() as u64,
            vcpus: vcpus.collect(),
        }
    }
}

impl Raising {
    /// Restores every policy. Returns what was done for each vCPU, in their order.
    pub fn end(self) -> Vec<Raised> {
        self.daemon.end()
    }
}

impl fmt::Display for RaisedStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { priority, budget_us, period_us, .. } = self;
        write!(
            f,
            "pv-sched: as the guest says, vCPUs are raised to fifo {priority}, each for {budget_us} of {period_us} µs at most"
        )?;
        for RaisedVcpu { vcpu, raised } in &self.vcpus {
            let Raised { raised, raised_ns, exhausted, failed, .. } = raised;
            write!(f, "\n  vCPU {vcpu}: {raised} times, {:.1} ms in all", *raised_ns as f64 / 1e6)?;
            if *exhausted > 0 {
                write!(f, "; {exhausted} times it wanted more")?;
            }
            if let Some(failed) = failed {
                write!(f, "; then left alone: {failed}")?;
            }
        }
        Ok(())
    }
}
