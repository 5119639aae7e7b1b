//! What a guest gets of what its profile asks for, decided before anything is started.

use host::{HostTree, threads};

use crate::arguments::Hardware;
use crate::{Accelerator, CpuWishes, HostCpus, HugePages, Placement, Shortfall, rights};

/// What it gets, and what it does not.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where its threads go.
    pub placement: Placement,
    /// Whether its memory is locked.
    pub locked: bool,
    /// Huge pages for its memory.
    pub huge_pages: Option<HugePages>,
    /// What its profile, or the user, asks for and cannot be had here.
    pub missing: Vec<Shortfall>,
    wishes: CpuWishes,
    memory_mib: u64,
}

impl Plan {
    /// Finds out what can be had on this machine; of memory only where its size, MiB, is given.
    pub fn make(wishes: CpuWishes, host: &HostCpus, memory_mib: Option<u64>, huge_pages: bool) -> Self {
        let tree = HostTree::live();
        let (mut placement, mut missing) = Placement::plan(&wishes, host);
        if host.real_time && placement.priority.is_some() {
            // Without /proc nothing can be placed either, which is told then.
            let kernel = threads::named(&tree, |name| name.contains('/')).unwrap_or_default();
            missing.extend(placement.order(&kernel, host));
        }
        if let Some(refused) = placement.priority.and_then(rights::real_time) {
            placement.priority = None;
            missing.push(refused);
        }
        let memory_mib = memory_mib.unwrap_or_default();
        let mut locked = wishes.profile.locks_memory();
        if let Some(refused) = rights::memory_limit(&tree, memory_mib).filter(|_| locked && memory_mib > 0) {
            locked = false;
            missing.push(refused);
        }
        let huge_pages = huge_pages.then(|| HugePages::find(&tree, memory_mib, placement.node));
        let huge_pages = huge_pages.and_then(|found| found.map_err(|shortfall| missing.push(shortfall)).ok());
        Plan { placement, locked, huge_pages, missing, wishes, memory_mib }
    }

    /// What QEMU is told of it.
    pub fn hardware(&self, accelerator: Accelerator) -> Hardware {
        Hardware {
            profile: self.wishes.profile,
            accelerator,
            memory_mib: self.memory_mib,
            huge_pages: self.huge_pages,
            locked: self.locked,
        }
    }
}
