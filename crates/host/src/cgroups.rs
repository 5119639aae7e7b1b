//! CPUs that cgroups (v2) set aside: see cpuset in the kernel's Documentation/admin-guide/cgroup-v2.rst.

use super::cpu_list::CpuList;
use super::tree::HostTree;

/// The root of the cgroup hierarchy.
pub const ROOT: &str = "/sys/fs/cgroup";

/// The CPUs of all isolated partitions.
pub fn isolated(tree: &HostTree) -> CpuList {
    // Linux 6.7 says it in one file.
    if let Ok(text) = tree.read(&format!("{ROOT}/cpuset.cpus.isolated")) {
        return text.parse().unwrap_or_default();
    }
    partitions(tree).iter().fold(CpuList::default(), |all, (_, cpus)| all.or(cpus))
}

/// The cgroup whose isolated partition has this CPU: a process that is to run on the CPU must be moved to this
/// cgroup.
pub fn partition_of(tree: &HostTree, cpu: usize) -> Option<String> {
    let found = partitions(tree).into_iter().rfind(|(_, cpus)| cpus.contains(cpu));
    found.map(|(folder, _)| folder)
}

/// Every isolated partition, however deep: its cgroup's folder and CPUs. Parents come before their children.
fn partitions(tree: &HostTree) -> Vec<(String, CpuList)> {
    let mut found = Vec::new();
    let mut left = vec![ROOT.to_owned()];
    while let Some(folder) = left.pop() {
        for name in tree.folders(&folder).into_iter().rev() {
            let child = format!("{folder}/{name}");
            // Only cgroups whose parent enables cpuset for them have this file, and only below these can be others.
            let Ok(partition) = tree.read(&format!("{child}/cpuset.cpus.partition")) else { continue };
            if partition == "isolated" {
                let own = tree.read(&format!("{child}/cpuset.cpus.effective"));
                let own = own.or_else(|_| tree.read(&format!("{child}/cpuset.cpus")));
                let cpus = own.ok().and_then(|text| text.parse().ok()).unwrap_or_default();
                found.push((child.clone(), cpus));
            }
            left.push(child);
        }
    }
    found
}
