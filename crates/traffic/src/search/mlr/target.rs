use std::time::Duration;

use super::Goal;
use crate::search::{Fraction, nanoseconds};

/// A width beyond this leaves nothing to halve.
const WIDEST: Fraction = Fraction::HALF;

/// The targets on the way to a goal: two coarser goals, then the goal itself (RFC 9971 and FD.io's implementation
/// call them targets, and the coarser ones preceding targets).
///
/// From each target to the next the width halves, and the duration sum grows by the same factor, beginning with one
/// initial trial. A load far from the result thus costs one or a few trials, and the whole duration sum is spent only
/// in the last halving.
pub(super) fn chain(goal: &Goal) -> Vec<Goal> {
    let (initial, sum) = (nanoseconds::of(goal.initial_trial()), nanoseconds::of(goal.duration_sum()));
    let least = initial.min(sum);
    // The geometric mean of two numbers of 64 bits is one.
    let between = (u128::from(least) * u128::from(sum)).isqrt() as u64;
    vec![preceding(goal, 2, least), preceding(goal, 1, between), *goal]
}

/// The target with this duration sum, at this number of places before the goal.
fn preceding(goal: &Goal, places: u32, sum: u64) -> Goal {
    // Shrunk like the sum: as many trials decide as do for the goal.
    let whole = u128::from(nanoseconds::of(goal.duration_sum()).max(1));
    let shrunk = u128::from(nanoseconds::of(goal.final_trial())) * u128::from(sum) / whole;
    let final_trial = Duration::from_nanos(u64::try_from(shrunk).unwrap_or(u64::MAX));
    let final_trial = final_trial.clamp(goal.initial_trial(), goal.final_trial());
    let width = (0..places).fold(goal.width(), |width, _| width.twice().min(WIDEST.max(goal.width())));
    goal.coarser(final_trial, Duration::from_nanos(sum), width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_double_in_width_and_shrink_in_time() {
        let width = Fraction::from_percent(0.5).unwrap();
        let seconds = |goal: &Goal| {
            let of = |duration: Duration| (duration.as_secs_f64() * 100.0).round() / 100.0;
            (
                of(goal.final_trial()),
                of(goal.duration_sum()),
                goal.width().parts_per_billion().div_ceil(1_000_000),
            )
        };
        let chain_of = |goal: Goal| chain(&goal).iter().map(seconds).collect::<Vec<_>>();
        assert_eq!(chain_of(Goal::csit(Fraction::ZERO)), [(1.0, 1.0, 20), (1.0, 4.58, 10), (1.0, 21.0, 5)]);
        assert_eq!(chain_of(Goal::tst009(width)), [(1.0, 1.0, 20), (5.48, 10.95, 10), (60.0, 120.0, 5)]);
        assert_eq!(chain_of(Goal::rfc2544(width)), [(1.0, 1.0, 20), (7.75, 7.75, 10), (60.0, 60.0, 5)]);
        // Nothing to shrink: only the width is coarser, and never so coarse that nothing is left to halve.
        let wide = Fraction::from_percent(30.0).unwrap();
        let second = Duration::from_secs(1);
        let goal = Goal::new(second, second, Fraction::ZERO, Fraction::ZERO, wide).unwrap();
        assert_eq!(chain_of(goal), [(1.0, 1.0, 500), (1.0, 1.0, 500), (1.0, 1.0, 300)]);
    }
}
