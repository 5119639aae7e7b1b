//! What is wrong with a peer, said so that a peer cannot fill a log.
use std::time::{Duration, Instant};

/// Complaints that are said of one connection in one [`WINDOW`].
const AT_ONCE: u32 = 16;
const WINDOW: Duration = Duration::from_secs(10);

/// What is to become of a complaint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Say,
    /// Say it, and that more of them are left out for a while.
    SayLast,
    LeaveOut,
}

/// How much was said of one connection.
#[derive(Debug)]
pub(super) struct Complaints {
    since: Instant,
    count: u32,
}

impl Complaints {
    pub fn new(now: Instant) -> Self {
        Complaints { since: now, count: 0 }
    }

    pub fn next(&mut self, now: Instant) -> Verdict {
        if now.saturating_duration_since(self.since) >= WINDOW {
            *self = Complaints::new(now);
        }
        self.count = self.count.saturating_add(1);
        match self.count {
            ..AT_ONCE => Verdict::Say,
            AT_ONCE => Verdict::SayLast,
            _ => Verdict::LeaveOut,
        }
    }

    /// For the last complaint that is said.
    pub fn left_out() -> String {
        format!(" (further complaints are left out for {} s)", WINDOW.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_so_many_and_the_next_as_many_again() {
        let start = Instant::now();
        let mut complaints = Complaints::new(start);
        let said =
            |verdicts: &[Verdict]| verdicts.iter().filter(|verdict| **verdict != Verdict::LeaveOut).count();
        for window in [Duration::ZERO, WINDOW] {
            let verdicts: Vec<_> = (0..100).map(|_| complaints.next(start + window)).collect();
            assert_eq!(said(&verdicts), AT_ONCE as usize);
            assert_eq!(verdicts[AT_ONCE as usize - 1], Verdict::SayLast);
            assert_eq!(complaints.next(start + window + WINDOW / 2), Verdict::LeaveOut);
        }
    }
}
