//! How long a vCPU may be raised in each period, as the kernel limits real-time threads (`sched_rt_runtime_us`,
//! sched(7)).

use crate::Settings;

/// The raised time that is left in this period. All time in which the thread is raised counts, whether it runs or
/// not. Unused time is not saved.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    budget_ns: i64,
    period_ns: u64,
    /// Time left, ns. Below zero if the daemon acted late; that time is deducted from the next period.
    left_ns: i64,
    renewed_ns: u64,
}

impl Budget {
    pub fn new(settings: &Settings, now_ns: u64) -> Self {
        let (budget_ns, period_ns) = (settings.budget.as_nanos() as i64, settings.period.as_nanos() as u64);
        Budget { budget_ns, period_ns, left_ns: budget_ns, renewed_ns: now_ns + period_ns }
    }

    /// Deducts the time used until now, and adds the time of periods that have ended since.
    pub fn take(&mut self, used_ns: u64, now_ns: u64) {
        self.left_ns = self.left_ns.saturating_sub_unsigned(used_ns);
        if now_ns >= self.renewed_ns {
            let periods = 1 + (now_ns - self.renewed_ns) / self.period_ns;
            self.renewed_ns += periods * self.period_ns;
            let given_ns = self.budget_ns.saturating_mul(periods as i64);
            self.left_ns = self.left_ns.saturating_add(given_ns).min(self.budget_ns);
        }
    }

    /// The rest of the budget in this period, in ns; 0 if it is exceeded.
    pub fn left_ns(&self) -> u64 {
        self.left_ns.max(0) as u64
    }

    /// When the next period begins.
    pub fn renewed_ns(&self) -> u64 {
        self.renewed_ns
    }
}
