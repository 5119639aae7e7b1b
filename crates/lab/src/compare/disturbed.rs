//! Trials that were disturbed, and how often they are tried.
use measure::{Noise, Outcome};

/// Tries of a trial before a noisy one is kept.
pub const ATTEMPTS: u32 = 3;

/// The noise limits of one trial.
const STEAL_LIMIT: f64 = 0.02;
const CLOCK_JUMP_LIMIT_NS: u64 = 1_000_000;

/// Why a trial is too noisy to count, if it is.
pub fn over_limit(outcome: &Outcome, host: &Noise, cpus: usize) -> Option<String> {
    let time_ns = outcome.elapsed_ns.max(1) as f64;
    let steal = host.steal_ns as f64 / (time_ns * cpus as f64);
    if steal > STEAL_LIMIT {
        return Some(format!("{:.0} % of the CPUs' time was stolen", steal * 100.0));
    }
    let jump_ns = host.clock_jump_ns;
    (jump_ns > CLOCK_JUMP_LIMIT_NS).then(|| format!("the clock jumped by {jump_ns} ns"))
}

/// What to say of a trial on cores whose SMT siblings were at work.
pub fn disturbed(host: &Noise) -> Option<String> {
    let cpus: Vec<String> = host.disturbed_cpus.iter().map(usize::to_string).collect();
    (!cpus.is_empty()).then(|| format!("the SMT sibling of CPU {} was at work", cpus.join(" and ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(elapsed_ns: u64) -> Outcome {
        Outcome {
            value: 1.0,
            samples: vec![],
            histogram: None,
            missed: 0,
            elapsed_ns,
            remarks: vec![],
            noise: Noise::default(),
        }
    }

    #[test]
    fn steal_counts_against_the_time_of_all_cpus() {
        let stolen = Noise { steal_ns: 10_000_000, ..Noise::default() };
        assert!(over_limit(&outcome(25_000_000), &stolen, 2).unwrap().contains("20 %"));
        assert_eq!(over_limit(&outcome(1_000_000_000), &stolen, 2), None);
        assert_eq!(over_limit(&outcome(1), &Noise::default(), 2), None);
        let disturbing = Noise { disturbed_cpus: vec![0, 3], ..Noise::default() };
        assert_eq!(disturbed(&disturbing).unwrap(), "the SMT sibling of CPU 0 and 3 was at work");
        assert_eq!(disturbed(&Noise::default()), None);
    }

    #[test]
    fn a_clock_that_jumps_spoils_a_trial() {
        let jumped = Noise { clock_jump_ns: 2_000_000, ..Noise::default() };
        assert!(over_limit(&outcome(1_000_000_000), &jumped, 2).unwrap().contains("jumped"));
    }
}
