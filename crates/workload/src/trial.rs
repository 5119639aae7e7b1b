use std::time::Duration;

use measure::Failure;

/// The parameters of a trial, checked, so that a workload need not check them.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    /// The time to measure.
    pub(crate) budget: Duration,
    /// The CPUs to use; at least one.
    pub(crate) cpus: Vec<usize>,
}

/// No trial is longer: a wrong number must not hang the agent.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

impl Trial {
    pub(crate) fn new(budget_ms: u64, cpus: Vec<usize>) -> Result<Self, Failure> {
        let budget = Duration::from_millis(budget_ms);
        if budget.is_zero() || budget > LONGEST {
            return Err(Failure::new(
                format!("a trial of {budget_ms} ms"),
                "no such length",
                format!("give 1 to {} ms", LONGEST.as_millis()),
            ));
        }
        let mut distinct = cpus.clone();
        distinct.sort_unstable();
        distinct.dedup();
        if cpus.is_empty() || distinct.len() != cpus.len() {
            return Err(Failure::new(
                format!("a trial on the CPUs {cpus:?}"),
                "none, or one twice",
                "name at least one CPU, each once",
            ));
        }
        Ok(Trial { budget, cpus })
    }

    /// The CPU of the measured thread.
    pub(crate) fn cpu(&self) -> usize {
        self.cpus[0]
    }

    /// A second CPU, for work that needs one beside the measured CPU.
    pub(crate) fn other_cpu(&self) -> Result<usize, Failure> {
        self.cpus.get(1).copied().ok_or_else(|| {
            Failure::new("work on another CPU", "the trial has only one CPU", "give the run two CPUs")
        })
    }

    #[cfg(test)]
    pub(crate) fn for_test(budget: Duration) -> Self {
        Trial { budget, cpus: crate::pin::usable_cpus() }
    }
}
