//! Facts about the agent's environment.

use std::fs;

use linux::cpus;
use linux::scheduler::{self, Policy};
use rustix::mm::{MlockAllFlags, mlockall, munlockall};
use rustix::process::getuid;
use rustix::system::uname;

use crate::pin;
use crate::protocol::AgentFacts;

/// Gathers the facts. Must be called before threads are bound and memory is mapped.
pub(crate) fn gather() -> AgentFacts {
    let name = uname();
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    AgentFacts {
        kernel: format!("{} {}", name.release().to_string_lossy(), name.version().to_string_lossy()),
        cpu_model: field(&cpuinfo, "model name").unwrap_or_default(),
        command_line: text("/proc/cmdline"),
        cpus_online: cpus::parse(&text("/sys/devices/system/cpu/online")).map_or(0, |online| online.len()),
        cpus_usable: pin::usable_cpus(),
        clocksource: text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        memory_bytes: meminfo_bytes("MemTotal").unwrap_or(0),
        memory_available_bytes: meminfo_bytes("MemAvailable").unwrap_or(0),
        page_bytes: page_bytes() as u64,
        huge_page_bytes: huge_page_bytes().unwrap_or(0) as u64,
        transparent_huge_pages: text("/sys/kernel/mm/transparent_hugepage/enabled"),
        uid: getuid().as_raw(),
        pid: std::process::id().cast_signed(),
        can_fifo: scheduler::set(Policy::Fifo(1)).is_ok() && scheduler::set(Policy::Normal).is_ok(),
        can_lock_memory: mlockall(MlockAllFlags::CURRENT).is_ok() && munlockall().is_ok(),
    }
}

/// The size of a small page in bytes.
pub(crate) fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// The size of a transparent huge page in bytes; `None` if the kernel has none.
pub(crate) fn huge_page_bytes() -> Option<usize> {
    text("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size").parse().ok()
}

/// The value of a line of `/proc/meminfo`, in bytes.
pub(crate) fn meminfo_bytes(name: &str) -> Option<u64> {
    kib_field(&fs::read_to_string("/proc/meminfo").ok()?, name)
}

/// The value of `name: 123 kB`, in bytes.
pub(crate) fn kib_field(text: &str, name: &str) -> Option<u64> {
    Some(field(text, name)?.strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}

fn field(text: &str, name: &str) -> Option<String> {
    let of_line = |line: &str| {
        let (key, value) = line.split_once(':')?;
        (key.trim_end() == name).then(|| value.trim().to_owned())
    };
    text.lines().find_map(of_line)
}

pub(crate) fn text(path: &str) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_proc_files_are_found() {
        let text = "MemTotal:       16384 kB\nMemFree: 1 kB\nmodel name\t: A B\n";
        assert_eq!(kib_field(text, "MemTotal"), Some(16 << 20));
        assert_eq!(field(text, "model name").as_deref(), Some("A B"));
        assert_eq!(kib_field(text, "model name"), None);
        assert_eq!(kib_field(text, "Mem"), None);
    }

    #[test]
    fn this_machine_has_facts() {
        let facts = gather();
        assert!(facts.cpus_online >= 1 && !facts.cpus_usable.is_empty());
        assert!(facts.page_bytes.is_power_of_two() && facts.memory_bytes > 0 && !facts.kernel.is_empty());
    }
}
