use super::classify::Sums;
use super::{Goal, LoadTrial};
use crate::search::{Fraction, Load, TrialResult, nanoseconds};

/// The conditional throughput of a load in frames per second (RFC 9971 "Conditional Throughput Logic" and
/// its code). It is the forwarding rate of the full-length trial at the quantile that the exceed ratio leaves, with
/// trials ordered by loss and weighted by duration. Trials that are missing up to the duration sum count as total
/// loss, so a load without full-length trials has the rate 0.
pub fn conditional_throughput(goal: &Goal, load: Load, trials: &[LoadTrial]) -> f64 {
    let sums = Sums::of(goal, trials);
    let whole = sums.full_low.saturating_add(sums.full_high).max(nanoseconds::of(goal.duration_sum()));
    let billion = u128::from(Fraction::WHOLE);
    let subceed = billion - u128::from(goal.exceed().parts_per_billion());
    let mut full: Vec<&LoadTrial> =
        trials.iter().filter(|trial| trial.duration >= goal.final_trial()).collect();
    full.sort_by(|a, b| a.result.compare_loss(&b.result));
    // In billionths of a nanosecond, so that a remainder of nothing is nothing.
    let mut remaining = u128::from(whole) * subceed;
    for trial in full {
        let spent = u128::from(nanoseconds::of(trial.duration)) * billion;
        if spent >= remaining {
            return forwarding_rate(load, &trial.result);
        }
        remaining -= spent;
    }
    0.0
}

/// The load times the forwarding ratio (RFC 9971 "Trial Forwarding Rate"). The whole part is exact, so that
/// rounding carries no rate beyond a device's limit.
fn forwarding_rate(load: Load, result: &TrialResult) -> f64 {
    let (received, offered) = (u128::from(result.frames_received()), u128::from(result.frames_offered()));
    let product = u128::from(load.frames_per_second()) * received;
    (product / offered) as f64 + (product % offered) as f64 / offered as f64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn trial(seconds: u64, lost: u64) -> LoadTrial {
        let duration = Duration::from_secs(seconds);
        LoadTrial { duration, result: TrialResult::new(1000, 1000 - lost, duration).unwrap() }
    }

    fn goal(final_s: u64, sum_s: u64, loss_percent: f64, exceed_percent: f64) -> Goal {
        let share = |percent| Fraction::from_percent(percent).unwrap();
        let (trial, sum) = (Duration::from_secs(final_s), Duration::from_secs(sum_s));
        Goal::new(trial, sum, share(loss_percent), share(exceed_percent), Fraction::ZERO).unwrap()
    }

    /// RFC 9971 appendix "Conditional Throughput Computations".
    #[test]
    fn the_example_of_the_rfc_yields_the_values_printed_there() {
        let load = Load::new(1_000_000).unwrap();
        let mut trials = vec![trial(1, 0); 60];
        trials.extend(vec![trial(1, 10); 60]);
        trials.extend([trial(60, 1), trial(60, 0)]);
        assert_eq!(conditional_throughput(&goal(60, 120, 0.0, 50.0), load, &trials), 1_000_000.0);
        assert_eq!(conditional_throughput(&goal(1, 120, 0.5, 50.0), load, &trials), 1_000_000.0);
        assert_eq!(conditional_throughput(&goal(60, 60, 0.5, 20.0), load, &trials), 999_000.0);
    }

    #[test]
    fn what_is_missing_to_the_sum_counts_as_lost() {
        let load = Load::new(1000).unwrap();
        let goal = goal(1, 21, 0.5, 50.0);
        // 10.5 s are to be covered: ten seconds do not, eleven do, with the loss of the worst of them.
        assert_eq!(conditional_throughput(&goal, load, &[]), 0.0);
        assert_eq!(conditional_throughput(&goal, load, &vec![trial(1, 0); 10]), 0.0);
        let mut eleven = vec![trial(1, 0); 10];
        eleven.push(trial(1, 4));
        assert_eq!(conditional_throughput(&goal, load, &eleven), 996.0);
        // A twelfth without loss pushes the lossy one beyond the quantile.
        eleven.push(trial(1, 0));
        assert_eq!(conditional_throughput(&goal, load, &eleven), 1000.0);
    }
}
