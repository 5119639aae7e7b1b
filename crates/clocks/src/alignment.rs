//! The offset between two clocks, and the bound of its error.

use std::thread;
use std::time::Duration;

use measure::Failure;
use serde::{Deserialize, Serialize};

use crate::exchange::Exchange;
use crate::now::now_ns;

/// Questions of one alignment.
const QUESTIONS: usize = 500;
/// If the other end has not answered within this time, it counts as absent.
const PATIENCE: Duration = Duration::from_secs(10);

/// The offset of the source's clock from the receiver's, and the bound of its error. The receiver is the end that
/// asks.
///
/// The receiver asks through shared memory and reads its own clock before and after. The source's time in the answer
/// lies between both (Cristian, "Probabilistic clock synchronization", 1989). The question with the shortest round
/// trip is kept. Half of that round trip bounds the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alignment {
    /// The instant for which the offset holds, ns of the receiver's clock.
    pub at_ns: u64,
    /// The source's clock minus the receiver's, ns.
    pub offset_ns: i64,
    /// The bound of the offset's error, ns.
    pub error_ns: u64,
}

impl Alignment {
    /// Asks the source repeatedly, until the number of questions suffices.
    ///
    /// # Errors
    /// The source does not answer.
    pub fn find(exchange: &Exchange) -> Result<Self, Failure> {
        let until_ns = now_ns() + PATIENCE.as_nanos() as u64;
        let answers = (0..QUESTIONS).filter_map(|_| ask(exchange, until_ns));
        answers.min_by_key(|answer| answer.error_ns).ok_or_else(|| {
            Failure::new(
                "asking the other end of shared memory for its time",
                format!("no answer within {} s", PATIENCE.as_secs()),
                "see whether it still runs",
            )
        })
    }

    /// Asks the source repeatedly until the receiver's clock shows `until_ns`. `None` if the source did not answer in
    /// time.
    pub fn find_until(exchange: &Exchange, until_ns: u64) -> Option<Self> {
        std::iter::from_fn(|| (now_ns() < until_ns).then(|| ask(exchange, until_ns)).flatten())
            .take(QUESTIONS)
            .min_by_key(|answer| answer.error_ns)
    }

    /// Converts a time of the source's clock to the receiver's, ns. Valid while both clocks run at the same rate.
    pub fn of_receiver(&self, source_ns: u64) -> u64 {
        source_ns.saturating_add_signed(self.offset_ns.saturating_neg())
    }
}

/// One question, and the answer if it came in time.
fn ask(exchange: &Exchange, until_ns: u64) -> Option<Alignment> {
    let asked_ns = now_ns();
    let question = exchange.ask();
    let source_ns = loop {
        if let Some(time) = exchange.answer_to(question) {
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
    // Where the two ends do not trust each other, one of them may answer anything.
    let offset_ns = source_ns.wrapping_sub(at_ns).cast_signed();
    Some(Alignment { at_ns, offset_ns, error_ns: way_ns.div_ceil(2) })
}

/// Two alignments, before and after a period of time. Between them the clocks are taken to drift evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alignments {
    /// The earlier alignment.
    pub before: Alignment,
    /// The later alignment.
    pub after: Alignment,
}

impl Alignments {
    /// Converts a time of the receiver's clock to the source's.
    pub fn of_source(&self, receiver_ns: u64) -> u64 {
        let length = self.after.at_ns.saturating_sub(self.before.at_ns).max(1) as f64;
        let at = receiver_ns as f64 - self.before.at_ns as f64;
        let drift =
            self.after.offset_ns.saturating_sub(self.before.offset_ns) as f64 * (at / length).clamp(0.0, 1.0);
        receiver_ns.saturating_add_signed(self.before.offset_ns.saturating_add(drift.round() as i64))
    }

    /// The bound of the error of that conversion, ns.
    pub fn error_ns(&self) -> u64 {
        self.before.error_ns.max(self.after.error_ns)
    }
}
