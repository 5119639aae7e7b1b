//! The clock of a trace and CLOCK_MONOTONIC, read together.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The values of both clocks at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    tick: u64,
    monotonic_ns: u64,
}

impl Reading {
    /// The reading that took the least time, of several.
    pub fn now() -> Self {
        let read = || {
            let (before, tick, after) = (monotonic_ns(), tick(), monotonic_ns());
            (after - before, Self { tick, monotonic_ns: before + (after - before) / 2 })
        };
        (0..20).map(|_| read()).min_by_key(|(took_ns, _)| *took_ns).expect("there are some").1
    }

    /// The counter's rate between this and a later reading.
    pub fn ticks_per_us(&self, later: &Self) -> f64 {
        let ns = later.monotonic_ns.saturating_sub(self.monotonic_ns).max(1);
        later.tick.saturating_sub(self.tick) as f64 * 1e3 / ns as f64
    }

    /// The difference in ns between CLOCK_MONOTONIC and a tick's time at that rate.
    pub fn monotonic_minus_tick(&self, ticks_per_us: f64) -> i64 {
        self.monotonic_ns as i64 - (self.tick as f64 * 1e3 / ticks_per_us.max(1e-3)) as i64
    }
}

/// One rate for all times of a long watch, so that times of two recorders can be compared. Times are ns since the
/// counter's zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    ticks_per_us: f64,
}

impl Rate {
    /// Measures the rate of the time-stamp counter, which takes 0.2 s.
    pub fn measure() -> Self {
        let first = Reading::now();
        std::thread::sleep(Duration::from_millis(200));
        Self { ticks_per_us: first.ticks_per_us(&Reading::now()) }
    }

    /// The rate for times that are not converted: one tick counts as one nanosecond.
    pub fn of_ns() -> Self {
        Self { ticks_per_us: 1e3 }
    }

    /// Ticks in a microsecond. If the trace's clock is no counter, its times have a decimal point, and the rate has
    /// no effect.
    pub fn ticks_per_us(self) -> f64 {
        self.ticks_per_us
    }
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(target_arch = "x86_64")]
fn tick() -> u64 {
    crate::micro_vm::tsc::stamp()
}

#[cfg(not(target_arch = "x86_64"))]
fn tick() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_monotonic_time_at_both_ends() {
        let first = Reading { tick: 7_000_000_000_000_000, monotonic_ns: 5_000 };
        let last = Reading { tick: first.tick + 3_000_000, monotonic_ns: 1_005_000 };
        let rate = first.ticks_per_us(&last);
        assert!((rate - 3000.0).abs() < 1e-9);
        let shift = first.monotonic_minus_tick(rate);
        let monotonic = |tick: u64| ((tick as f64 * 1e3 / rate) as u64).saturating_add_signed(shift);
        assert!(monotonic(first.tick).abs_diff(5_000) <= 2 && monotonic(last.tick).abs_diff(1_005_000) <= 2);
        assert!(last.ticks_per_us(&first) >= 0.0, "a clock that goes back makes no panic");
        Reading::now().monotonic_minus_tick(0.0);
    }
}
