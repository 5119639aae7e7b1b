//! Measures the noise around a trial.

use linux::usage::{Of, usage};
use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::{Deserialize, Serialize};

/// The disturbances during a stretch of time. A count that an environment cannot read is 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// The steal time over all CPUs, in ns (in steps of 10 ms, as in `/proc/stat`).
    pub steal_ns: u64,
    /// The number of times that the measured threads were preempted.
    pub involuntary_switches: u64,
    /// The CPU time that belongs neither to the measured work nor to idle, in ns.
    pub other_load_ns: u64,
    /// The change of CLOCK_REALTIME relative to CLOCK_MONOTONIC, in ns.
    pub clock_jump_ns: u64,
    /// The CPUs of the trial whose SMT siblings were busy before or after it ([`crate::siblings`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbed_cpus: Vec<usize>,
    /// The number of periods in which the environment had used up its CPU quota ([`crate::quota`]). This is not a
    /// disturbance: the quota belongs to the environment.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub throttled_periods: u64,
    /// The time that the environment's CPUs waited for the next period, in ns.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub throttled_ns: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The threads whose preemptions count as noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// Preemptions of every thread of this process. For work in which no thread waits for another thread's CPU.
    OfProcess,
    /// Preemptions of the calling thread only.
    OfThread,
    /// No preemptions: the work itself passes one CPU from process to process, so that preemptions are part of it.
    NotCounted,
}

/// Measures the noise of a stretch of time: start the probe, do the work, finish the probe. A count that cannot be
/// read is 0.
#[derive(Debug)]
pub struct NoiseProbe {
    preemption: Preemption,
    before: Reading,
}

impl NoiseProbe {
    /// Starts the measurement.
    pub fn start(preemption: Preemption) -> Self {
        NoiseProbe { preemption, before: Reading::now(preemption) }
    }

    /// Returns the noise since the start. The CPU time of child processes counts as own work once they are waited
    /// for.
    pub fn finish(self) -> Noise {
        self.before.until(&Reading::now(self.preemption))
    }
}

/// Counters at one instant.
#[derive(Clone, Debug, Default, PartialEq)]
struct Reading {
    cpu: Option<CpuTime>,
    own_ns: u64,
    involuntary_switches: u64,
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC.
    offset_ns: i128,
}

impl Reading {
    fn now(preemption: Preemption) -> Self {
        let used = |of| usage(of).ok();
        let (own, children) = (used(Of::Process), used(Of::Children));
        let switching = match preemption {
            Preemption::OfProcess => own,
            Preemption::OfThread => used(Of::Thread),
            Preemption::NotCounted => None,
        };
        Reading {
            // With a great many CPUs the file is long; the line wanted is the first.
            cpu: std::fs::read_to_string("/proc/stat").ok().and_then(|text| CpuTime::parse(&text)),
            own_ns: [own, children].iter().flatten().map(|used| used.cpu_time.as_nanos() as u64).sum(),
            involuntary_switches: switching.map_or(0, |used| used.involuntary_switches),
            offset_ns: clock_offset_ns(),
        }
    }

    fn until(&self, after: &Reading) -> Noise {
        let cpu = |field: fn(&CpuTime) -> u64| match (&self.cpu, &after.cpu) {
            (Some(before), Some(after)) => field(after).saturating_sub(field(before)),
            _ => 0,
        };
        let own_ns = after.own_ns.saturating_sub(self.own_ns);
        let jump_ns = (after.offset_ns - self.offset_ns).unsigned_abs();
        Noise {
            steal_ns: cpu(|time| time.steal_ns),
            involuntary_switches: after.involuntary_switches.saturating_sub(self.involuntary_switches),
            other_load_ns: cpu(|time| time.busy_ns).saturating_sub(own_ns),
            clock_jump_ns: u64::try_from(jump_ns).unwrap_or(u64::MAX),
            ..Noise::default()
        }
    }
}

/// Time of all CPUs together since boot, from the first line of `/proc/stat` (proc_stat(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CpuTime {
    busy_ns: u64,
    steal_ns: u64,
}

impl CpuTime {
    fn parse(stat: &str) -> Option<Self> {
        let mut words = stat.lines().next()?.split_ascii_whitespace();
        if words.next() != Some("cpu") {
            return None;
        }
        // user nice system idle iowait irq softirq steal; guest time is in user already.
        let ticks = words.take(8).map(|word| word.parse::<u64>().ok()).collect::<Option<Vec<_>>>()?;
        let &[user, nice, system, _idle, _iowait, irq, softirq, steal] = ticks.as_slice() else {
            return None;
        };
        let busy_ns = (user + nice + system + irq + softirq) * TICK_NS;
        Some(CpuTime { busy_ns, steal_ns: steal * TICK_NS })
    }
}

/// USER_HZ is 100 on every architecture that this project supports.
const TICK_NS: u64 = 10_000_000;

fn clock_offset_ns() -> i128 {
    let ns = |clock| {
        let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
        i128::from(tv_sec) * 1_000_000_000 + i128::from(tv_nsec)
    };
    // The reading with the least delay between the two clocks, so that a preemption is not taken for a jump.
    let read = || {
        let (before, real, after) = (ns(ClockId::Monotonic), ns(ClockId::Realtime), ns(ClockId::Monotonic));
        (after - before, real - (before + after) / 2)
    };
    (0..3).map(|_| read()).min().map_or(0, |(_, offset)| offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  100 5 50 9000 7 2 3 11 40 0\ncpu0 100 5 50 9000 7 2 3 11 40 0\nintr 1\n";

    #[test]
    fn the_first_line_of_proc_stat_is_understood() {
        let time = CpuTime::parse(STAT).unwrap();
        assert_eq!(time, CpuTime { busy_ns: 160 * TICK_NS, steal_ns: 11 * TICK_NS });
        for garbage in ["", "cpu\n", "cpu 1 2 3\n", "cpu a b c d e f g h\n", "intr 1 2 3 4 5 6 7 8\n"] {
            assert_eq!(CpuTime::parse(garbage), None, "{garbage:?}");
        }
    }

    #[test]
    fn differences_leave_out_own_work_and_never_go_below_zero() {
        let before = Reading {
            cpu: Some(CpuTime { busy_ns: 100, steal_ns: 10 }),
            own_ns: 40,
            involuntary_switches: 3,
            offset_ns: 1_000,
        };
        let after = Reading {
            cpu: Some(CpuTime { busy_ns: 180, steal_ns: 12 }),
            own_ns: 70,
            involuntary_switches: 5,
            offset_ns: 400,
        };
        let noise = before.until(&after);
        let expected = Noise {
            steal_ns: 2,
            involuntary_switches: 2,
            other_load_ns: 50,
            clock_jump_ns: 600,
            ..Noise::default()
        };
        assert_eq!(noise, expected);
        assert_eq!(after.until(&before), Noise { clock_jump_ns: 600, ..Noise::default() });
        assert_eq!(Reading::default().until(&after).other_load_ns, 0);
    }

    #[test]
    fn own_work_is_seen_as_own() {
        let probe = NoiseProbe::start(Preemption::OfThread);
        let own_ns = probe.before.own_ns;
        let start = std::time::Instant::now();
        while start.elapsed().as_millis() < 20 {
            std::hint::spin_loop();
        }
        assert!(Reading::now(Preemption::OfThread).own_ns > own_ns);
        assert!(probe.finish().clock_jump_ns < 1_000_000_000);
    }
}
