//! A stretch of time in which something is measured, and what disturbed it.
use std::time::{Duration, Instant};

use measure::{Noise, NoiseProbe, Preemption};

/// Watches from its start on.
pub struct Window {
    probe: NoiseProbe,
    /// The processes that are measured, and the CPU time that they had used.
    processes: Vec<(u32, u64)>,
    softirqs: Option<Softirqs>,
    begin: Instant,
}

/// Processes whose work goes on in softirqs of the CPUs that they are pinned to.
struct Softirqs {
    processes: Vec<u32>,
    cpus: Vec<usize>,
    /// CPU time of the processes, and of softirqs on the CPUs.
    before: [u64; 2],
}

impl Softirqs {
    fn now(processes: &[u32], cpus: &[usize]) -> [u64; 2] {
        [processes.iter().map(|id| cpu_ns(*id)).sum(), cpus.iter().map(|cpu| softirq_ns(*cpu)).sum()]
    }

    /// What softirqs add to the time of the processes since then.
    fn since(&self, length_ns: u64) -> u64 {
        let now = Softirqs::now(&self.processes, &self.cpus);
        let [own_ns, softirq_ns] = [0, 1].map(|i| now[i].saturating_sub(self.before[i]));
        of_softirqs(length_ns * self.cpus.len() as u64, own_ns, softirq_ns)
    }
}

impl Window {
    pub fn start(processes: impl IntoIterator<Item = u32>) -> Self {
        let processes = processes.into_iter().map(|id| (id, cpu_ns(id))).collect();
        let probe = NoiseProbe::start(Preemption::NotCounted);
        Window { probe, processes, softirqs: None, begin: Instant::now() }
    }

    /// Softirqs on these CPUs, to which these processes are pinned, are no disturbance either: they do their
    /// work.
    pub fn with_softirqs_of(self, processes: Vec<u32>, cpus: Vec<usize>) -> Self {
        let before = Softirqs::now(&processes, &cpus);
        Window { softirqs: Some(Softirqs { processes, cpus, before }), ..self }
    }

    /// How long it was, and what disturbed it: the measured processes are no disturbance.
    pub fn finish(self) -> (Duration, Noise) {
        let length = self.begin.elapsed();
        let noise = self.probe.finish();
        let own_ns: u64 = self.processes.iter().map(|(id, before)| cpu_ns(*id).saturating_sub(*before)).sum();
        let other_load_ns = noise.other_load_ns.saturating_sub(own_ns);
        let softirq_ns = self.softirqs.map_or(0, |softirqs| softirqs.since(length.as_nanos() as u64));
        (length, Noise { other_load_ns: other_load_ns.saturating_sub(softirq_ns), ..noise })
    }
}

/// What softirqs add to the time of the processes whose work they do. A kernel with CONFIG_IRQ_TIME_ACCOUNTING
/// keeps their time apart; any other counts it as the process's too, and there both do not fit into the window.
fn of_softirqs(length_ns: u64, process_ns: u64, softirq_ns: u64) -> u64 {
    softirq_ns.min(length_ns.saturating_sub(process_ns))
}

/// Why these figures cannot be trusted, if so. CPU times are in steps of 10 ms, so some of them is normal.
pub fn disturbance(length: Duration, noise: &Noise) -> Option<String> {
    let length_ns = length.as_nanos() as u64;
    let load_limit_ns = length_ns / 10 + 30_000_000;
    if noise.steal_ns > 0 {
        return Some(format!("{} ms stolen", noise.steal_ns / 1_000_000));
    }
    if noise.other_load_ns > load_limit_ns {
        return Some(format!("{} ms of other load", noise.other_load_ns / 1_000_000));
    }
    (noise.clock_jump_ns > 1_000_000).then(|| "the clock was set".to_owned())
}

/// CPU times are in steps of this.
const TICK_NS: u64 = 10_000_000;

/// Time of softirqs on a CPU so far; 0 where it cannot be read (proc_stat(5)).
fn softirq_ns(cpu: usize) -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    softirq_ticks(&stat, cpu).unwrap_or(0) * TICK_NS
}

fn softirq_ticks(stat: &str, cpu: usize) -> Option<u64> {
    let name = format!("cpu{cpu} ");
    let words = stat.lines().find_map(|line| line.strip_prefix(&name))?;
    // user nice system idle iowait irq softirq
    words.split_ascii_whitespace().nth(6)?.parse().ok()
}

/// CPU time of all threads of a process so far; 0 where it cannot be read (proc_pid_stat(5)).
fn cpu_ns(id: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // The name in parentheses may hold spaces.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = rest.split_ascii_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok());
    ticks.sum::<u64>() * TICK_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softirqs_are_counted_once() {
        let stat = "cpu  9 9 9 9 9 9 9 9\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu10 1 2 3 4 5 6 70 8 0 0\n";
        assert_eq!([0, 10, 1].map(|cpu| softirq_ticks(stat, cpu)), [Some(7), Some(70), None]);
        // Kept apart: 60 of the process and 40 of softirqs fill the window.
        assert_eq!(of_softirqs(100, 60, 40), 40);
        // In the process's time already.
        assert_eq!(of_softirqs(100, 100, 40), 0);
        // Rounded up to steps.
        assert_eq!(of_softirqs(100, 110, 40), 0);
    }

    #[test]
    fn own_processes_are_no_disturbance_and_steal_is() {
        let calm = Noise { other_load_ns: 40_000_000, ..Noise::default() };
        let second = Duration::from_secs(1);
        assert_eq!(disturbance(second, &calm), None);
        let stolen = Noise { steal_ns: 10_000_000, ..Noise::default() };
        assert!(disturbance(second, &stolen).unwrap().contains("10 ms stolen"));
        let loaded = Noise { other_load_ns: 200_000_000, ..Noise::default() };
        assert!(disturbance(second, &loaded).unwrap().contains("200 ms"));
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(50) {
            std::hint::spin_loop();
        }
        assert!(cpu_ns(std::process::id()) > 0);
    }
}
