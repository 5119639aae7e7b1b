//! Whether one vCPU should be raised: a pure function of its hint, the time, and its used budget.

use crate::budget::Budget;
use crate::{Hint, Settings};

/// However a guest's hints change, the daemon sleeps so long between two looks: its CPU is not the guest's to use up.
const SHORTEST_SLEEP_NS: u64 = 20_000;

/// The state of a vCPU.
#[derive(Clone, Debug)]
pub(crate) struct State {
    budget: Budget,
    /// When it was raised, or when its budget was last updated.
    raised_since_ns: Option<u64>,
    /// How long the vCPU was raised in total.
    pub raised_ns: u64,
    /// How often the vCPU was raised.
    pub raised: u64,
    /// How often the vCPU's budget was used up while the vCPU requested more.
    pub exhausted: u64,
}

/// The action to take now, and the time of the next check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub raise: bool,
    pub look_again_ns: u64,
}

impl State {
    pub fn new(settings: &Settings, now_ns: u64) -> Self {
        State {
            budget: Budget::new(settings, now_ns),
            raised_since_ns: None,
            raised_ns: 0,
            raised: 0,
            exhausted: 0,
        }
    }

    pub fn is_raised(&self) -> bool {
        self.raised_since_ns.is_some()
    }

    /// Decides by the vCPU's hint.
    pub fn look(&mut self, hint: Hint, now_ns: u64, settings: &Settings) -> Decision {
        let was_raised = self.raised_since_ns;
        let used_ns = was_raised.map_or(0, |since| now_ns.saturating_sub(since));
        self.raised_ns += used_ns;
        self.budget.take(used_ns, now_ns);
        let (lead_ns, grace_ns) = (settings.lead.as_nanos() as u64, settings.grace.as_nanos() as u64);
        let raised_from_ns = hint.due_ns.saturating_sub(lead_ns);
        let is_due =
            hint.due_ns > 0 && (raised_from_ns..hint.due_ns.saturating_add(grace_ns)).contains(&now_ns);
        let wanted = hint.runs || is_due;
        let raise = wanted && self.budget.left_ns() > 0;
        self.raised += u64::from(raise && was_raised.is_none());
        self.exhausted += u64::from(wanted && !raise && was_raised.is_some());
        self.raised_since_ns = raise.then_some(now_ns);
        let mut look_again_ns = now_ns + settings.look.as_nanos() as u64;
        if raise {
            look_again_ns = look_again_ns.min(now_ns + self.budget.left_ns());
        } else if wanted {
            look_again_ns = self.budget.renewed_ns();
        } else if raised_from_ns > now_ns {
            look_again_ns = look_again_ns.min(raised_from_ns);
        }
        Decision { raise, look_again_ns: look_again_ns.max(now_ns + SHORTEST_SLEEP_NS) }
    }
}
