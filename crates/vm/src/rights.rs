//! Finds out, before anything is started, whether this process has the permissions that a profile requires.

use host::HostTree;
use linux::scheduler::{Policy, set};

use crate::Shortfall;

/// capability(7).
const CAP_IPC_LOCK: u32 = 14;

/// The shortfall if vCPUs cannot have this priority.
pub fn real_time(priority: i32) -> Option<Shortfall> {
    // Tried in a thread of its own, whose policy ends with it.
    let tried = std::thread::spawn(move || set(Policy::Fifo(priority))).join();
    let Ok(Err(error)) = tried else { return None };
    Some(Shortfall::new(
        format!("vCPUs in SCHED_FIFO at {priority}"),
        error,
        "whatever else runs on their CPUs interrupts the guest, for milliseconds at a time",
        "run as root (CAP_SYS_NICE), or raise the limit rtprio in limits.conf",
    ))
}

/// The shortfall if this process may not lock `needed_mib` MiB of memory. The limit holds for processes without
/// CAP_IPC_LOCK in the first user namespace (mlock(2)).
pub fn memory_limit(tree: &HostTree, needed_mib: u64) -> Option<Shortfall> {
    let line = |file: &str, key: &str| {
        let text = tree.read(file).unwrap_or_default();
        text.lines().find_map(|line| Some(line.strip_prefix(key)?.trim().to_owned()))
    };
    let capable = line("/proc/self/status", "CapEff:")
        .and_then(|mask| u64::from_str_radix(&mask, 16).ok())
        .is_some_and(|mask| mask >> CAP_IPC_LOCK & 1 == 1);
    let first_namespace = tree.read("/proc/self/uid_map").map_or(true, |map| map.contains("4294967295"));
    let limits = line("/proc/self/limits", "Max locked memory")?;
    let bytes = limits.split_whitespace().next().and_then(|soft| soft.parse::<u64>().ok());
    // A limit that is no number is the word `unlimited`.
    let enough = bytes.is_none_or(|bytes| bytes >> 20 > needed_mib);
    let allowed = enough || capable && first_namespace;
    (!allowed).then(|| {
        Shortfall::new(
            "memory locked",
            format!("{} KiB may be locked, the guest has {needed_mib} MiB", bytes.unwrap_or(0) >> 10),
            "pages may be taken away and come back by a fault, which stops a vCPU for up to a disk's access",
            "run as root (CAP_IPC_LOCK), or raise the limit memlock in limits.conf",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_on_locked_memory_is_said_unless_a_right_lifts_it() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("proc/self");
        std::fs::create_dir_all(&own).unwrap();
        let write = |name: &str, text: &str| std::fs::write(own.join(name), text).unwrap();
        let tree = HostTree::at(folder.path());
        write(
            "limits",
            "Limit  Soft Limit  Hard Limit  Units\nMax locked memory         8388608    8388608    bytes\n",
        );
        write("uid_map", "         0          0 4294967295\n");
        write("status", "CapEff:\t0000000000004000\n");
        assert_eq!(memory_limit(&tree, 512), None);
        write("status", "CapEff:\t0000000000000000\n");
        assert!(memory_limit(&tree, 512).unwrap().because.contains("8192 KiB"));
        assert_eq!(memory_limit(&tree, 4), None);
        // Root of a container's own users.
        write("status", "CapEff:\t0000000000004000\n");
        write("uid_map", "         0     100000      65536\n");
        assert!(memory_limit(&tree, 512).is_some());
        write("limits", "Max locked memory         unlimited    unlimited    bytes\n");
        assert_eq!(memory_limit(&tree, 512), None);
    }
}
