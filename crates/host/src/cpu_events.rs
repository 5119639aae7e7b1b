//! Events that interrupted the work of some CPUs: interrupts, soft interrupts and context switches, as the kernel
//! counts them.

use super::counters::parse_interrupts;
use super::cpu_list::CpuList;
use super::tree::HostTree;

/// Counts since boot, summed over the CPUs; an error text if the kernel does not provide the count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuEvents {
    /// Interrupts without those of the CPU's own timer.
    pub interrupts: Result<u64, String>,
    /// Interrupts of the CPU's own timer: ticks, and timers of sleeping threads.
    pub timer: Result<u64, String>,
    /// Soft interrupts.
    pub softirqs: Result<u64, String>,
    /// Switches to a task; switches to the idle task are left out.
    pub switches: Result<u64, String>,
}

impl CpuEvents {
    /// Reads them.
    pub fn of(tree: &HostTree, cpus: &CpuList) -> Self {
        let read = |path: &str| tree.read(path).map_err(|unread| unread.to_string());
        let interrupts = read("/proc/interrupts").map(|text| parse_interrupts(&text, cpus));
        // x86 calls it LOC; Arm's is a line of the architected timer.
        let is_timer = |name: &str| name.starts_with("LOC") || name.contains("arch_timer");
        let sum = |timers: bool| {
            let counts = interrupts.clone()?;
            Ok(counts.iter().filter(|(name, _)| is_timer(name) == timers).map(|(_, count)| count).sum())
        };
        CpuEvents {
            interrupts: sum(false),
            timer: sum(true),
            softirqs: read("/proc/softirqs").map(|text| parse_interrupts(&text, cpus).values().sum()),
            switches: read("/proc/schedstat").and_then(|text| switches(&text, cpus)),
        }
    }

    /// The counts since an earlier reading.
    pub fn since(&self, before: &Self) -> Self {
        let difference = |after: &Result<u64, String>, before: &Result<u64, String>| {
            Ok(after.clone()?.saturating_sub(before.clone()?))
        };
        CpuEvents {
            interrupts: difference(&self.interrupts, &before.interrupts),
            timer: difference(&self.timer, &before.timer),
            softirqs: difference(&self.softirqs, &before.softirqs),
            switches: difference(&self.switches, &before.switches),
        }
    }
}

/// `cpu2 … TIMESLICES`: the kernel's Documentation/scheduler/sched-stats.rst, the ninth and last field.
fn switches(text: &str, cpus: &CpuList) -> Result<u64, String> {
    let mut sum = None;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(cpu) = words.next().and_then(|word| word.strip_prefix("cpu")?.parse().ok()) else {
            continue;
        };
        if let Some(count) = words.nth(8).and_then(|word| word.parse::<u64>().ok())
            && cpus.contains(cpu)
        {
            *sum.get_or_insert(0) += count;
        }
    }
    sum.ok_or_else(|| "reading /proc/schedstat: it does not tell of these CPUs".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, HostTree) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("proc")).unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join("proc").join(name), text).unwrap();
        }
        let tree = HostTree::at(folder.path());
        (folder, tree)
    }

    #[test]
    fn events_of_some_cpus_are_summed_and_the_timer_stands_apart() {
        let interrupts = "           CPU0       CPU1       CPU2\n 24:          5          7          9   PCI-MSI 1-edge  eth0\n\
            LOC:        100        200        300   Local timer interrupts\nRES:          1          2          3   Rescheduling interrupts\n\
            ERR:          0\n";
        let softirqs = "                    CPU0       CPU1       CPU2\n          HI:          1          1          1\n       TIMER:         10         20         30\n";
        let schedstat = "version 15\ntimestamp 4294937439\ncpu0 0 0 0 0 0 0 11 12 13\ndomain0 3 0 0\n\
            cpu1 0 0 0 0 0 0 21 22 23\ncpu2 0 0 0 0 0 0 31 32 33\n";
        let (_folder, tree) =
            tree(&[("interrupts", interrupts), ("softirqs", softirqs), ("schedstat", schedstat)]);
        let events = CpuEvents::of(&tree, &"1-2".parse().unwrap());
        assert_eq!(
            events,
            CpuEvents {
                interrupts: Ok(7 + 9 + 2 + 3),
                timer: Ok(500),
                softirqs: Ok(1 + 1 + 20 + 30),
                switches: Ok(23 + 33)
            }
        );
        assert_eq!(events.since(&events).timer, Ok(0));
    }

    #[test]
    fn what_the_kernel_does_not_tell_is_told_with_its_reason() {
        let (_folder, tree) = tree(&[("interrupts", "CPU0\nLOC: 1\n"), ("schedstat", "version 15\n")]);
        let events = CpuEvents::of(&tree, &"0".parse().unwrap());
        assert!(events.softirqs.as_ref().unwrap_err().contains("/proc/softirqs"), "{events:?}");
        assert!(events.switches.as_ref().unwrap_err().contains("schedstat"), "{events:?}");
        assert!(events.since(&events).softirqs.is_err());
        assert_eq!(events.timer, Ok(1));
    }
}
