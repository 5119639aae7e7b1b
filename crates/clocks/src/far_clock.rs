//! The other end's time by extrapolation, for moments when the other end cannot be asked.

use std::thread;
use std::time::Duration;

use measure::Failure;

use crate::alignment::Alignment;
use crate::exchange::Exchange;

/// The time between the two alignments: the sum of their errors, divided by this time, is the error of the rate. Half a
/// microsecond of error is two of a million, four microseconds in two seconds.
const BASELINE: Duration = Duration::from_millis(500);

/// The clock of the other end, extrapolated from two earlier alignments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FarClock {
    first: Alignment,
    latest: Alignment,
    /// How much the other clock gains for each nanosecond of this one.
    gain: f64,
}

impl FarClock {
    /// Aligns the clocks, waits a while, and aligns them again.
    ///
    /// # Errors
    /// The other end does not answer.
    pub fn find(exchange: &Exchange) -> Result<Self, Failure> {
        let first = Alignment::find(exchange)?;
        thread::sleep(BASELINE);
        Ok(FarClock::of(first, Alignment::find(exchange)?))
    }

    pub(crate) fn of(first: Alignment, latest: Alignment) -> Self {
        let length = latest.at_ns.saturating_sub(first.at_ns).max(1) as f64;
        FarClock { first, latest, gain: latest.offset_ns.saturating_sub(first.offset_ns) as f64 / length }
    }

    /// Continues from a later alignment, at the average rate since the first.
    pub fn again(&mut self, found: Alignment) {
        *self = FarClock::of(self.first, found);
    }

    /// Converts a time of this end to the other end's clock.
    pub fn far_ns(&self, near_ns: u64) -> u64 {
        near_ns.saturating_add_signed(self.offset_ns(near_ns))
    }

    fn offset_ns(&self, near_ns: u64) -> i64 {
        let since = near_ns as f64 - self.latest.at_ns as f64;
        self.latest.offset_ns.saturating_add((since * self.gain).round() as i64)
    }

    /// The bound of the error so far: aligns the clocks once more.
    ///
    /// # Errors
    /// The other end does not answer.
    pub fn error_ns(&self, exchange: &Exchange) -> Result<u64, Failure> {
        Ok(self.error_by(Alignment::find(exchange)?))
    }

    pub(crate) fn error_by(&self, now: Alignment) -> u64 {
        let off_ns = self.offset_ns(now.at_ns).abs_diff(now.offset_ns).saturating_add(now.error_ns);
        off_ns.max(self.latest.error_ns)
    }
}
