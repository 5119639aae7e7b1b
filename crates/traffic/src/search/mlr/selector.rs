use std::num::NonZeroU64;
use std::time::Duration;

use super::loads::Loads;
use super::target::chain;
use super::{Class, Goal, LoadTrial};
use crate::search::bisection::narrow;
use crate::search::{Bounds, Fraction, Load, SearchRange, TrialInput, nanoseconds};

/// The factor by which each short trial at a load is longer than the one before.
const GROWTH: u32 = 4;

/// Chooses the trials for one goal, one target of its [`chain`] after the other.
///
/// The bounds of one target are where the next target begins: first in the middle, which halves the interval, then at
/// the other end. If both loads are classified as expected, the target is reached with two loads. If not, the search
/// moves away from the known bound in growing steps until it has the other bound, and then halves the interval.
#[derive(Debug)]
pub(super) struct Selector {
    range: SearchRange,
    targets: Vec<Goal>,
    /// The index of the present target.
    at: usize,
    /// The bounds of the previous target. They are starting points for this target, not bounds of it.
    anchors: Bounds<Load>,
    /// The load that is being classified.
    load: Option<Load>,
    /// The next distance from a bound, relative to the higher of the two loads; zero before the first step.
    step: Fraction,
    /// The load of the last step.
    stepped: Option<Load>,
}

impl Selector {
    /// Begins with two loads between which the result may lie.
    pub fn new(range: SearchRange, goal: &Goal, anchors: Bounds<Load>) -> Selector {
        Selector {
            range,
            targets: chain(goal),
            at: 0,
            anchors,
            load: None,
            step: Fraction::ZERO,
            stepped: None,
        }
    }

    /// The next trial for this goal; `None` when the goal is reached.
    ///
    /// Its load lies strictly between the target's bounds, where no load is classified yet, so each trial leads
    /// closer to a decision.
    pub fn nominate(&mut self, loads: &Loads) -> Option<TrialInput> {
        let mut bounds = loads.relevant(self.target());
        while is_reached(self.target(), self.range, bounds) {
            if self.at + 1 == self.targets.len() {
                return None;
            }
            self.at += 1;
            self.anchors = bounds;
            (self.load, self.step, self.stepped) = (None, Fraction::ZERO, None);
            bounds = loads.relevant(self.target());
        }
        let target = *self.target();
        let open = |load: &Load| is_between(*load, bounds) && loads.class(&target, *load) == Class::Undecided;
        let load = match self.load.filter(open) {
            Some(load) => load,
            None => self.choose(bounds),
        };
        self.load = Some(load);
        Some(TrialInput { load, duration: duration(&target, loads, load) })
    }

    fn target(&self) -> &Goal {
        &self.targets[self.at]
    }

    fn choose(&mut self, bounds: Bounds<Load>) -> Load {
        let width = self.target().width();
        if let Some(load) = self.anchored(bounds, width) {
            return load;
        }
        if self.step == Fraction::ZERO {
            let apart =
                self.anchors.lower.zip(self.anchors.upper).map_or(Fraction::ZERO, |(lower, upper)| {
                    let (lower, upper) = (lower.frames_per_second(), upper.frames_per_second());
                    Fraction::of_whole(upper - lower, upper)
                });
            self.step = apart.max(width.twice());
        } else if self.stepped.is_some() && (self.stepped == bounds.lower || self.stepped == bounds.upper) {
            // The last step became the bound.
            self.step = self.step.twice();
        }
        self.stepped = None;
        let (min, max) = (self.range.min(), self.range.max());
        match (bounds.lower, bounds.upper) {
            (None, None) => max,
            (Some(lower), None) => {
                let up = self.above(lower).min(max);
                // The range above would be too small for another trial.
                let load = if narrow(up.into(), max.into(), width) { max } else { up };
                self.stepped = Some(load);
                load
            }
            (None, Some(upper)) => {
                let down = self.below(upper).max(min);
                let load = if narrow(min.into(), down.into(), width) { min } else { down };
                self.stepped = Some(load);
                load
            }
            (Some(lower), Some(upper)) => self.between(lower, upper, width),
        }
    }

    /// Chooses a load at a bound of the previous target, as long as this target has no result there.
    fn anchored(&self, bounds: Bounds<Load>, width: Fraction) -> Option<Load> {
        let Bounds { lower, upper } = self.anchors;
        let halved = lower.zip(upper).and_then(|(lower, upper)| {
            let halves = !narrow(lower.into(), upper.into(), width)
                && narrow(lower.into(), upper.into(), width.twice());
            halves.then(|| middle(lower, upper, width))
        });
        // Beside a bound there is nothing to learn.
        let apart = |load: Load, bound: Option<Load>| {
            bound.is_none_or(|bound| {
                let rate = load.frames_per_second();
                rate.abs_diff(bound.frames_per_second()) > width.of(rate) / 4
            })
        };
        let worth = |load: &Load| {
            is_between(*load, bounds) && apart(*load, bounds.lower) && apart(*load, bounds.upper)
        };
        [halved, lower, upper].into_iter().flatten().find(worth)
    }

