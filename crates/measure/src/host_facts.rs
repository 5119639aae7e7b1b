//! Facts about the machine; every result includes them.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The facts about a machine that a reader needs to judge a figure. The texts are as the system returned them; an
/// empty text means that the fact could not be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    /// CPU model name.
    pub cpu_model: String,
    /// CPUs online.
    pub cpus_online: usize,
    /// The machine's architecture, as in `uname -m`.
    pub architecture: String,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Kernel release and version.
    pub kernel: String,
    /// Kernel command line.
    pub command_line: String,
    /// The hypervisor under which this machine itself runs, if it is known.
    pub hypervisor: String,
    /// Clock source in use.
    pub clocksource: String,
    /// Transparent huge pages mode.
    pub transparent_huge_pages: String,
    /// The CPU frequency governor; empty if there is none.
    pub governor: String,
    /// CPUs isolated from the scheduler.
    pub isolated_cpus: String,
    /// The mitigations: name and state of each.
    pub mitigations: Vec<(String, String)>,
    /// Name of the distribution.
    pub distribution: String,
}

impl HostFacts {
    /// Reads the facts of this machine. This function never fails: a fact that cannot be read stays empty, and
    /// outputs say so.
    pub fn gather() -> Self {
        let uname = rustix::system::uname();
        let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
        HostFacts {
            architecture: text(uname.machine()),
            kernel: format!("{} {}", text(uname.release()), text(uname.version())),
            ..Self::from_files(Path::new("/"))
        }
    }

    /// The part that comes from files, under `root`.
    fn from_files(root: &Path) -> Self {
        let read = |path: &str| -> String {
            // Lossy: a command line may hold any bytes.
            fs::read(root.join(path))
                .map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned())
                .unwrap_or_default()
        };
        let cpuinfo = read("proc/cpuinfo");
        HostFacts {
            cpu_model: cpu_model(&cpuinfo).unwrap_or_else(|| nul_free(read("proc/device-tree/model"))),
            cpus_online: match count_cpus(&read("sys/devices/system/cpu/online")) {
                0 => field_values(&cpuinfo, "processor").count(),
                online => online,
            },
            architecture: String::new(),
            memory_bytes: memory_bytes(&read("proc/meminfo")),
            kernel: String::new(),
            command_line: read("proc/cmdline"),
            hypervisor: hypervisor(&cpuinfo, &read),
            clocksource: read("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            transparent_huge_pages: bracketed(&read("sys/kernel/mm/transparent_hugepage/enabled")),
            governor: read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            isolated_cpus: read("sys/devices/system/cpu/isolated"),
            mitigations: mitigations(&root.join("sys/devices/system/cpu/vulnerabilities")),
            distribution: distribution(&read("etc/os-release")),
        }
    }
}

