//! Measures the disturbances during a stretch of time in which something is measured.
use std::time::{Duration, Instant};

use crate::noise::{Noise, NoiseProbe, Preemption};

/// A measurement of disturbances, from its start.
#[derive(Debug)]
pub struct Window {
    probe: NoiseProbe,
    /// The processes that are measured, and the CPU time that they had used at the start.
    processes: Vec<(u32, u64)>,
    begin: Instant,
}

impl Window {
    /// Starts a window. Starts the measurement; `processes` are the measured processes.
    pub fn start(processes: impl IntoIterator<Item = u32>) -> Self {
        let processes = processes.into_iter().map(|id| (id, cpu_ns(id))).collect();
        Window { probe: NoiseProbe::start(Preemption::NotCounted), processes, begin: Instant::now() }
    }

    /// Returns the length and the disturbances; the measured processes do not count as disturbances.
    pub fn finish(self) -> (Duration, Noise) {
        let length = self.begin.elapsed();
        let noise = self.probe.finish();
        let own_ns: u64 = self.processes.iter().map(|(id, before)| cpu_ns(*id).saturating_sub(*before)).sum();
        (length, Noise { other_load_ns: noise.other_load_ns.saturating_sub(own_ns), ..noise })
    }
}

/// The reason why a trial is invalid, if it is. CPU times have steps of 10 ms, so a small amount of other load is
/// normal.
pub fn disturbance(length: Duration, noise: &Noise) -> Option<String> {
    let load_limit_ns = length.as_nanos() as u64 / 10 + 30_000_000;
    if noise.steal_ns > 0 {
        return Some(format!("{} ms stolen", noise.steal_ns / 1_000_000));
    }
    if noise.other_load_ns > load_limit_ns {
        return Some(format!("{} ms of other load", noise.other_load_ns / 1_000_000));
    }
    (noise.clock_jump_ns > 1_000_000).then(|| "the clock was set".to_owned())
}

/// CPU time of all threads of a process so far; 0 where it cannot be read (proc_pid_stat(5)).
fn cpu_ns(id: u32) -> u64 {
    const TICK_NS: u64 = 10_000_000;
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
    fn own_processes_are_no_disturbance_and_steal_is() {
        let second = Duration::from_secs(1);
        let of = |noise: Noise| disturbance(second, &noise).unwrap_or_default();
        assert_eq!(of(Noise { other_load_ns: 40_000_000, ..Noise::default() }), "");
        assert_eq!(of(Noise { steal_ns: 10_000_000, ..Noise::default() }), "10 ms stolen");
        assert_eq!(of(Noise { other_load_ns: 200_000_000, ..Noise::default() }), "200 ms of other load");
        let begin = Instant::now();
        while cpu_ns(std::process::id()) == 0 {
            assert!(begin.elapsed() < Duration::from_secs(60), "no CPU time within a minute of work");
        }
    }
}
