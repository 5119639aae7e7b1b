//! How CPUs and threads spent their time, as the kernel counts it for all users: `/proc/stat` and `/proc/PID/task`
//! (proc_stat(5), proc_pid_stat(5); `schedstat` in the kernel's sched-stats.rst).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// USER_HZ is 100 on every architecture that is supported.
const TICK_NS: u64 = 10_000_000;

/// Time of one or more CPUs since boot, by use, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTime {
    /// Time in user space, without guests.
    pub user_ns: u64,
    /// The kernel.
    pub system_ns: u64,
    /// Hardware interrupts.
    pub irq_ns: u64,
    /// Time in software interrupts, which do most of the network's receiving.
    pub softirq_ns: u64,
    /// Time in guests of this kernel.
    pub guest_ns: u64,
    /// Time that a hypervisor of this machine gave to other machines.
    pub steal_ns: u64,
}

impl CpuTime {
    /// The time of these CPUs together. `None` if the kernel does not report it.
    pub fn of(cpus: &[usize]) -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?, cpus)
    }

    fn parse(stat: &str, cpus: &[usize]) -> Option<Self> {
        let mut sum = CpuTime::default();
        let mut found = 0;
        for line in stat.lines() {
            let Some((name, ticks)) = line.split_once(' ') else { continue };
            let Some(cpu) = name.strip_prefix("cpu").and_then(|number| number.parse().ok()) else { continue };
            if !cpus.contains(&cpu) {
                continue;
            }
            let ticks: Vec<u64> =
                ticks.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
            // user nice system idle iowait irq softirq steal guest guest_nice; guests are in user and nice too.
            let &[user, nice, system, _, _, irq, softirq, steal, guest, guest_nice, ..] = ticks.as_slice()
            else {
                return None;
            };
            let guest = guest.saturating_add(guest_nice);
            let own = user.saturating_add(nice).saturating_sub(guest);
            let add = |to: &mut u64, ticks: u64| *to = to.saturating_add(ticks.saturating_mul(TICK_NS));
            add(&mut sum.user_ns, own);
            add(&mut sum.system_ns, system);
            add(&mut sum.irq_ns, irq);
            add(&mut sum.softirq_ns, softirq);
            add(&mut sum.guest_ns, guest);
            add(&mut sum.steal_ns, steal);
            found += 1;
        }
        (found == cpus.len()).then_some(sum)
    }

    /// The time since an earlier reading.
    pub fn since(self, before: Self) -> Self {
        CpuTime {
            user_ns: self.user_ns.saturating_sub(before.user_ns),
            system_ns: self.system_ns.saturating_sub(before.system_ns),
            irq_ns: self.irq_ns.saturating_sub(before.irq_ns),
            softirq_ns: self.softirq_ns.saturating_sub(before.softirq_ns),
            guest_ns: self.guest_ns.saturating_sub(before.guest_ns),
            steal_ns: self.steal_ns.saturating_sub(before.steal_ns),
        }
    }
}

/// Hardware and software interrupts of the machine since boot. 0 if the kernel does not report it.
pub fn interrupts() -> (u64, u64) {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = |name: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
    };
    (first("intr "), first("softirq "))
}

/// The CPU time and switches of a thread since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadTime {
    /// Its name.
    pub name: String,
    /// Time on a CPU, ns.
    pub cpu_ns: u64,
    /// The part of it that the kernel counts as user space, ns, in ticks.
    pub user_ns: u64,
    /// The part of it that the kernel counts as kernel, ns, in ticks.
    pub system_ns: u64,
    /// How often the thread went to sleep.
    pub voluntary_switches: u64,
    /// How often the thread was preempted.
    pub involuntary_switches: u64,
}

