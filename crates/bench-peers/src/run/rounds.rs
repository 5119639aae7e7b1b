//! Runs the rounds of a cell; each contestant has a turn in each round. Disturbed trials are repeated, and rounds
//! during which the machine changed are discarded.
use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::bail;
use linux::interrupt;
use measure::Verdict;
use measure::window::disturbance;

use super::Bench;
use super::contestant::Contestant;
use crate::cell::{Cell, System, is_headline, name};
use crate::machine::{PAUSE, State};
use crate::plan::{PlannedCell, TRIAL_MS};
use crate::results::Trial;

/// The cache-transfer limit over the same a moment before, on a machine that has not changed.
const STEADY: std::ops::RangeInclusive<f64> = 0.75..=1.33;
/// Rounds of a cell that are done again because the machine changed in them.
const REPEATS: u32 = 3;
/// Rounds in which nothing was disturbed, of which others are needed no more.
const QUIET_ENOUGH: usize = 3;
/// Tries at one trial; the last counts and is marked.
const ATTEMPTS: u32 = 3;

impl Bench<'_> {
    /// Runs all rounds of one cell in this start. Returns the contestants that failed, which may be in any state.
    pub(super) fn rounds(
        &mut self,
        planned: &PlannedCell,
        contestants: &mut [&mut dyn Contestant],
    ) -> anyhow::Result<Vec<System>> {
        let cell = &planned.cell;
        if self.pace.is_late() {
            self.too_late(&cell.to_string());
            return Ok(Vec::new());
        }
        let mut lost = Vec::new();
        for contestant in contestants.iter_mut() {
            let system = contestant.system();
            if let Err(error) = contestant.prepare(cell) {
                self.leave_out(&format!("{}, {cell}", name(&system)), &error)?;
                lost.push(system);
            }
        }
        let first_of_cell = self.results.trials.len();
        let (mut round, mut repeats, mut limit) =
            (planned.rounds.start, REPEATS, self.machine.transfer_limit(cell, self.plan.huge_pages)?);
        while round < planned.rounds.end && lost.len() < contestants.len() {
            if self.pace.is_late() {
                self.too_late(&format!("{cell}: rounds from {round} to {}", planned.rounds.end));
                break;
            }
            let first_of_round = self.results.trials.len();
            let mut turn: Vec<usize> = (0..contestants.len()).collect();
            if round % 2 == 1 {
                turn.reverse();
            }
            for at in turn {
                let system = contestants[at].system();
                if lost.contains(&system) {
                    continue;
                }
                self.doing(&format!("{cell}: {}", name(&system)));
                if let Err(error) = self.until_quiet(cell, round, &mut *contestants[at]) {
                    self.leave_out(&format!("{}, {cell}", name(&system)), &error)?;
                    lost.push(system);
                }
            }
            // The limit has its turn while the systems rest. If the limit differs from the limit before the round, the
            // first and the last trials of the round cannot be compared.
            let before =
                std::mem::replace(&mut limit, self.machine.transfer_limit(cell, self.plan.huge_pages)?);
            let trials = self.results.trials[first_of_round..].iter_mut();
            let steady = STEADY.contains(&(limit / before));
            if steady || repeats == 0 || self.pace.is_behind() || self.plan.accept_noise {
                trials.for_each(|trial| trial.transfer_limit_fps = limit);
                round += 1;
                self.pace.done += contestants.len();
            } else {
                let changed = || Verdict::Discarded("the core-to-core latency changed".to_owned());
                trials.for_each(|trial| trial.verdict = changed());
                repeats -= 1;
            }
        }
        keep_quiet_rounds(&mut self.results.trials[first_of_cell..]);
        Ok(lost)
    }

    /// Waits until both cores are SMT-undisturbed, as long as that is worth it.
    fn undisturbed(&mut self, cell: &Cell) -> anyhow::Result<State> {
        loop {
            let state = self.machine.look()?;
            if !state.shared || !self.may_wait(cell) {
                return Ok(state);
            }
            interrupt::pause(PAUSE)?;
            self.machine.waited += PAUSE;
        }
    }

    /// For the smallest and the largest frames, and while there is time.
    fn may_wait(&self, cell: &Cell) -> bool {
        let of_use = !self.plan.accept_noise && is_headline(cell.frame_bytes);
        of_use && self.machine.may_wait(self.pace.elapsed()) && !self.pace.is_behind()
    }

    /// Repeats a trial that was disturbed.
    fn until_quiet(
        &mut self,
        cell: &Cell,
        round: u32,
        contestant: &mut dyn Contestant,
    ) -> anyhow::Result<()> {
        for attempt in 0..ATTEMPTS {
            interrupt::check()?;
            let before = self.undisturbed(cell)?;
            let measured = contestant.trial(cell, Duration::from_millis(TRIAL_MS))?;
            let after = self.machine.look()?;
            let nothing = measured.frames_per_second == 0.0;
            if nothing && attempt + 1 == ATTEMPTS {
                bail!("no frame was moved in {ATTEMPTS} trials");
            }
            let disturbed = disturbance(Duration::from_nanos(measured.window_ns), &measured.noise);
            let only_shared = disturbed.is_none() && (before.shared || after.shared);
            let why = disturbed
                .or_else(|| only_shared.then(|| "a core was disturbed by its SMT sibling".to_owned()))
                .filter(|_| !self.plan.accept_noise)
                .or_else(|| nothing.then(|| "no frame was moved".to_owned()));
            // The core will be shared the next time as well.
            let in_vain = only_shared && !nothing && !self.may_wait(cell);
            let last = attempt + 1 == ATTEMPTS || in_vain || self.pace.is_late();
            let verdict = match why {
                None => Verdict::Accepted,
                Some(why) if last => Verdict::KeptNoisy(why),
                Some(why) => Verdict::Discarded(why),
            };
            let counts = verdict.counts();
            self.results.trials.push(Trial {
                cell: *cell,
                system: contestant.system(),
                start: self.start,
                round,
                attempt,
                measured,
                transfer_limit_fps: 0.0,
                machine: [before, after],
                verdict,
            });
            if counts {
                break;
            }
        }
        Ok(())
    }
}

/// Disturbed rounds stand in for quiet ones only where there are few of those.
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
