//! The facts about the host's CPUs that placing threads requires.

use host::{CpuList, HostTree};
use measure::Failure;

/// The host's CPUs and memory nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCpus {
    /// CPUs that may be given to a guest.
    pub usable: CpuList,
    /// Usable CPUs that were isolated at boot (`isolcpus`): the scheduler places no thread there by itself.
    pub isolated: CpuList,
    /// Memory nodes by number, with their CPUs.
    pub nodes: Vec<(usize, CpuList)>,
    /// Whether the kernel is a real-time kernel, whose own threads must have a higher priority than vCPUs.
    pub real_time: bool,
}

impl HostCpus {
    /// Reads the CPUs of this machine. The usable CPUs are the CPUs of this process, the `named` CPUs, and the CPUs
    /// that were isolated at boot.
    ///
    /// # Errors
    /// The affinity of this process cannot be read, or a list of CPUs in `/sys/devices/system` is unreadable or not a
    /// list.
    pub fn here(named: &[usize]) -> Result<Self, Failure> {
        let own = linux::cpus::usable().map_err(|error| {
            Failure::new("asking for the CPUs that this process may use", error, "see that /proc is mounted")
        })?;
        Self::read(&HostTree::live(), &own.into_iter().chain(named.iter().copied()).collect())
    }

    /// The CPUs of a machine. `usable` are the CPUs that this process may use, without those isolated at boot.
    fn read(tree: &HostTree, usable: &CpuList) -> Result<Self, Failure> {
        let list = |path: &str| -> Result<CpuList, Failure> {
            match tree.read(path) {
                Err(unread) if unread.is_absent() => Ok(CpuList::default()),
                Err(unread) => Err(unread.failure()),
                Ok(text) => text.parse().map_err(|error| {
                    Failure::new(
                        format!("reading {path}"),
                        error,
                        "see what is in it; run on the host itself",
                    )
                }),
            }
        };
        let online = list("/sys/devices/system/cpu/online")?;
        let isolated = list("/sys/devices/system/cpu/isolated")?.and(&online);
        const NODES: &str = "/sys/devices/system/node";
        let mut nodes = Vec::new();
        for name in tree.names(NODES) {
            if let Some(number) = name.strip_prefix("node").and_then(|number| number.parse().ok()) {
                nodes.push((number, list(&format!("{NODES}/{name}/cpulist"))?));
            }
        }
        let real_time = tree.read("/sys/kernel/realtime").is_ok_and(|text| text == "1");
        Ok(HostCpus { usable: usable.or(&isolated), isolated, nodes, real_time })
    }

    /// The numbers of the memory nodes that these CPUs belong to; empty if the host has only one node.
    pub fn nodes_of(&self, cpus: &CpuList) -> Vec<usize> {
        let populated = self.nodes.iter().filter(|(_, of)| !of.is_empty());
        if populated.clone().count() < 2 {
            return Vec::new();
        }
        populated.filter(|(_, of)| !of.and(cpus).is_empty()).map(|(number, _)| *number).collect()
    }
}
