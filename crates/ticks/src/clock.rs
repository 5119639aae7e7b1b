//! Clocks of both ends, set against each other.

use std::thread;
use std::time::Duration;

use measure::Failure;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::page::Page;

/// Questions of one alignment.
const QUESTIONS: u64 = 500;
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
    /// Source minus receiver, ns.
    pub offset_ns: i64,
    /// The offset is no further off than this, ns.
    pub error_ns: u64,
}

impl Alignment {
    /// Asks the source.
    ///
    /// # Errors
    /// It does not answer.
    pub(crate) fn find(page: &Page, first_question: u64) -> Result<Self, Failure> {
        let mut best: Option<(u64, i64)> = None;
        let start_ns = now_ns();
        for question in first_question..first_question + QUESTIONS {
            let asked_ns = now_ns();
            page.ask(question);
            let source_ns = loop {
                if let Some(time) = page.answer(question) {
                    break time;
                }
                if now_ns() - start_ns > PATIENCE.as_nanos() as u64 {
                    return Err(Failure::new(
                        "asking the source of the ticks for its time",
                        format!("no answer within {} s", PATIENCE.as_secs()),
                        "see whether it still runs",
                    ));
                }
                // Both ends may have one CPU.
                thread::yield_now();
            };
            let answered_ns = now_ns();
            let way_ns = answered_ns - asked_ns;
            if best.is_none_or(|(shortest, _)| way_ns < shortest) {
                best = Some((way_ns, source_ns as i64 - (asked_ns + way_ns / 2) as i64));
            }
        }
        let (way_ns, offset_ns) = best.expect("there are questions");
        Ok(Alignment { offset_ns, error_ns: way_ns.div_ceil(2) })
    }

    /// How many questions [`Alignment::find`] asks.
    pub(crate) const QUESTIONS: u64 = QUESTIONS;

    /// A time of the receiver on the source's clock.
    pub(crate) fn of_source(&self, receiver_ns: u64) -> u64 {
        receiver_ns.saturating_add_signed(self.offset_ns)
    }
}
