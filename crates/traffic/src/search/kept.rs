//! The highest load that the generator can sustain. Above it every trial of a search is invalid.
use super::{Invalid, Load, Measured};

/// Valid trials that show that the generator keeps a load: one could be luck, and a search needs more.
const ENOUGH: u32 = 2;

/// The number of trials that may miss the rate before a lower rate is tried. Trials in which the generator was
/// preempted do not count, because they show nothing about the rate.
const MISSES: u32 = 4;

/// The most trials at one load, with any result.
const TRIALS: u32 = 16;

/// The range of the next load, in percent of the last load: the next load is the best rate that was reached, limited to
/// this range.
const LOWER_PERCENT: std::ops::RangeInclusive<u64> = 90..=97;

/// The highest load up to `asked` that the generator sustains. `None` if it sustains none above a quarter of that,
/// because the machine is then disturbed at any load.
///
/// # Errors
/// `measure` returned an error.
pub fn kept<E>(asked: Load, mut measure: impl FnMut(Load) -> Result<Measured, E>) -> Result<Option<Load>, E> {
    let mut load = asked;
    while load.frames_per_second() > asked.frames_per_second() / 4 {
        let (mut valid, mut missed, mut best_percent) = (0, 0, 0);
        for _ in 0..TRIALS {
            match measure(load)? {
                Measured::Valid(_) => valid += 1,
                Measured::Invalid(Invalid::MissedRate { frames_due, frames_sent }) => {
                    missed += 1;
                    let percent = u128::from(frames_sent) * 100 / u128::from(frames_due.max(1));
                    best_percent = best_percent.max(percent as u64);
                }
                Measured::Invalid(_) => {}
            }
            if valid == ENOUGH {
                return Ok(Some(load));
            }
            if missed == MISSES {
                break;
            }
        }
        let percent = best_percent.clamp(*LOWER_PERCENT.start(), *LOWER_PERCENT.end());
        let lower = u128::from(load.frames_per_second()) * u128::from(percent) / 100;
        let Some(lower) = Load::new(lower as u64) else { break };
        load = lower;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use super::*;
    use crate::search::TrialResult;

    /// A generator that sends no more than `limit`, as measured by trials of which only each `lucky`th is
    /// undisturbed; and in how many trials the answer was found.
    fn found(limit: u64, lucky: u32) -> (Option<u64>, u32) {
        let mut trials = 0u32;
        let measure = |load: Load| {
            trials += 1;
            let due = load.frames_per_second();
            let (disturbed, sent) = (!trials.is_multiple_of(lucky), due.min(limit));
            Ok::<_, Infallible>(match (disturbed, sent == due) {
                (true, _) => Measured::Invalid(Invalid::Preempted),
                (_, false) => Measured::Invalid(Invalid::MissedRate { frames_due: due, frames_sent: sent }),
                _ => Measured::Valid(TrialResult::new(due, due, Duration::from_secs(1)).unwrap()),
            })
        };
        let Ok(load) = kept(Load::new(1_000_000).unwrap(), measure);
        (load.map(Load::frames_per_second), trials)
    }

    #[test]
    fn a_search_begins_at_what_the_generator_keeps() {
        assert_eq!(found(1_000_000, 1), (Some(1_000_000), 2));
        let (load, trials) = found(940_000, 1);
        assert!((910_000..=940_000).contains(&load.unwrap()), "{load:?}");
        assert!(trials < 20, "{trials}");
        let (load, _) = found(400_000, 1);
        assert!((380_000..=400_000).contains(&load.unwrap()), "{load:?}");
    }

    #[test]
    fn what_was_preempted_is_not_the_loads_fault() {
        assert_eq!(found(1_000_000, 6), (Some(1_000_000), 12));
        assert_eq!(found(1_000_000, 10_000).0, None, "disturbed all the time");
        assert_eq!(found(1, 1).0, None);
    }

    #[test]
    fn what_goes_wrong_ends_it() {
        assert_eq!(kept(Load::new(1).unwrap(), |_| Err("interrupted")), Err("interrupted"));
    }
}
