//! Reads counters on the CPUs that are set aside, over a stretch of time: interrupts, and system management
//! interrupts.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use super::cpu_list::CpuList;
use super::tree::HostTree;

/// Intel: MSR_SMI_COUNT.
const SMI_COUNT: u64 = 0x34;

/// The counts of one stretch of time.
pub struct Watched {
    /// The length of the stretch.
    pub time: Duration,
    /// Interrupts on these CPUs, by source; sources without an interrupt are left out.
    pub interrupts: Result<BTreeMap<String, u64>, String>,
    /// System management interrupts on these CPUs.
    pub firmware: Result<u64, String>,
}

impl Watched {
    /// Watches the counters of a live host; returns `None` for a recorded host, whose counters do not change.
    pub fn over(tree: &HostTree, cpus: &CpuList, time: Duration) -> Option<Self> {
        if !tree.is_live() || time.is_zero() || cpus.is_empty() {
            return None;
        }
        let (interrupts, firmware) = (read_interrupts(tree, cpus), read_firmware(tree, cpus));
        thread::sleep(time);
        Some(Watched {
            time,
            interrupts: difference(interrupts, read_interrupts(tree, cpus)),
            firmware: match (firmware, read_firmware(tree, cpus)) {
                (Ok(before), Ok(after)) => Ok(after.saturating_sub(before)),
                (Err(error), _) | (_, Err(error)) => Err(error),
            },
        })
    }
}

type Counts = Result<BTreeMap<String, u64>, String>;

fn difference(before: Counts, after: Counts) -> Counts {
    let before = before?;
    let mut rest = after?;
    for (name, count) in &mut rest {
        *count = count.saturating_sub(before.get(name).copied().unwrap_or(0));
    }
    rest.retain(|_, count| *count > 0);
    Ok(rest)
}

fn read_interrupts(tree: &HostTree, cpus: &CpuList) -> Counts {
    let text = tree.read("/proc/interrupts").map_err(|unread| unread.to_string())?;
    Ok(parse_interrupts(&text, cpus))
}

/// The number of interrupts on these CPUs, by the line's name and description.
pub fn parse_interrupts(text: &str, cpus: &CpuList) -> BTreeMap<String, u64> {
    let mut lines = text.lines();
    // CPU0 CPU1 …: those that are online.
    let columns: Vec<usize> = lines
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("CPU")?.parse().ok())
        .collect();
    let mut counts = BTreeMap::new();
    for line in lines {
        let Some((name, rest)) = line.split_once(':') else { continue };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let numbers = words.iter().map_while(|word| word.parse::<u64>().ok());
        let here = columns.iter().zip(numbers).filter(|(cpu, _)| cpus.contains(**cpu));
        let sum = here.map(|(_, count)| count).sum();
        let about = words.get(columns.len()..).unwrap_or_default().join(" ");
        counts.insert(format!("{} {about}", name.trim()).trim_end().to_owned(), sum);
    }
    counts
}

fn read_firmware(tree: &HostTree, cpus: &CpuList) -> Result<u64, String> {
    let counts = cpus.iter().map(|cpu| tree.register(cpu, SMI_COUNT));
    counts.sum::<Result<u64, _>>().map_err(|unread| unread.to_string())
}
