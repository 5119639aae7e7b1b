//! The only loop of trials. It waits for undisturbed cores, measures, judges the noise during the trial, and
//! repeats a disturbed trial. Every trial of every group goes through this loop.

mod cores;
mod verdict;

use measure::noise::{NoiseProbe, Preemption};
use measure::quota::Throttling;
use measure::{Noise, Verdict};

use cores::{Cores, Watch};
use verdict::{ATTEMPTS, Circumstances};

/// Something that can be measured repeatedly.
pub trait Subject {
    /// The result of a trial.
    type Measured;
    /// The error of a trial without a result.
    type Failed;

    /// How many CPUs of the run a trial uses. They are the first ones.
    fn cpus_used(&self) -> usize;

    /// How often the environment's CPU quota has been used up so far.
    fn throttling(&self) -> Throttling;

    /// Runs one trial.
    ///
    /// # Errors
    /// The trial gave no figure. A trial without a figure is not repeated.
    fn measure(&mut self) -> Result<Self::Measured, Self::Failed>;

    /// How long the trial took, ns.
    fn elapsed_ns(measured: &Self::Measured) -> u64;
}

/// One attempt of a trial, judged.
pub struct Attempt<T> {
    /// The number of the attempt, from 0.
    pub number: u32,
    /// The result of the attempt.
    pub measured: T,
    /// The noise during the attempt.
    pub host_noise: Noise,
    /// Whether the attempt counts.
    pub verdict: Verdict,
}

/// Runs the trials of one run.
pub struct Runner<W = Cores> {
    cores: W,
    cpus: usize,
}

impl Runner {
    /// A runner for trials on these CPUs. A quick run waits less for undisturbed CPUs.
    pub fn new(cpus: &[usize], is_quick: bool) -> Self {
        Runner { cores: Cores::new(cpus, is_quick), cpus: cpus.len() }
    }
}

impl<W: Watch> Runner<W> {
    /// Repeats the trial until an attempt counts. `keep` is called with each attempt, also with discarded ones.
    ///
    /// # Errors
    /// An attempt gave no figure.
    pub fn trial<S: Subject>(
        &mut self,
        subject: &mut S,
        mut keep: impl FnMut(Attempt<S::Measured>),
    ) -> Result<(), S::Failed> {
        let used = subject.cpus_used();
        for number in 0..ATTEMPTS {
            let disturbed_before = self.cores.wait(used);
            let throttling = subject.throttling();
            let probe = NoiseProbe::start(Preemption::NotCounted);
            let measured = subject.measure();
            let mut host_noise = probe.finish();
            let measured = measured?;
            let throttling = subject.throttling().since(throttling);
            (host_noise.throttled_periods, host_noise.throttled_ns) =
                (throttling.periods, throttling.waited_ns);
            host_noise.disturbed_cpus = self.cores.disturbed_since(disturbed_before, used);
            let circumstances = Circumstances {
                attempt: number,
                elapsed_ns: S::elapsed_ns(&measured),
                cpus: self.cpus,
                may_wait: self.cores.may_wait(),
            };
            let (verdict, was_waited_for) = circumstances.judge(&host_noise);
            if was_waited_for {
                self.cores.repeats();
            }
            let counts = verdict.counts();
            keep(Attempt { number, measured, host_noise, verdict });
            if counts {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts how often it was measured.
    struct Counted(u64);

    impl Subject for Counted {
        type Measured = u64;
        type Failed = ();

        fn cpus_used(&self) -> usize {
            1
        }

        fn throttling(&self) -> Throttling {
            Throttling { periods: self.0, waited_ns: 10 * self.0 }
        }

        fn measure(&mut self) -> Result<u64, ()> {
            self.0 += 1;
            if self.0 == 100 { Err(()) } else { Ok(self.0) }
        }

        fn elapsed_ns(_: &u64) -> u64 {
            u64::MAX
        }
    }

    /// A CPU whose neighbour goes to work in each trial.
    struct Busy {
        may_wait: bool,
        repeated: u32,
    }

    impl Watch for Busy {
        fn wait(&mut self, _: usize) -> Vec<usize> {
            Vec::new()
        }

        fn disturbed_since(&mut self, _: Vec<usize>, _: usize) -> Vec<usize> {
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
        let mut attempts = Vec::new();
        let mut runner = Runner { cores: Busy { may_wait, repeated: 0 }, cpus: 1 };
        runner.trial(&mut Counted(0), |attempt| attempts.push(attempt)).unwrap();
        (attempts, runner.cores.repeated)
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
        // Without time to wait one attempt is all there is.
        let (attempts, repeated) = tried(false);
        assert_eq!(repeated, 0);
        assert!(matches!(&attempts[..], [Attempt { verdict: Verdict::KeptNoisy(_), .. }]));
    }

    #[test]
    fn what_gives_no_figure_is_not_tried_again() {
        let mut runner = Runner { cores: Busy { may_wait: true, repeated: 0 }, cpus: 1 };
        let mut subject = Counted(99);
        assert_eq!(runner.trial(&mut subject, |_| panic!("nothing to keep")), Err(()));
        assert_eq!(subject.0, 100);
    }
}
