//! Detects other processes on the SMT siblings of the cores that a trial uses (`measure::siblings`). The runner
//! probes these cores before and after each trial, and waits, within a limit, until they are undisturbed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use linux::interrupt;
use measure::siblings::{Baseline, DISTURBED, arithmetic_ns};

/// The part of the time so far that may go into waiting and into trials that are repeated for that.
const WAITING: f64 = 0.3;
/// The longest total wait of a quick run, which is to take minutes only.
const QUICK_WAITING: Duration = Duration::from_secs(25);
const PAUSE: Duration = Duration::from_millis(10);

/// A check is repeated this many times at once before it counts: an idle core may be slow for a moment.
const LOOKS: usize = 3;

/// Looks after which the best of before is forgotten: some ten seconds of a quick run.
const MEMORY: usize = 400;

/// Detects work on the SMT siblings of a trial's CPUs.
pub trait Watch {
    /// Must be called before a trial on these CPUs. Waits until they are undisturbed, as long as
    /// [`Watch::may_wait`] is true. Returns the CPUs that are still disturbed.
    fn wait(&mut self, cpus: &[usize]) -> Vec<usize>;

    /// Must be called after the trial. Returns the CPUs that were disturbed before it or are disturbed now.
    fn disturbed_since(&mut self, before: Vec<usize>, cpus: &[usize]) -> Vec<usize>;

    /// Notes that the trial is repeated because of disturbed CPUs.
    fn repeats(&mut self);

    /// Whether there is time to wait, or to repeat a trial.
    fn may_wait(&self) -> bool;
}

/// The cores of a run.
pub struct Cores {
    /// The best times so far, by the CPUs probed together: two threads of one core slow each other down.
    baselines: BTreeMap<Vec<usize>, Baseline>,
    begin: Instant,
    is_quick: bool,
    /// On an emulated CPU a sibling's work cannot be distinguished from the CPU's own speed.
    is_emulated: bool,
    waited: Duration,
    /// When the first attempt of the present trial began.
    trial: Instant,
}

impl Cores {
    /// A watch at the beginning of a run.
    pub fn new(is_quick: bool) -> Self {
        let now = Instant::now();
        Cores {
            baselines: BTreeMap::new(),
            begin: now,
            is_quick,
            is_emulated: kvm::is_emulated(),
            waited: Duration::ZERO,
            trial: now,
        }
    }

    fn wait_while_disturbed(&mut self, mut look: impl FnMut(&mut Self) -> Vec<usize>) -> Vec<usize> {
        let mut disturbed = look(self);
        while !disturbed.is_empty() && self.may_wait() && !interrupt::is_set() {
            // A look takes time as well: on an emulated CPU longer than the pause.
            let since = Instant::now();
            std::thread::sleep(PAUSE);
            disturbed = look(self);
            self.waited += since.elapsed();
        }
        self.trial = Instant::now();
        disturbed
    }

    fn look(&mut self, cpus: &[usize]) -> Vec<usize> {
        if self.is_emulated {
            return Vec::new();
        }
        let baseline = self.baselines.entry(cpus.to_vec()).or_insert_with(|| Baseline::of_the_last(MEMORY));
        let mut disturbed = Vec::new();
        for _ in 0..LOOKS {
            // The trials of a CPU that this process may no longer use fail, with this reason.
            let Ok(now_ns) = arithmetic_ns(cpus) else { return Vec::new() };
            disturbed = baseline.disturbed(&now_ns, DISTURBED);
            if disturbed.is_empty() {
                break;
            }
        }
        disturbed.into_iter().map(|place| cpus[place]).collect()
    }
}

impl Watch for Cores {
    fn wait(&mut self, cpus: &[usize]) -> Vec<usize> {
        self.wait_while_disturbed(|cores| cores.look(cpus))
    }

    fn disturbed_since(&mut self, before: Vec<usize>, cpus: &[usize]) -> Vec<usize> {
        let mut disturbed = self.look(cpus);
        disturbed.extend(before);
        disturbed.sort_unstable();
        disturbed.dedup();
        disturbed
    }

    fn repeats(&mut self) {
        self.waited += self.trial.elapsed();
    }

    fn may_wait(&self) -> bool {
        let most = if self.is_quick { QUICK_WAITING } else { Duration::MAX };
        !self.is_emulated && self.waited < self.begin.elapsed().mul_f64(WAITING).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_that_take_long_are_waiting_too() {
        let mut cores = Cores { is_emulated: false, ..Cores::new(true) };
        // A second has passed: three tenths of all may be waited for.
        cores.begin -= Duration::from_secs(1);
        let since = Instant::now();
        let disturbed = cores.wait_while_disturbed(|_| {
            std::thread::sleep(4 * PAUSE);
            vec![0]
        });
        assert_eq!(disturbed, [0]);
        assert!(cores.waited > since.elapsed() / 2, "{:?} of {:?}", cores.waited, since.elapsed());
    }
}
