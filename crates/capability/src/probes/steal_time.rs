use std::io;
use std::thread;
use std::time::{Duration, Instant};

use linux::cpus;
use linux::usage::{Of, usage};
use measure::Failure;
use rustix::param::clock_ticks_per_second;

use crate::files::text;
use crate::finding::Finding;

const STRETCH: Duration = Duration::from_millis(500);
/// A longest gap that a host's ordinary timers and interrupts stay below.
const QUIET_GAP: Duration = Duration::from_millis(1);

/// The observations of a thread on one CPU that only read the clock.
struct Stretch {
    cpu: usize,
    longest_gap: Duration,
    preemptions: u64,
}

/// Spins on every usable CPU for 500 ms and reports steal time, preemptions and the longest gap.
///
/// # Errors
/// The process's CPUs cannot be asked for, `/proc/stat` has no steal column for one of them, or a thread cannot be
/// bound to its CPU or panics.
pub fn run() -> Result<Finding, Failure> {
    let fail =
        |tried: &str, error: String| Failure::new(tried, error, "mount /proc, and allow sched_setaffinity");
    let cpus = cpus::usable().map_err(|error| fail("sched_getaffinity", error.to_string()))?;
    let stolen_before = stolen(&cpus).ok_or_else(|| fail("reading /proc/stat", "no steal column".into()))?;
    let threads: Vec<_> = cpus.iter().map(|&cpu| thread::spawn(move || spin(cpu))).collect();
    let mut stretches = Vec::new();
    for thread in threads {
        let stretch = thread.join().map_err(|_| fail("a thread on every CPU", "it panicked".into()))?;
        stretches.push(stretch.map_err(|error| fail("pinning a thread to every CPU", error.to_string()))?);
    }
    let ticks = stolen(&cpus).unwrap_or(stolen_before).saturating_sub(stolen_before);
    let spun = STRETCH.as_secs_f64() * cpus.len() as f64;
    let steal_percent = ticks as f64 / clock_ticks_per_second() as f64 / spun * 100.0;

    let worst = stretches.iter().max_by_key(|stretch| stretch.longest_gap);
    let worst = worst.ok_or_else(|| fail("sched_getaffinity", "no CPU".into()))?;
    let preemptions: u64 = stretches.iter().map(|stretch| stretch.preemptions).sum();
    let detail = format!(
        "{} CPUs spun for {} ms: steal {steal_percent:.1} % ({ticks} ticks), longest gap {:.3} ms on CPU {}, \
         preempted {preemptions} times by other work of this machine; {}",
        cpus.len(),
        STRETCH.as_millis(),
        worst.longest_gap.as_secs_f64() * 1e3,
        worst.cpu,
        hypervisor(),
    );
    Ok(if ticks == 0 && worst.longest_gap < QUIET_GAP {
        Finding::proven(detail)
    } else if preemptions > 0 && ticks == 0 {
        Finding::partial(detail, "stop other work on this machine, or isolate CPUs, and look again")
    } else {
        Finding::partial(
            detail,
            "gaps without preemption come from below: a hypervisor's other guests (ask for dedicated CPUs), \
             or firmware interrupts",
        )
    })
}

fn spin(cpu: usize) -> io::Result<Stretch> {
    cpus::bind(&[cpu])?;
    let preemptions_before = preemptions()?;
    let start = Instant::now();
    let (mut last, mut longest_gap) = (start, Duration::ZERO);
    while last - start < STRETCH {
        let now = Instant::now();
        longest_gap = longest_gap.max(now - last);
        last = now;
    }
    Ok(Stretch { cpu, longest_gap, preemptions: preemptions()? - preemptions_before })
}

fn preemptions() -> io::Result<u64> {
    usage(Of::Thread).map(|used| used.involuntary_switches)
}

/// Clock ticks of steal time, summed over these CPUs: the eighth number of a CPU's line in /proc/stat.
fn stolen(cpus: &[usize]) -> Option<u64> {
    let stat = text("/proc/stat");
    let of = |cpu: &usize| -> Option<u64> {
        let name = format!("cpu{cpu} ");
        stat.lines().find_map(|line| line.strip_prefix(&name))?.split_whitespace().nth(7)?.parse().ok()
    };
    cpus.iter().map(of).sum()
}

fn hypervisor() -> &'static str {
    let cpuinfo = text("/proc/cpuinfo");
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    if flags.split_whitespace().any(|flag| flag == "hypervisor") {
        "this machine is itself a guest; a hypervisor that reports no steal shows in the gap only"
    } else {
        "no hypervisor seen below"
    }
}
