//! A neighbour's rate during hostile messages and while they pause, in turns.

use measure::statistics::median;
use serde::{Deserialize, Serialize};

/// Rates of turns, in frames a second. Entries with the same index belong together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Turns {
    /// Rates during hostile messages.
    pub beside_per_s: Vec<f64>,
    /// The rates while hostile messages paused.
    pub alone_per_s: Vec<f64>,
}

impl Turns {
    /// Adds the rates of one turn.
    pub fn push(&mut self, beside_per_s: f64, alone_per_s: f64) {
        self.beside_per_s.push(beside_per_s);
        self.alone_per_s.push(alone_per_s);
    }

    /// The rate during hostile messages, divided by the planned rate: the median of the turns. It also shows
    /// neighbours that are slowed permanently by the first turn, for which the other ratio is 1.
    pub fn reached(&self, asked_per_s: f64) -> Option<f64> {
        median(&self.beside_per_s).map(|beside| beside / asked_per_s)
    }

    /// The rate during hostile messages, divided by the rate in the pauses: the median of the turns.
    pub fn ratio(&self) -> Option<f64> {
        let ratios = self.beside_per_s.iter().zip(&self.alone_per_s).map(|(beside, alone)| beside / alone);
        let ratios: Vec<f64> = ratios.filter(|ratio| ratio.is_finite()).collect();
        median(&ratios)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_compared_pair_by_pair() {
        let mut turns = Turns::default();
        assert_eq!(turns.ratio(), None);
        // A machine that grows slower all along, and takes a tenth beside hostile front-ends.
        for alone in [1000.0, 500.0, 100.0] {
            turns.push(alone * 0.9, alone);
        }
        assert_eq!(turns.ratio(), Some(0.9));
        assert_eq!(turns.reached(900.0), Some(0.5));
        turns.push(0.0, 0.0);
        assert_eq!(turns.ratio(), Some(0.9), "a turn without a frame says nothing");
    }
}
