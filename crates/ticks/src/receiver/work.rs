//! The work that a receiver does for each tick: arithmetic of a known length.

use clocks::now_ns;
use std::hint::black_box;

/// Work of a fixed number of arithmetic steps.
#[derive(Clone, Copy)]
pub struct Work(u64);

impl Work {
    /// Work of `ns` nanoseconds of CPU time. The number of steps is found by trials; the fastest trial was not
    /// interrupted.
    pub fn of(ns: u64) -> Self {
        const TRIED: u64 = 20_000;
        if ns == 0 {
            return Work(0);
        }
        let tried = (0..20).map(|_| {
            let start_ns = now_ns();
            Work(TRIED).run();
            now_ns() - start_ns
        });
        let quickest = tried.min().unwrap_or(1).max(1);
        Work((u128::from(ns) * u128::from(TRIED) / u128::from(quickest)) as u64)
    }

    /// Does it.
    pub fn run(self) {
        for step in 0..self.0 {
            black_box(step);
        }
    }
}
