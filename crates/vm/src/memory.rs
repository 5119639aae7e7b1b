//! A guest's memory: its huge pages, and whether it is locked.

use host::HostTree;

use crate::Shortfall;

/// Huge pages from which a guest's memory is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugePages {
    /// The size of each page in KiB.
    pub kib: u64,
}

impl HugePages {
    /// The largest page size with enough free pages for `memory_mib` MiB, on one memory node if `node` names it. The
    /// memory must be a multiple of the page size.
    ///
    /// # Errors
    /// No page size has enough free huge pages there.
    pub fn find(tree: &HostTree, memory_mib: u64, node: Option<usize>) -> Result<Self, Shortfall> {
        let folder = match node {
            Some(node) => format!("/sys/devices/system/node/node{node}/hugepages"),
            None => "/sys/kernel/mm/hugepages".to_owned(),
        };
        let needed_kib = memory_mib << 10;
        let mut seen = Vec::new();
        // By the number in their names.
        for name in tree.names(&folder).iter().rev() {
            let kib =
                name.strip_prefix("hugepages-").and_then(|name| name.strip_suffix("kB")?.parse::<u64>().ok());
            let Some(kib) = kib.filter(|kib| *kib > 0) else { continue };
            let free = tree.read(&format!("{folder}/{name}/free_hugepages"));
            let free: u64 = free.ok().and_then(|text| text.parse().ok()).unwrap_or(0);
            if needed_kib.is_multiple_of(kib) && free.saturating_mul(kib) >= needed_kib {
                return Ok(HugePages { kib });
            }
            seen.push(format!("{free} of {} MiB are free", kib >> 10));
        }
        let on = node.map(|node| format!(" on node {node}")).unwrap_or_default();
        Err(Shortfall::new(
            format!("memory of {memory_mib} MiB from huge pages{on}"),
            if seen.is_empty() { "the kernel has none".into() } else { seen.join(", ") },
            "more misses of the TLB, each dearer in a guest than on the host",
            format!("`tautline host apply --rules huge-pages --guest-memory {memory_mib}M` reserves them"),
        ))
    }
}

/// The memory that a process has locked, in MiB; `None` if the process has ended.
pub fn locked_mib(tree: &HostTree, process: i32) -> Option<u64> {
    let status = tree.read(&format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? >> 10)
}

/// The shortfall of memory that is not locked.
pub(crate) fn not_locked(found_mib: u64, wanted_mib: Option<u64>) -> Shortfall {
    let wanted = wanted_mib.map(|mib| format!(" of {mib} MiB")).unwrap_or_default();
    Shortfall::new(
        "memory locked",
        format!("QEMU has {found_mib} MiB locked for a guest{wanted}"),
        "pages may be taken away and come back by a fault, which stops a vCPU for up to a disk's access",
        "it can be locked only as QEMU starts: -overcommit mem-lock=on, in libvirt <memoryBacking><locked/>",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_pages_of_which_there_are_enough() {
        let folder = tempfile::tempdir().unwrap();
        let tree = HostTree::at(folder.path());
        let free = |path: &str, kib: u64, count: u64| {
            let folder = folder.path().join(path).join(format!("hugepages-{kib}kB"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("free_hugepages"), format!("{count}\n")).unwrap();
        };
        assert!(HugePages::find(&tree, 512, None).unwrap_err().because.contains("none"));
        free("sys/kernel/mm/hugepages", 2048, 1024);
        free("sys/kernel/mm/hugepages", 1 << 20, 1);
        free("sys/devices/system/node/node1/hugepages", 2048, 100);
        assert_eq!(HugePages::find(&tree, 1024, None).unwrap().kib, 1 << 20);
        assert_eq!(HugePages::find(&tree, 2048, None).unwrap().kib, 2048, "one of 1 GiB is too few");
        assert_eq!(HugePages::find(&tree, 512, None).unwrap().kib, 2048, "no part of a page of 1 GiB");
        let error = HugePages::find(&tree, 512, Some(1)).unwrap_err();
        assert!(error.because.contains("100 of 2 MiB") && error.not_done.contains("node 1"), "{error}");
    }
}
