//! Rounds by how far the cores were from each other. A host that moves virtual CPUs puts them now beside each other
//! and now on two dies: two machines in one run, of which no median and no ratio says anything together.
use measure::statistics::median;

use crate::cell::Cell;
use crate::records::{BoundRecord, Results};

/// What a line costs on far cores over what it costs on near ones, at the least.
const FAR_OVER_NEAR: f64 = 2.0;
/// Fewer than one of so many are no distance of their own.
const FEW: usize = 20;

/// How far the cores were from each other, beside the rest of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// All rounds were alike.
    Same,
    Near,
    Far,
}

impl Distance {
    /// Nothing where there is nothing to tell apart.
    pub fn name(self) -> &'static str {
        match self {
            Distance::Same => "",
            Distance::Near => "near",
            Distance::Far => "far",
        }
    }
}

/// The distances that there were in a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distances {
    One,
    /// A line took less than this on near cores, more on far ones.
    Two {
        limit_ns: f64,
    },
}

impl Distances {
    /// Two if a line took twice as long in some rounds as in the others; a few rounds in a hundred are none.
    pub fn of(results: &Results) -> Self {
        let mut all: Vec<f64> = results.bounds.iter().flat_map(|record| record.line_ns).collect();
        all.sort_by(f64::total_cmp);
        let Some(nears) = split(&all) else { return Distances::One };
        let (near, far) = all.split_at(nears);
        let few = near.len().min(far.len()) * FEW < all.len();
        match median(near).zip(median(far)) {
            Some((near_ns, far_ns)) if !few && far_ns > FAR_OVER_NEAR * near_ns => {
                Distances::Two { limit_ns: (near[nears - 1] + far[0]) / 2.0 }
            }
            _ => Distances::One,
        }
    }

    pub fn all(self) -> &'static [Distance] {
        match self {
            Distances::One => &[Distance::Same],
            Distances::Two { .. } => &[Distance::Near, Distance::Far],
        }
    }

    /// The distance in one round of a cell; if there are two, none where it changed or was not measured, as in a
    /// round that was cut short.
    pub fn in_round(self, results: &Results, cell: &Cell, round: u32) -> Option<Distance> {
        let Distances::Two { limit_ns } = self else { return Some(Distance::Same) };
        let record = results.bounds.iter().find(|b| b.cell == *cell && b.round == round)?;
        match record.line_ns.map(|ns| ns > limit_ns) {
            [false, false] => Some(Distance::Near),
            [true, true] => Some(Distance::Far),
            _ => None,
        }
    }

    /// Median of what a line took, and in how many rounds.
    pub fn line_ns(self, results: &Results, distance: Distance) -> Option<(f64, usize)> {
        let of = |record: &&BoundRecord| self.in_round(results, &record.cell, record.round) == Some(distance);
        let all: Vec<f64> = results.bounds.iter().filter(of).flat_map(|record| record.line_ns).collect();
        Some((median(&all)?, all.len() / 2))
    }
}

/// How many of a sorted sample are in the lower of the two classes that differ most: the largest variance between
/// them (Otsu, 1979).
fn split(sorted: &[f64]) -> Option<usize> {
    let total: f64 = sorted.iter().sum();
    let mut below = 0.0;
    let between = |(at, value): (usize, &f64)| {
        below += value;
        let (low, high) = ((at + 1) as f64, (sorted.len() - at - 1) as f64);
        let apart = below / low - (total - below) / high;
        (at + 1, low * high * apart * apart)
    };
    let cuts = sorted.iter().enumerate().take(sorted.len().saturating_sub(1)).map(between);
    cuts.max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(count, _)| count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{DriverKind, Link, RingPath, Topology};
    use crate::records::results_for_tests;

    fn results(rounds: &[[f64; 2]]) -> (Results, Cell) {
        let cell = Cell {
            driver: DriverKind::Dpdk,
            topology: Topology::Loop,
            link: Link::Ring(RingPath::Packed),
            frame_bytes: 64,
        };
        let record = |(round, line_ns): (usize, &[f64; 2])| BoundRecord {
            cell,
            round: round as u32,
            lines_to_switch: 1,
            lines_to_driver: 1,
            lines_apart: 64,
            frames_per_second: 1e7,
            line_ns: *line_ns,
        };
        let bounds = rounds.iter().enumerate().map(record).collect();
        (Results { bounds, ..results_for_tests() }, cell)
    }

    #[test]
    fn cores_that_stay_where_they_are_have_one_distance() {
        // Noise, and one round in thirty elsewhere.
        let mut rounds = vec![[28.0, 31.0]; 30];
        rounds[3] = [45.0, 26.0];
        rounds[7] = [130.0, 130.0];
        let (results, cell) = results(&rounds);
        let distances = Distances::of(&results);
        assert_eq!(distances, Distances::One);
        assert_eq!(distances.in_round(&results, &cell, 7), Some(Distance::Same));
        assert_eq!(distances.line_ns(&results, Distance::Same), Some((31.0, 30)));
    }

    #[test]
    fn rounds_are_near_or_far_or_neither() {
        let (results, cell) =
            results(&[[28.0, 30.0], [131.0, 128.0], [27.0, 131.0], [133.0, 29.0], [7.0, 8.0]]);
        let distances = Distances::of(&results);
        let of_rounds = [0, 1, 2, 3, 4, 5].map(|round| distances.in_round(&results, &cell, round));
        let (near, far) = (Some(Distance::Near), Some(Distance::Far));
        assert_eq!(of_rounds, [near, far, None, None, near, None]);
        assert_eq!(distances.line_ns(&results, Distance::Far), Some((129.5, 1)));
        // On two threads of one core a line costs next to nothing: that is near as well.
        assert!(matches!(distances, Distances::Two { limit_ns } if limit_ns > 31.0 && limit_ns < 128.0));
        // Nothing was measured: all is alike.
        assert_eq!(Distances::of(&results_for_tests()), Distances::One);
    }
}