    /// Halves, or goes on from a bound at which the answer was expected: the other may be another goal's, and
    /// far away.
    fn between(&mut self, lower: Load, upper: Load, width: Fraction) -> Load {
        let middle = middle(lower, upper, width);
        let beyond = |anchor: Option<Load>, is: fn(Load, Load) -> bool, bound: Load| {
            anchor.is_some_and(|anchor| is(bound, anchor))
        };
        let (down, up) = (self.below(upper), self.above(lower));
        if beyond(self.anchors.lower, |upper, anchor| upper <= anchor, upper) && down > middle {
            self.stepped = Some(down);
            return down;
        }
        if beyond(self.anchors.upper, |lower, anchor| lower >= anchor, lower) && up < middle {
            self.stepped = Some(up);
            return up;
        }
        middle
    }

    fn above(&self, load: Load) -> Load {
        let part = u128::from(Fraction::WHOLE - self.step.parts_per_billion());
        let up = u128::from(load.frames_per_second()) * u128::from(Fraction::WHOLE) / part;
        let up = u64::try_from(up).unwrap_or(u64::MAX);
        at_least_one(up.max(load.frames_per_second().saturating_add(1)))
    }

    fn below(&self, load: Load) -> Load {
        let step = self.step.of(load.frames_per_second()).max(1);
        at_least_one(load.frames_per_second().saturating_sub(step))
    }
}

/// While all short trials at the load lose too much, a longer short one may make it an upper bound for less
/// than full-length ones would cost. After one that does not, only full-length ones help.
fn duration(target: &Goal, loads: &Loads, load: Load) -> Duration {
    let trials = loads.at(load);
    let short = || trials.iter().filter(|trial| trial.duration < target.final_trial());
    let missing = missing(target, trials);
    if missing.is_zero() || short().any(|trial| !trial.result.loss_exceeds(target.loss())) {
        return target.final_trial();
    }
    let longer = u32::try_from(short().count()).unwrap_or(u32::MAX);
    let duration = target.initial_trial().saturating_mul(GROWTH.saturating_pow(longer));
    duration.min(missing).clamp(target.initial_trial(), target.final_trial())
}

/// The time of further lossy trials that makes the load an upper bound.
fn missing(target: &Goal, trials: &[LoadTrial]) -> Duration {
    let lossy: Duration = trials.iter().map(|trial| trial.duration).sum();
    let allowed = target.exceed().of(nanoseconds::of(target.duration_sum()));
    Duration::from_nanos(allowed.saturating_add(1)).saturating_sub(lossy)
}

/// Whether the bounds are as close as the target requires, or cannot be closer.
pub(super) fn is_reached(target: &Goal, range: SearchRange, bounds: Bounds<Load>) -> bool {
    match (bounds.lower, bounds.upper) {
        (Some(lower), Some(upper)) => narrow(lower.into(), upper.into(), target.width()),
        (Some(lower), None) => lower == range.max(),
        (None, Some(upper)) => upper == range.min(),
        (None, None) => false,
    }
}

/// A load strictly between the two bounds. One part is the width, doubled several times, so that halving the part gives
/// whole widths and leaves no small remainder.
fn middle(lower: Load, upper: Load, width: Fraction) -> Load {
    let (low, high) = (lower.frames_per_second(), upper.frames_per_second());
    let gap = high - low;
    let even = Load::from(NonZeroU64::from(lower).midpoint(upper.into()));
    let halved = narrow(lower.into(), even.into(), width) && narrow(even.into(), upper.into(), width);
    if halved || width == Fraction::ZERO {
        return even;
    }
    if gap > high / 2 {
        // Over orders of magnitude: the middle of the logarithms.
        let root = (u128::from(low) * u128::from(high)).isqrt() as u64;
        return at_least_one(root.clamp(low + 1, high - 1));
    }
    let mut part = width;
    while part.of(high) <= gap / 3 && part.twice() > part {
        part = part.twice();
    }
    at_least_one((high - part.of(high)).clamp(low + 1, high - 1))
}

fn is_between(load: Load, bounds: Bounds<Load>) -> bool {
    bounds.lower.is_none_or(|lower| lower < load) && bounds.upper.is_none_or(|upper| load < upper)
}

/// The load with this rate, at least one frame per second.
pub(super) fn at_least_one(rate: u64) -> Load {
    Load::from(NonZeroU64::new(rate).unwrap_or(NonZeroU64::MIN))
}
