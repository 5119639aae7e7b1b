//! Decides, before anything is started, which of the profile's wishes a guest gets.

use host::{HostTree, threads};

use crate::arguments::Hardware;
use crate::{Accelerator, CpuWishes, HostCpus, HugePages, Placement, Shortfall, rights};

/// The wishes that the guest gets, and the wishes that it does not get.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The CPUs and the policy of the guest's threads.
    pub placement: Placement,
    /// Whether the guest's memory is locked.
    pub locked: bool,
    /// Huge pages for the guest's memory.
    pub huge_pages: Option<HugePages>,
    /// The wishes of the profile, or of the user, that this machine cannot satisfy.
    pub missing: Vec<Shortfall>,
    wishes: CpuWishes,
    memory_mib: u64,
}

impl Plan {
    /// Finds out which wishes this machine can satisfy. Memory is checked only if its size in MiB is given.
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

    /// The hardware that QEMU gets according to this plan.
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
