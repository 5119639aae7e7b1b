//! CPUs that cgroups (v2) set aside: the kernel's Documentation/admin-guide/cgroup-v2.rst, cpuset.

use super::cpu_list::CpuList;
use super::tree::HostTree;

/// The root of the hierarchy.
pub const ROOT: &str = "/sys/fs/cgroup";
/// Nobody nests them deeper by hand; service managers do, and set nothing aside there.
const DEEPEST: usize = 3;

/// The CPUs of all isolated partitions.
pub fn isolated(tree: &HostTree) -> CpuList {
    // Linux 6.7 says it in one file.
    if let Ok(text) = tree.read(&format!("{ROOT}/cpuset.cpus.isolated")) {
        return text.parse().unwrap_or_default();
    }
    below(tree, ROOT, DEEPEST)
}

/// The cgroup whose isolated partition has this CPU: what is to run on it must be put there.
pub fn partition_of(tree: &HostTree, cpu: usize) -> Option<String> {
    let mut found = None;
    partitions(tree, ROOT, DEEPEST, &mut |folder, cpus| {
        if cpus.contains(cpu) {
            found = Some(folder.to_owned());
        }
    });
    found
}

fn below(tree: &HostTree, folder: &str, depth: usize) -> CpuList {
    let mut all = CpuList::default();
    partitions(tree, folder, depth, &mut |_, cpus| all = all.or(cpus));
    all
}

/// Calls for every isolated partition with its folder and CPUs.
fn partitions(tree: &HostTree, folder: &str, depth: usize, seen: &mut dyn FnMut(&str, &CpuList)) {
    if depth == 0 {
        return;
    }
    for name in tree.names(folder) {
        let child = format!("{folder}/{name}");
        // Only cgroups have this file.
        let Ok(partition) = tree.read(&format!("{child}/cpuset.cpus.partition")) else { continue };
        if partition == "isolated" {
            let own = tree.read(&format!("{child}/cpuset.cpus.effective"));
            let own = own.or_else(|_| tree.read(&format!("{child}/cpuset.cpus")));
            seen(&child, &own.ok().and_then(|text| text.parse().ok()).unwrap_or_default());
        }
        partitions(tree, &child, depth - 1, seen);
    }
}
