//! The highest rate without loss, beside the maximum of the same moment.
use std::fmt;
use std::time::Duration;

use anyhow::{Context, bail};
use traffic::search::tst009;

use crate::bench::{Bench, Pair};
use crate::cell::{Cell, System};
use crate::generator::Generator;
use crate::order::SEARCHING;
use crate::own::Ends;
use crate::records::{LATENCY_PERCENT, ZeroLoss};
use crate::rounds::STEADY;

/// Trials of the maximum before a search for zero loss, and after it.
const MAXIMA: usize = 3;

/// Searches until one is decided, up to about the maximum, on a machine that was as fast after it as before.
const SEARCHES: u32 = 3;

/// Searches that are given up because the machine changed, until that is not looked at any more.
const GIVEN_UP: u32 = 8;

/// How long the maximum is measured before each trial, and how often at most: another one than at the beginning is
/// that of another machine.
const PROBE: Duration = Duration::from_millis(5);
const PROBES: u32 = 3;

/// A generator that keeps less than this share of the maximum was disturbed, or says little about the system.
const KEPT_ENOUGH: f64 = 0.9;

/// Why a search was given up: what was found before and what comes then are of two machines.
#[derive(Debug)]
struct Changed;

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the machine changed")
    }
}

impl std::error::Error for Changed {}

/// What one search found.
struct Found {
    maximum_fps: f64,
    search: tst009::Outcome,
    /// The machine was as fast after it as before: beside a maximum of another time a rate says nothing.
    steady: bool,
    /// The highest load of the search over the maximum before it.
    kept_share: f64,
}

impl Found {
    fn is_sound(&self) -> bool {
        self.steady && self.search.finding.decided_lower().is_some()
    }

    /// No other search is needed.
    fn is_enough(&self) -> bool {
        self.is_sound() && self.kept_share >= KEPT_ENOUGH
    }

    /// Of two that are sound, or two that are not, by how high the generator could go; not by what was found.
    fn says_more_than(&self, other: &Found) -> bool {
        (self.is_sound(), self.kept_share) > (other.is_sound(), other.kept_share)
    }
}