impl ThreadTime {
    /// The difference from an earlier reading.
    pub fn since(&self, before: &Self) -> Self {
        ThreadTime {
            name: self.name.clone(),
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            user_ns: self.user_ns.saturating_sub(before.user_ns),
            system_ns: self.system_ns.saturating_sub(before.system_ns),
            voluntary_switches: self.voluntary_switches.saturating_sub(before.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(before.involuntary_switches),
        }
    }
}

/// All threads of a process, by thread id. A thread that ends during the call is left out.
pub fn threads(process: u32) -> BTreeMap<u32, ThreadTime> {
    let folder = fs::read_dir(format!("/proc/{process}/task"));
    let tasks = folder.into_iter().flatten().flatten();
    tasks
        .filter_map(|task| {
            let id = task.file_name().to_str()?.parse().ok()?;
            Some((id, thread(&task.path())?))
        })
        .collect()
}

fn thread(task: &Path) -> Option<ThreadTime> {
    let read = |name: &str| fs::read_to_string(task.join(name)).ok();
    let stat = read("stat")?;
    // The name may hold anything, brackets too.
    let (name, fields) = stat.rsplit_once(')')?;
    let name = name.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    let (user_ns, system_ns) = (ticks(11).saturating_mul(TICK_NS), ticks(12).saturating_mul(TICK_NS));
    let exact = read("schedstat").and_then(|text| text.split_ascii_whitespace().next()?.parse().ok());
    let status = read("status").unwrap_or_default();
    let count = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
    };
    Some(ThreadTime {
        name,
        cpu_ns: exact.unwrap_or(user_ns.saturating_add(system_ns)),
        user_ns,
        system_ns,
        voluntary_switches: count("voluntary_ctxt_switches:"),
        involuntary_switches: count("nonvoluntary_ctxt_switches:"),
    })
}

/// Processes whose name begins with `beginning`, for kernel threads such as `vhost-` and `ksoftirqd/`.
pub fn processes_named(beginning: &str) -> Vec<u32> {
    let folder = fs::read_dir("/proc");
    let numbers =
        folder.into_iter().flatten().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers
        .filter(|process: &u32| {
            fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|name| name.starts_with(beginning))
        })
        .collect()
}

/// The children of a process.
pub fn children(process: u32) -> Vec<u32> {
    let lists = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let texts = lists.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    texts
        .flat_map(|text| {
            text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<_>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpus_that_are_asked_for_are_summed_and_guests_counted_once() {
        let stat =
            "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 100 5 50 9 9 1 3 7 40 1\ncpu1 10 0 5 9 9 0 1 0 0 0\nintr 55 1\n";
        let found = CpuTime::parse(stat, &[0, 1]).unwrap();
        let ticks = |n: u64| n * TICK_NS;
        let expected = CpuTime {
            user_ns: ticks(74),
            system_ns: ticks(55),
            irq_ns: ticks(1),
            softirq_ns: ticks(4),
            guest_ns: ticks(41),
            steal_ns: ticks(7),
        };
        assert_eq!(found, expected);
        assert_eq!(found.since(found), CpuTime::default());
        assert_eq!(CpuTime::parse(stat, &[2]), None);
        assert_eq!(CpuTime::parse("cpu0 1 2 3\n", &[0]), None);
        assert!(CpuTime::of(&[0]).is_some());
    }

    #[test]
    fn a_thread_that_works_is_seen_to_work() {
        let own = || threads(std::process::id());
        let before = own();
        let worker = std::thread::Builder::new().name("at (work".into()).spawn(|| {
            let start = std::time::Instant::now();
            while start.elapsed().as_millis() < 30 {}
            std::thread::sleep(std::time::Duration::from_secs(3600));
        });
        drop(worker);
        let found = loop {
            let after = own();
            let new = after.iter().find(|(id, _)| !before.contains_key(id));
            if let Some((_, thread)) =
                new.filter(|(_, thread)| thread.voluntary_switches > 0 && thread.cpu_ns > 0)
            {
                break thread.clone();
            }
        };
        assert_eq!(found.since(&ThreadTime::default()), found);
    }

    #[test]
    fn children_and_names_are_found() {
        let mut child = std::process::Command::new("sleep").arg("3600").spawn().unwrap();
        let named = || processes_named("sleep").contains(&child.id());
        while !named() {
            std::thread::yield_now();
        }
        assert!(children(std::process::id()).contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        let (hardware, software) = interrupts();
        assert!(hardware > 0 && software > 0);
    }
}
