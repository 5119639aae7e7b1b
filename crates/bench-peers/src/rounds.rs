//! The rounds of a cell: those in which the machine changed are done again.
use measure::Verdict;

use crate::bench::Bench;
use crate::bounds;
use crate::cell::Cell;

/// A rate over the same rate a moment before, on a machine that has not changed.
pub const STEADY: std::ops::RangeInclusive<f64> = 0.75..=1.33;

/// Rounds of a cell that are done again because the machine changed in them.
const REPEATS: u32 = 3;

/// How it stands with the rounds of one cell.
pub struct Rounds {
    /// The one that is being measured.
    pub number: u32,
    /// Rounds that may still be thrown away.
    repeats: u32,
    /// What the bound was before it.
    bound_fps: f64,
    /// Its first trial, by its place among the results.
    first_trial: usize,
}

impl Bench<'_> {
    /// Begins with what the machine allows now.
    pub fn rounds(&self, cell: &Cell) -> anyhow::Result<Rounds> {
        let bound_fps = bounds::frames_per_second(cell, self.order.pages, self.place.cpus())?;
        let first_trial = self.results.trials.len();
        Ok(Rounds { number: 0, repeats: REPEATS, bound_fps, first_trial })
    }

    /// The bound has its turn while the systems rest. Where it is another than before the round, what was measured
    /// first and what was measured last are not to be held against each other: the round is thrown away.
    pub fn end_round(&mut self, cell: &Cell, rounds: &mut Rounds) -> anyhow::Result<()> {
        let bound_fps = bounds::frames_per_second(cell, self.order.pages, self.place.cpus())?;
        let steady = STEADY.contains(&(bound_fps / rounds.bound_fps));
        rounds.bound_fps = bound_fps;
        let final_try = rounds.repeats == 0 || self.is_behind();
        if steady || final_try || !self.order.noise_limits {
            self.results.bounds.push(bounds::record(cell, self.order.pages, rounds.number, bound_fps));
            rounds.number += 1;
        } else {
            for trial in &mut self.results.trials[rounds.first_trial..] {
                trial.verdict =
                    Verdict::Discarded("a line's way between the cores changed its cost".to_owned());
            }
            rounds.repeats -= 1;
        }
        rounds.first_trial = self.results.trials.len();
        Ok(())
    }
}
