//! A neighbour's rate beside hostile front-ends, and while they rest, in turns.

use measure::statistics::median;
use serde::{Deserialize, Serialize};

/// Rates of turns, in frames a second; the n-th of both belong together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Turns {
    /// Beside hostile front-ends.
    pub beside_per_s: Vec<f64>,
    /// While they rested.
    pub alone_per_s: Vec<f64>,
}

impl Turns {
    /// One more of each.
    pub fn push(&mut self, beside_per_s: f64, alone_per_s: f64) {
        self.beside_per_s.push(beside_per_s);
        self.alone_per_s.push(alone_per_s);
    }

    /// What is reached beside hostile front-ends of the rate that was asked for: the median of the turns. The ratio of
    /// neighbours that are slowed for good, by what was lost in the first turn, is one.
    pub fn reached(&self, asked_per_s: f64) -> Option<f64> {
        median(&self.beside_per_s).map(|beside| beside / asked_per_s)
    }

    /// What is left of the rate beside hostile front-ends: the median of the turns' ratios.
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
