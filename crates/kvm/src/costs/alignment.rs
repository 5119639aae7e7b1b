//! Whether the guest's clock equals the host's, and the bound of the error.
//!
//! In an exchange the host takes a stamp, the guest takes one when it sees the host's, and the host takes a second
//! one when it sees the guest's. The guest's stamp lies between the host's two, which bounds the offset of the
//! clocks. The error is bounded by the offsets that all exchanges allow. Every sample of a row is held to a rule: no
//! effect may precede its cause.

use serde::{Deserialize, Serialize};

/// The bounds of the guest's TSC minus the host's, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alignment {
    /// The lower bound of the offset, ticks.
    pub low: i64,
    /// The upper bound of the offset, ticks.
    pub high: i64,
    /// The number of exchanges that the bounds come from.
    pub exchanges: usize,
}

/// Three stamps: the host's first, the guest's, the host's second.
pub type Exchange = [u64; 3];

impl Alignment {
    /// The alignment that satisfies all exchanges. `None` if there are no exchanges, or if they contradict each
    /// other: the clocks then drift, and no offset aligns them.
    pub fn of(exchanges: &[Exchange]) -> Option<Self> {
        let difference = |a: u64, b: u64| a.wrapping_sub(b) as i64;
        let low = exchanges.iter().map(|[_, guest, after]| difference(*guest, *after)).max()?;
        let high = exchanges.iter().map(|[before, guest, _]| difference(*guest, *before)).min()?;
        (low <= high).then_some(Self { low, high, exchanges: exchanges.len() })
    }

    /// The value to subtract from the guest's stamps: 0 if the clocks may be equal, else the middle of the bounds.
    pub fn correction(&self) -> i64 {
        if self.low <= 0 && 0 <= self.high { 0 } else { self.low + (self.high - self.low) / 2 }
    }

    /// The largest error of corrected stamps, ticks.
    pub fn error_bound(&self) -> u64 {
        let correction = self.correction();
        (correction - self.low).unsigned_abs().max((self.high - correction).unsigned_abs())
    }
}

/// The duration from each cause to its effect, in ticks of the TSC. Stamps beyond the shorter list are ignored.
///
/// # Errors
/// Some effects have a lower stamp than their causes. The error is their number.
pub fn durations(causes: &[u64], effects: &[u64]) -> Result<Vec<u64>, usize> {
    let pairs = || causes.iter().zip(effects);
    match pairs().filter(|(cause, effect)| effect < cause).count() {
        0 => Ok(pairs().map(|(cause, effect)| effect - cause).collect()),
        early => Err(early),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_exchanges_bound_the_offset() {
        let same = Alignment::of(&[[100, 150, 200], [300, 310, 400]]).unwrap();
        assert_eq!((same.low, same.high), (-50, 10));
        assert_eq!((same.correction(), same.error_bound()), (0, 50));
        // The guest's clock is 1000 ahead.
        let ahead = Alignment::of(&[[100, 1110, 120], [300, 1310, 330]]).unwrap();
        assert_eq!((ahead.low, ahead.high), (990, 1010));
        assert_eq!((ahead.correction(), ahead.error_bound()), (1000, 10));
    }

    #[test]
    fn clocks_that_drift_are_not_aligned() {
        assert_eq!(Alignment::of(&[[100, 105, 110], [200, 305, 210]]), None);
        assert_eq!(Alignment::of(&[]), None);
    }

    #[test]
    fn an_effect_before_its_cause_is_found() {
        assert_eq!(durations(&[10, 20], &[15, 20]), Ok(vec![5, 0]));
        assert_eq!(durations(&[10, 20, 30], &[15, 19, 29]), Err(2));
    }
}
