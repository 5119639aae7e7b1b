//! Prints how long each phase of a test took.

use std::time::Instant;

/// The time since the test began, and since its last phase ended.
pub struct Phases {
    began: Instant,
    since: Instant,
}

impl Phases {
    /// At a test's beginning.
    pub fn begin() -> Self {
        let now = Instant::now();
        Phases { began: now, since: now }
    }

    /// Prints how long what has just ended took.
    pub fn end(&mut self, phase: &str) {
        let now = Instant::now();
        let [took, all] = [self.since, self.began].map(|since| now.duration_since(since).as_secs_f64());
        println!("phase {took:6.1} s, {all:6.1} s in all: {phase}");
        self.since = now;
    }
}