/// The values of a `key : value` field in the manner of /proc/cpuinfo.
fn field_values<'a>(text: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .filter(move |(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim())
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    // x86 and s390; PowerPC; RISC-V. Arm names no model, only numbers of the maker and the part.
    for key in ["model name", "cpu", "uarch"] {
        if let Some(model) = field_values(cpuinfo, key).find(|model| !model.is_empty()) {
            return Some(model.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    let implementer = field_values(cpuinfo, "CPU implementer").next()?;
    let part = field_values(cpuinfo, "CPU part").next()?;
    Some(format!("Arm, implementer {implementer}, part {part}"))
}

fn nul_free(text: String) -> String {
    text.trim_matches('\0').to_owned()
}

/// How many CPUs a list such as `0-3,8` names.
fn count_cpus(list: &str) -> usize {
    let range = |part: &str| -> Option<usize> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    list.split(',').filter_map(range).sum()
}

fn memory_bytes(meminfo: &str) -> u64 {
    let kib =
        field_values(meminfo, "MemTotal").next().and_then(|v| v.split_whitespace().next()?.parse().ok());
    kib.unwrap_or(0u64).saturating_mul(1024)
}

/// Only a CPU with the `hypervisor` flag is asked whose machine it is: bare metal has a DMI vendor too.
fn hypervisor(cpuinfo: &str, read: &impl Fn(&str) -> String) -> String {
    let sysfs = read("sys/hypervisor/type");
    if !sysfs.is_empty() {
        return sysfs;
    }
    let flagged =
        field_values(cpuinfo, "flags").next().is_some_and(|f| f.split(' ').any(|flag| flag == "hypervisor"));
    if !flagged {
        return String::new();
    }
    let dmi = ["sys/class/dmi/id/sys_vendor", "sys/class/dmi/id/product_name"].map(read);
    let named = dmi.join(" ").trim().to_owned();
    if named.is_empty() { "an unnamed hypervisor".into() } else { named }
}

/// The choice in a line such as `always [madvise] never`.
fn bracketed(text: &str) -> String {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(text, |(choice, _)| choice).to_owned()
}

fn mitigations(folder: &Path) -> Vec<(String, String)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut all: Vec<(String, String)> = entries
        .flatten()
        .filter_map(|entry| {
            let state = fs::read_to_string(entry.path()).ok()?;
            Some((entry.file_name().to_string_lossy().into_owned(), state.trim().to_owned()))
        })
        .collect();
    all.sort();
    all
}

fn distribution(os_release: &str) -> String {
    let value = |key: &str| {
        let line = os_release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        Some(line.trim().trim_matches(['"', '\'']).to_owned())
    };
    value("PRETTY_NAME").or_else(|| value("NAME")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> HostFacts {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        HostFacts::from_files(root.path())
    }

    #[test]
    fn a_virtual_x86_machine() {
        let facts = machine(&[
            (
                "proc/cpuinfo",
                "processor\t: 0\nmodel name\t: A  CPU @ 2.10GHz\nflags\t\t: fpu hypervisor lm\n",
            ),
            ("proc/meminfo", "MemTotal:        1024 kB\nMemFree: 1 kB\n"),
            ("proc/cmdline", "root=/dev/vda quiet\n"),
            ("sys/devices/system/cpu/online", "0-3,8\n"),
            ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
            ("sys/devices/system/cpu/vulnerabilities/spectre_v2", "Mitigation: IBRS\n"),
            ("sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected\n"),
            ("etc/os-release", "NAME=\"D\"\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n"),
        ]);
        assert_eq!(facts.cpu_model, "A CPU @ 2.10GHz");
        assert_eq!((facts.cpus_online, facts.memory_bytes), (5, 1 << 20));
        assert_eq!((facts.hypervisor.as_str(), facts.transparent_huge_pages.as_str()), ("QEMU", "madvise"));
        assert_eq!(facts.distribution, "Debian GNU/Linux 12");
        assert_eq!(facts.command_line, "root=/dev/vda quiet");
        assert_eq!(facts.mitigations[0], ("meltdown".to_owned(), "Not affected".to_owned()));
    }

    #[test]
    fn bare_metal_names_no_hypervisor_and_an_arm_core_its_numbers() {
        let facts = machine(&[
            ("proc/cpuinfo", "processor : 0\nCPU implementer : 0x41\nCPU part : 0xd0c\nprocessor : 1\n"),
            ("sys/class/dmi/id/sys_vendor", "Vendor\n"),
        ]);
        assert_eq!(facts.cpu_model, "Arm, implementer 0x41, part 0xd0c");
        assert_eq!((facts.hypervisor.as_str(), facts.cpus_online), ("", 2));
    }

    #[test]
    fn nothing_readable_gives_empty_facts_and_no_failure() {
        assert_eq!(machine(&[]), HostFacts::default());
        assert_eq!(
            machine(&[("sys/devices/system/cpu/online", "9-3,x"), ("proc/meminfo", "MemTotal: z")]),
            HostFacts::default()
        );
    }

    #[test]
    fn this_machine_says_something() {
        let facts = HostFacts::gather();
        assert!(facts.cpus_online > 0 && facts.memory_bytes > 0 && !facts.kernel.is_empty(), "{facts:?}");
        assert!(!facts.architecture.is_empty());
    }
}
