//! Clocks of both ends, set against each other.

use std::thread;
use std::time::Duration;

use measure::Failure;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::page::Page;

/// Questions of one alignment.
const QUESTIONS: usize = 500;
/// A source that has not answered by then is not there.
const PATIENCE: Duration = Duration::from_secs(10);

/// CLOCK_MONOTONIC, ns.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// How far the source's clock is ahead of the receiver's, and how well that is known.
///
/// The receiver asks through the shared page and takes its own time before and after; the source's time in the answer
/// lies between both (Cristian, "Probabilistic clock synchronization", 1989). Of all questions the one with the
/// shortest way there and back counts: half of that way is the bound of the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alignment {
    /// When this was so, ns of the receiver's clock.
    pub at_ns: u64,
    /// Source minus receiver, ns.
    pub offset_ns: i64,
    /// The offset is no further off than this, ns.
    pub error_ns: u64,
}

impl Alignment {
    /// Asks the source until it has been asked often enough.
    ///
    /// # Errors
    /// It does not answer.
    pub(crate) fn find(page: &Page) -> Result<Self, Failure> {
        let until_ns = now_ns() + PATIENCE.as_nanos() as u64;
        (0..QUESTIONS).filter_map(|_| ask(page, until_ns)).min_by_key(|answer| answer.error_ns).ok_or_else(
            || {
                Failure::new(
                    "asking the source of the ticks for its time",
                    format!("no answer within {} s", PATIENCE.as_secs()),
                    "see whether it still runs",
                )
            },
        )
    }

    /// Asks the source until the receiver's clock shows that; none where it did not answer in time.
    pub(crate) fn find_until(page: &Page, until_ns: u64) -> Option<Self> {
        std::iter::from_fn(|| (now_ns() < until_ns).then(|| ask(page, until_ns)).flatten())
            .take(QUESTIONS)
            .min_by_key(|answer| answer.error_ns)
    }
}

/// One question, and the answer if it came in time.
fn ask(page: &Page, until_ns: u64) -> Option<Alignment> {
    let asked_ns = now_ns();
    let question = page.ask();
    let source_ns = loop {
        if let Some(time) = page.answer(question) {
            break time;
        }
        if now_ns() > until_ns {
            return None;
        }
        // Both ends may have one CPU.
        thread::yield_now();
    };
    let way_ns = now_ns() - asked_ns;
    let at_ns = asked_ns + way_ns / 2;
    Some(Alignment { at_ns, offset_ns: source_ns as i64 - at_ns as i64, error_ns: way_ns.div_ceil(2) })
}

/// The two alignments around a stretch of time. Between both, clocks run apart evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alignments {
    /// The earlier one.
    pub before: Alignment,
    /// The later one.
    pub after: Alignment,
}

impl Alignments {
    /// A time of the receiver on the source's clock.
    pub fn of_source(&self, receiver_ns: u64) -> u64 {
        let length = self.after.at_ns.saturating_sub(self.before.at_ns).max(1) as f64;
        let at = receiver_ns as f64 - self.before.at_ns as f64;
        let drift = (self.after.offset_ns - self.before.offset_ns) as f64 * (at / length).clamp(0.0, 1.0);
        receiver_ns.saturating_add_signed(self.before.offset_ns + drift.round() as i64)
    }

    /// It is no further off than this, ns.
    pub fn error_ns(&self) -> u64 {
        self.before.error_ns.max(self.after.error_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_run_apart_evenly_between_two_alignments() {
        let at = |at_ns, offset_ns, error_ns| Alignment { at_ns, offset_ns, error_ns };
        let both = Alignments { before: at(1000, -500, 7), after: at(2000, -400, 9) };
        assert_eq!([1000, 1500, 2000].map(|ns| both.of_source(ns)), [500, 1050, 1600]);
        assert_eq!(both.of_source(900), 400, "before the first, its offset holds");
        assert_eq!(both.error_ns(), 9);
        let same = Alignments { before: both.before, after: both.before };
        assert_eq!(same.of_source(5000), 4500);
    }
}
