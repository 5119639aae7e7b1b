//! The rule for noise: whether an attempt of a trial counts.

use measure::{Noise, Verdict};

/// How many attempts a trial has. The last one is kept even if it is noisy.
const ATTEMPTS: u32 = 3;

/// The noise limits of one trial.
const STEAL_LIMIT: f64 = 0.02;
const CLOCK_JUMP_LIMIT_NS: u64 = 1_000_000;

/// The facts by which an attempt is judged, in addition to the noise.
pub struct Circumstances {
    /// The number of the attempt, from 0.
    pub attempt: u32,
    /// How long the attempt took, ns.
    pub elapsed_ns: u64,
    /// The number of the run's CPUs.
    pub cpus: usize,
    /// Whether there is time to wait for undisturbed cores.
    pub may_wait: bool,
    /// Whether the user has interrupted the run.
    pub is_interrupted: bool,
}

impl Circumstances {
    /// The verdict, and whether the trial is repeated because of its cores' SMT siblings alone.
    pub fn judge(&self, noise: &Noise) -> (Verdict, bool) {
        let noisy = self.over_limit(noise);
        // Without time to wait it would only be disturbed again.
        let is_last =
            self.attempt + 1 >= ATTEMPTS || self.is_interrupted || noisy.is_none() && !self.may_wait;
        let is_noisy = noisy.is_some();
        match (noisy.or_else(|| siblings(noise)), is_last) {
            (None, _) => (Verdict::Accepted, false),
            (Some(reason), false) => (Verdict::Discarded(reason), !is_noisy),
            (Some(reason), true) => (Verdict::KeptNoisy(reason), false),
        }
    }

    /// Why the trial is over a limit, if it is.
    fn over_limit(&self, noise: &Noise) -> Option<String> {
        let time_ns = self.elapsed_ns.max(1) as f64;
        let steal = noise.steal_ns as f64 / (time_ns * self.cpus as f64);
        if steal > STEAL_LIMIT {
            return Some(format!("{:.0} % of the CPUs' time was stolen", steal * 100.0));
        }
        let jump_ns = noise.clock_jump_ns;
        (jump_ns > CLOCK_JUMP_LIMIT_NS).then(|| format!("the clock jumped by {jump_ns} ns"))
    }
}

/// The text about a trial on cores whose SMT siblings were busy.
fn siblings(noise: &Noise) -> Option<String> {
    let cpus: Vec<String> = noise.disturbed_cpus.iter().map(usize::to_string).collect();
    (!cpus.is_empty()).then(|| format!("the SMT sibling of CPU {} was at work", cpus.join(" and ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(elapsed_ns: u64) -> Circumstances {
        Circumstances { attempt: 0, elapsed_ns, cpus: 2, may_wait: true, is_interrupted: false }
    }

    #[test]
    fn steal_counts_against_the_time_of_all_cpus() {
        let stolen = Noise { steal_ns: 10_000_000, ..Noise::default() };
        assert!(first(25_000_000).over_limit(&stolen).unwrap().contains("20 %"));
        assert_eq!(first(1_000_000_000).over_limit(&stolen), None);
        assert_eq!(first(1).over_limit(&Noise::default()), None);
    }

    #[test]
    fn a_clock_that_jumps_spoils_a_trial() {
        let jumped = Noise { clock_jump_ns: 2_000_000, ..Noise::default() };
        assert!(first(1_000_000_000).over_limit(&jumped).unwrap().contains("jumped"));
    }

    #[test]
    fn a_disturbed_trial_is_repeated_and_its_last_attempt_is_kept() {
        let disturbed = Noise { disturbed_cpus: vec![0, 3], ..Noise::default() };
        let reason = "the SMT sibling of CPU 0 and 3 was at work".to_owned();
        let of = |attempt, may_wait, noise: &Noise| {
            Circumstances { attempt, may_wait, ..first(1_000_000_000) }.judge(noise)
        };
        assert_eq!(of(0, true, &Noise::default()), (Verdict::Accepted, false));
        assert_eq!(of(0, true, &disturbed), (Verdict::Discarded(reason.clone()), true));
        assert_eq!(of(0, false, &disturbed), (Verdict::KeptNoisy(reason.clone()), false));
        assert_eq!(of(ATTEMPTS - 1, true, &disturbed), (Verdict::KeptNoisy(reason), false));
        // Steal is no matter of waiting: it is tried again at once.
        let stolen = Noise { steal_ns: 1_000_000_000, ..disturbed };
        let interrupted = Circumstances { is_interrupted: true, ..first(1_000_000_000) };
        assert!(matches!(interrupted.judge(&stolen), (Verdict::KeptNoisy(_), false)));
        assert!(matches!(of(0, false, &stolen), (Verdict::Discarded(_), false)));
        assert!(matches!(of(ATTEMPTS - 1, false, &stolen), (Verdict::KeptNoisy(_), false)));
    }
}
