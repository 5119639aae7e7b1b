//! The limits within which hints are followed.

use std::time::Duration;

use measure::Failure;

/// Settings for all vCPUs of a daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// SCHED_FIFO priority of a raised vCPU. The daemon has the next higher one.
    pub priority: i32,
    /// How long a vCPU may be raised in each period.
    pub budget: Duration,
    /// The period.
    pub period: Duration,
    /// How long before a task is due its vCPU is raised: the time that the vCPU takes to get the CPU.
    pub lead: Duration,
    /// How long the daemon keeps a vCPU raised for a due task that has not begun.
    pub grace: Duration,
    /// How often the daemon reads hints that have no time.
    pub look: Duration,
    /// The daemon's CPUs; if empty, any.
    pub cpus: Vec<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            priority: 1,
            budget: Duration::from_millis(2),
            period: Duration::from_millis(10),
            lead: Duration::from_micros(50),
            grace: Duration::from_micros(200),
            look: Duration::from_micros(100),
            cpus: Vec::new(),
        }
    }
}

/// The percentage of a CPU's time for which vCPUs that share it may be raised together. The rest is left for all
/// other threads.
pub(crate) const MAX_PERCENT: u128 = 60;

impl Settings {
    /// The percentage of a CPU's time for which a vCPU may be raised.
    pub(crate) fn percent(&self) -> u128 {
        100 * self.budget.as_nanos() / self.period.as_nanos().max(1)
    }

    /// Checks the settings for `vcpus` vCPUs on one CPU.
    ///
    /// # Errors
    /// The vCPUs would leave less than four tenths of the CPU's time to others, or a time is zero.
    pub fn check(&self, vcpus: usize) -> Result<(), Failure> {
        let refused = |answer: String, remedy: &str| {
            Err(Failure::new("limiting how long vCPUs are raised", answer, remedy))
        };
        if self.budget.is_zero() || self.look.is_zero() || self.period <= self.budget {
            return refused(
                format!("{:?} of {:?}, looked at every {:?}", self.budget, self.period, self.look),
                "take a period longer than the budget, and no time of zero",
            );
        }
        let percent = self.percent() * vcpus as u128;
        if percent > MAX_PERCENT {
            return refused(
                format!("{vcpus} vCPUs together could be raised for {percent} % of a CPU"),
                "take a shorter budget or fewer vCPUs: 60 % is the most",
            );
        }
        Ok(())
    }
}
