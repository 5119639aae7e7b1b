//! The text about trials that were over a noise limit.

use lab::runner::Attempt;
use measure::Verdict;
use report::units;

/// One line on the noisy ones among these attempts, with an example of why; `None` if there are none. `what` names
/// them in the plural: `trials`.
pub fn remark<'a, T: 'a>(what: &str, attempts: impl IntoIterator<Item = &'a Attempt<T>>) -> Option<String> {
    let (mut all, mut discarded, mut kept, mut example) = (0, 0, 0, None);
    for attempt in attempts {
        all += 1;
        match &attempt.verdict {
            Verdict::Accepted => continue,
            Verdict::Discarded(reason) => {
                discarded += 1;
                example.get_or_insert(reason);
            }
            Verdict::KeptNoisy(reason) => {
                kept += 1;
                example.get_or_insert(reason);
            }
        }
    }
    let example = units::text(example?);
    Some(format!(
        "{discarded} of {all} {what} discarded as noisy and repeated, {kept} kept although noisy; for example: {example}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noisy_attempts_are_counted_and_quiet_ones_are_not_mentioned() {
        let of = |verdict| Attempt { verdict, ..Attempt::from(()) };
        assert_eq!(remark("trials", &[of(Verdict::Accepted)]), None);
        let noisy = [
            of(Verdict::Discarded("20 % of the CPUs' time was stolen".into())),
            of(Verdict::KeptNoisy("the clock jumped by 2 ns".into())),
            of(Verdict::Accepted),
        ];
        assert_eq!(
            remark("trials", &noisy).unwrap(),
            "1 of 3 trials discarded as noisy and repeated, 1 kept although noisy; for example: 20 % of the CPUs' \
             time was stolen"
        );
    }
}