impl Bench<'_> {
    /// The search for zero loss, system after system.
    pub fn zero_loss_cell(&mut self, cell: &Cell, pairs: &mut [Pair], ends: &mut Ends) -> anyhow::Result<()> {
        let mut lost: Vec<usize> = Vec::new();
        for (at, generator) in ends.iter_mut() {
            let device = &mut pairs[*at].device;
            let system = device.system;
            if self.is_late() {
                self.results.left_out.push(format!("{}, {cell}: zero loss for lack of time", system.name()));
                continue;
            }
            self.progress.doing(&format!("{cell}: {}, zero loss", system.name()));
            self.done += SEARCHING;
            let _pinned = crate::cpus::Pinned::to(self.place.driver_cpu)?;
            let found = device.begin(cell.topology, cell.frame_bytes).and_then(|()| {
                generator.set_size(cell.topology, cell.frame_bytes, || self.place.interrupt.check())?;
                let found = self.search(cell, system, generator)?;
                device.end()?;
                Ok(found)
            });
            match found {
                Ok(found) => self.results.zero_loss.push(found),
                Err(error) => {
                    self.leave_out(&format!("{}, {cell}, zero loss", system.name()), &error)?;
                    lost.push(*at);
                }
            }
        }
        ends.retain(|(at, _)| !lost.contains(at));
        Ok(())
    }

    /// The highest rate without loss of a system that moves frames, beside its maximum with the same rings. For
    /// a thread that is on the driver's CPU.
    pub fn search(&self, cell: &Cell, system: System, generator: &mut Generator) -> anyhow::Result<ZeroLoss> {
        let lanes = cell.topology.ports() as u32;
        let (mut searches, mut given_up) = (0, 0);
        let mut best: Option<Found> = None;
        while searches < SEARCHES && !best.as_ref().is_some_and(Found::is_enough) {
            match self.search_once(lanes, generator, given_up < GIVEN_UP) {
                Ok(found) => {
                    searches += 1;
                    if best.as_ref().is_none_or(|best| found.says_more_than(best)) {
                        best = Some(found);
                    }
                }
                Err(error) if error.is::<Changed>() => given_up += 1,
                Err(error) => return Err(error),
            }
        }
        let Found { maximum_fps, search, .. } = best.context("no search")?;
        let found = search.finding.decided_lower().map(|load| load.frames_per_second() as f64);
        let mut latency_ns = [None; LATENCY_PERCENT.len()];
        for (percent, latency_ns) in LATENCY_PERCENT.into_iter().zip(&mut latency_ns) {
            if let Some(fps) = found {
                *latency_ns = generator.latency(fps * f64::from(percent) / 100.0, self.order.search_trial)?;
            }
        }
        Ok(ZeroLoss { cell: *cell, system, maximum_fps, lanes, latency_ns, searches, given_up, search })
    }

    /// One search, with the maximum before it and after it. If `watched` it ends with [`Changed`] where the machine did.
    fn search_once(&self, lanes: u32, generator: &mut Generator, watched: bool) -> anyhow::Result<Found> {
        let trial = self.order.search_trial;
        let maximum = |generator: &mut Generator, time| -> anyhow::Result<f64> {
            self.place.interrupt.check()?;
            Ok(generator.maximum(time)?.frames_per_second)
        };
        let maxima = |generator: &mut Generator, time| -> anyhow::Result<Vec<f64>> {
            (0..MAXIMA).map(|_| maximum(generator, time)).collect()
        };
        let mut before = maxima(generator, trial)?;
        let probe_fps = median(&maxima(generator, PROBE)?);
        let check = |generator: &mut Generator| -> anyhow::Result<()> {
            self.place.interrupt.check()?;
            // One of them may have been interrupted.
            for _ in 0..PROBES {
                if !watched || STEADY.contains(&(maximum(generator, PROBE)? / probe_fps)) {
                    return Ok(());
                }
            }
            bail!(Changed)
        };
        let (before_fps, most_fps) = (median(&before), before.iter().copied().fold(0.0, f64::max));
        // Above the maximum, so that it is seen to lose; lower where the generator does not keep its rate.
        let most = generator.kept(most_fps * 1.05 / f64::from(lanes), trial, check)?;
        let search = generator.zero_loss(most, trial, check)?;
        check(generator)?;
        let after = maxima(generator, trial)?;
        let steady = STEADY.contains(&(median(&after) / before_fps));
        let kept_share = most.frames_per_second() as f64 * f64::from(lanes) / most_fps;
        before.extend(after);
        Ok(Found { maximum_fps: median(&before), search, steady, kept_share })
    }
}

fn median(rates: &[f64]) -> f64 {
    measure::statistics::median(rates).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use traffic::search::{Budget, Load, Measured, SearchRange, Fraction, TrialResult, Verification};

    use super::*;

    fn found(steady: bool, kept_share: f64) -> Found {
        let load = |fps| Load::new(fps).unwrap();
        let plan = tst009::Plan {
            range: SearchRange::new(load(1), load(1000)).unwrap(),
            width: Fraction::from_percent(3.0).unwrap(),
            trial: Duration::from_secs(1),
            verification: Verification::NONE,
        };
        let all_of_it = |load: Load, duration| {
            let frames = load.frames_per_second();
            Ok::<_, Infallible>(Measured::Valid(TrialResult::new(frames, frames, duration).unwrap()))
        };
        let Ok(search) = tst009::search(plan, &Budget::default(), all_of_it, |_| {});
        Found { maximum_fps: 1000.0, search, steady, kept_share }
    }

    #[test]
    fn a_later_search_takes_nothing_from_a_better_one() {
        assert!(found(true, 0.95).is_enough());
        assert!(!found(true, 0.84).is_enough() && !found(false, 0.95).is_enough());
        assert!(!found(false, 0.99).says_more_than(&found(true, 0.84)));
        assert!(!found(true, 0.4).says_more_than(&found(true, 0.84)));
        assert!(found(true, 0.86).says_more_than(&found(true, 0.84)));
    }
}
