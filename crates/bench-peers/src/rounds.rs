//! The rounds of a cell: those in which the machine changed are done again.
use std::collections::BTreeMap;

use measure::Verdict;

use crate::bench::Bench;
use crate::cell::Cell;
use crate::records::Trial;
use crate::transfer_limit;

/// A rate over the same rate a moment before, on a machine that has not changed.
pub const STEADY: std::ops::RangeInclusive<f64> = 0.75..=1.33;

/// Rounds of a cell that are done again because the machine changed in them.
const REPEATS: u32 = 3;

/// Rounds in which nothing was disturbed, of which others are needed no more.
const QUIET_ENOUGH: usize = 3;

/// How it stands with the rounds of one cell.
pub struct Rounds {
    /// The one that is being measured.
    pub number: u32,
    /// The one behind the last of this start.
    pub end: u32,
    /// Rounds that may still be thrown away.
    repeats: u32,
    /// What the cache-transfer limit was before it.
    limit_fps: f64,
    /// Those that take turns.
    systems: u64,
    /// Its first trial, by its place among the results.
    first_trial: usize,
    /// The cell's first trial.
    first_of_cell: usize,
}

impl Bench<'_> {
    /// Those of this start; begins with what the machine allows now.
    pub fn rounds(&self, cell: &Cell, systems: usize) -> anyhow::Result<Rounds> {
        let rounds = self.order.rounds_in(self.start, cell.frame_bytes);
        let limit_fps = transfer_limit::frames_per_second(cell, self.order.setup.pages, self.place.cpus())?;
        let first_trial = self.results.trials.len();
        Ok(Rounds {
            number: rounds.start,
            end: rounds.end,
            repeats: REPEATS,
            limit_fps,
            systems: systems as u64,
            first_trial,
            first_of_cell: first_trial,
        })
    }

    /// The cache-transfer limit has its turn while the systems rest. Where it is another than before the round, what was measured
    /// first and what was measured last are not to be held against each other: the round is thrown away.
    pub fn end_round(&mut self, cell: &Cell, rounds: &mut Rounds) -> anyhow::Result<()> {
        let limit_fps = transfer_limit::frames_per_second(cell, self.order.setup.pages, self.place.cpus())?;
        let steady = STEADY.contains(&(limit_fps / rounds.limit_fps));
        rounds.limit_fps = limit_fps;
        let final_try = rounds.repeats == 0 || self.is_behind();
        if steady || final_try || !self.order.noise_limits {
            let record = transfer_limit::record(cell, self.order.setup.pages, rounds.number, limit_fps);
            self.results.cache_transfer_limits.push(record);
            rounds.number += 1;
            self.done += rounds.systems;
        } else {
            for trial in &mut self.results.trials[rounds.first_trial..] {
                trial.verdict = Verdict::Discarded("the core-to-core latency changed".to_owned());
            }
            rounds.repeats -= 1;
        }
        rounds.first_trial = self.results.trials.len();
        Ok(())
    }

    /// Disturbed rounds stand in for quiet ones only where there are few of those.
    pub fn end_cell(&mut self, rounds: Rounds) {
        keep_quiet_rounds(&mut self.results.trials[rounds.first_of_cell..]);
    }
}

fn keep_quiet_rounds(trials: &mut [Trial]) {
    let mut quiet: BTreeMap<u32, bool> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.verdict.counts()) {
        *quiet.entry(trial.round).or_insert(true) &= trial.verdict == Verdict::Accepted;
    }
    if quiet.values().filter(|quiet| **quiet).count() < QUIET_ENOUGH {
        return;
    }
    for trial in trials.iter_mut().filter(|trial| quiet.get(&trial.round) == Some(&false)) {
        if let Verdict::KeptNoisy(why) = &trial.verdict {
            trial.verdict = Verdict::Discarded(why.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Link, RingPath, System};
    use crate::records::trial_for_tests;

    #[test]
    fn disturbed_trials_count_where_quiet_rounds_are_few() {
        let noisy = || Verdict::KeptNoisy("10 ms stolen".to_owned());
        let trials = |noisy_rounds: &[u32]| -> Vec<Trial> {
            let both = |round| [System::TautlineWire, System::Testpmd].map(|system| (round, system));
            let mut trials: Vec<Trial> = (0..5)
                .flat_map(both)
                .map(|(round, system)| Trial {
                    round,
                    ..trial_for_tests(Link::Ring(RingPath::Packed), system, 1e6)
                })
                .collect();
            trials.iter_mut().step_by(2).filter(|t| noisy_rounds.contains(&t.round)).for_each(|t| {
                t.verdict = noisy();
            });
            keep_quiet_rounds(&mut trials);
            trials
        };
        let counting = |trials: &[Trial]| trials.iter().filter(|trial| trial.verdict.counts()).count();
        assert_eq!(counting(&trials(&[])), 10);
        assert_eq!(counting(&trials(&[1, 3])), 8);
        assert_eq!(counting(&trials(&[1, 2, 3])), 10);
    }
}
