//! The only loop of trials. It waits for undisturbed cores, measures, judges the noise during the trial, and
//! repeats a disturbed trial. Every trial of `compare`, `tti`, `scenario` and `host verify` goes through this loop.

mod attempt;
mod cores;
mod quotas;
mod verdict;

use linux::interrupt;
use measure::noise::{NoiseProbe, Preemption};
use measure::quota::Throttling;

pub use attempt::{Attempt, Tried};
use cores::{Cores, Watch};
pub use quotas::Quotas;
use verdict::Circumstances;

/// Something that can be measured repeatedly.
pub trait Subject {
    /// The result of a trial.
    type Measured;
    /// The error of a trial without a result.
    type Failed;

    /// The CPUs that a trial uses, each once.
    fn cpus(&self) -> &[usize];

    /// How often the environment's CPU quota has been used up so far.
    fn throttling(&self) -> Throttling;

    /// Runs one trial.
    ///
    /// # Errors
    /// The trial gave no figure. A trial without a figure is not repeated.
    fn measure(&mut self) -> Result<Self::Measured, Self::Failed>;

    /// The length of the timed part of a trial, ns. Stolen time is judged against it.
    fn elapsed_ns(&self, measured: &Self::Measured) -> u64;
}

/// Runs the trials of one run.
pub struct Runner<W = Cores> {
    cores: W,
    cpus: usize,
}

impl Runner {
    /// A runner for a run on this many CPUs. A quick run waits less for undisturbed CPUs.
    pub fn new(cpus: usize, is_quick: bool) -> Self {
        Runner { cores: Cores::new(is_quick), cpus }
    }
}

impl<W: Watch> Runner<W> {
    /// Repeats the trial until an attempt counts or fails. Once the user has interrupted, no trial is repeated.
    pub fn trial<S: Subject>(&mut self, subject: &mut S) -> Tried<S::Measured, S::Failed> {
        let cpus = subject.cpus().to_vec();
        let mut discarded = Vec::new();
        loop {
            let disturbed_before = self.cores.wait(&cpus);
            let throttling = subject.throttling();
            let probe = NoiseProbe::start(Preemption::NotCounted);
            let measured = subject.measure();
            let mut host_noise = probe.finish();
            let measured = match measured {
                Ok(measured) => measured,
                Err(failed) => return Tried { discarded, counted: Err(failed) },
            };
            let throttling = subject.throttling().since(throttling);
            (host_noise.throttled_periods, host_noise.throttled_ns) =
                (throttling.periods, throttling.waited_ns);
            host_noise.disturbed_cpus = self.cores.disturbed_since(disturbed_before, &cpus);
            let number = discarded.len() as u32;
            let circumstances = Circumstances {
                attempt: number,
                elapsed_ns: subject.elapsed_ns(&measured),
                cpus: self.cpus,
                may_wait: self.cores.may_wait(),
                is_interrupted: interrupt::is_set(),
            };
            let (verdict, was_waited_for) = circumstances.judge(&host_noise);
            if was_waited_for {
                self.cores.repeats();
            }
            let attempt = Attempt { number, measured, host_noise, verdict };
            if attempt.verdict.counts() {
                return Tried { discarded, counted: Ok(attempt) };
            }
            discarded.push(attempt);
        }
    }
}

#[cfg(test)]
mod tests {
    use measure::Verdict;

    use super::*;

    /// Counts how often it was measured.
    struct Counted(u64);

    impl Subject for Counted {
        type Measured = u64;
        type Failed = ();

        fn cpus(&self) -> &[usize] {
            &[0]
        }

        fn throttling(&self) -> Throttling {
            Throttling { periods: self.0, waited_ns: 10 * self.0 }
        }

        fn measure(&mut self) -> Result<u64, ()> {
            self.0 += 1;
            if self.0 == 100 { Err(()) } else { Ok(self.0) }
        }

        fn elapsed_ns(&self, _: &u64) -> u64 {
            u64::MAX
        }
    }

    /// A CPU whose neighbour goes to work in each trial.
    struct Busy {
        may_wait: bool,
        repeated: u32,
    }

    impl Watch for Busy {
        fn wait(&mut self, _: &[usize]) -> Vec<usize> {
            Vec::new()
        }

        fn disturbed_since(&mut self, _: Vec<usize>, _: &[usize]) -> Vec<usize> {
            vec![5]
        }

        fn repeats(&mut self) {
            self.repeated += 1;
        }

        fn may_wait(&self) -> bool {
            self.may_wait
        }
    }

    fn tried(may_wait: bool) -> (Vec<Attempt<u64>>, u32) {
        let mut runner = Runner { cores: Busy { may_wait, repeated: 0 }, cpus: 1 };
        let tried = runner.trial(&mut Counted(0));
        assert!(tried.counted.is_ok());
        (tried.attempts().cloned().collect(), runner.cores.repeated)
    }

    #[test]
    fn a_trial_beside_a_busy_sibling_is_repeated_while_there_is_time_and_its_throttling_is_kept() {
        let (attempts, repeated) = tried(true);
        let numbers: Vec<_> = attempts.iter().map(|attempt| (attempt.number, attempt.measured)).collect();
        assert_eq!((&numbers[..], repeated), (&[(0, 1), (1, 2), (2, 3)][..], 2));
        assert!(attempts.iter().all(|attempt| attempt.host_noise.disturbed_cpus == [5]));
        assert!(attempts.iter().all(|attempt| attempt.host_noise.throttled_periods == 1));
        let verdicts: Vec<_> = attempts.iter().map(|attempt| &attempt.verdict).collect();
        let [Verdict::Discarded(_), Verdict::Discarded(_), Verdict::KeptNoisy(_)] = verdicts[..] else {
            panic!("{verdicts:?}")
        };
        // Without time to wait there is only one attempt.
        let (attempts, repeated) = tried(false);
        assert_eq!(repeated, 0);
        assert!(matches!(&attempts[..], [Attempt { verdict: Verdict::KeptNoisy(_), .. }]));
    }

    #[test]
    fn what_gives_no_figure_is_not_tried_again() {
        let mut runner = Runner { cores: Busy { may_wait: true, repeated: 0 }, cpus: 1 };
        let mut subject = Counted(99);
        let tried = runner.trial(&mut subject);
        assert!(tried.discarded.is_empty() && tried.counted.is_err());
        assert_eq!(subject.0, 100);
    }

    #[test]
    fn an_attempt_is_read_back_and_one_of_a_version_without_judgement_counts() {
        #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        struct Figure {
            users: u32,
        }
        let verdict = Verdict::Discarded("the clock jumped".into());
        let written = Attempt { number: 1, verdict, ..Attempt::from(Figure { users: 7 }) };
        let text = serde_json::to_string(&written).unwrap();
        assert!(text.starts_with(r#"{"attempt":1,"users":7,"host_noise":{"#), "{text}");
        let read: Attempt<Figure> = serde_json::from_str(&text).unwrap();
        assert_eq!((read.number, read.counted(), &read.verdict), (1, None, &written.verdict));
        let old: Attempt<Figure> = serde_json::from_str(r#"{"users":7}"#).unwrap();
        assert_eq!(old.counted(), Some(&Figure { users: 7 }));
    }
}
