//! Ports that have used up their share of the control thread, and rest.
//!
//! After a call that took [`TURN`] or longer, a port rests for the same time. A port can thus use at most half of
//! the control thread's time. The other half is left for other ports, the operator and the workers' reports.
//! Events of its descriptors and timers are handled when the rest is over.
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use port::TURN;

use crate::PortId;

/// When the rest of each port ends.
#[derive(Debug, Default)]
pub(crate) struct Resting(BTreeMap<PortId, Instant>);

impl Resting {
    /// Notes how long a call of a port took. Returns whether the port rests from now on.
    pub fn called(&mut self, port: PortId, took: Duration, now: Instant) -> bool {
        let rests = took >= TURN;
        if rests {
            self.0.insert(port, now + took);
        }
        rests
    }

    pub fn rests(&self, port: PortId) -> bool {
        self.0.contains_key(&port)
    }

    /// When a port may be called, not before `at`.
    pub fn not_before(&self, port: PortId, at: Instant) -> Instant {
        self.0.get(&port).map_or(at, |over| at.max(*over))
    }

    /// When the next rest ends.
    pub fn next(&self) -> Option<Instant> {
        self.0.values().min().copied()
    }

    /// Returns a port whose rest is over, once.
    pub fn rested(&mut self, now: Instant) -> Option<PortId> {
        let port = self.0.iter().find(|(_, over)| **over <= now).map(|(port, _)| *port)?;
        self.0.remove(&port);
        Some(port)
    }

    /// Forgets a port that was removed.
    pub fn forget(&mut self, port: PortId) {
        self.0.remove(&port);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_rests_as_long_as_it_worked() {
        let (mut resting, now) = (Resting::default(), Instant::now());
        let (greedy, modest) = (PortId(1), PortId(2));
        assert!(!resting.called(modest, TURN / 2, now));
        assert!(resting.called(greedy, 40 * TURN, now));
        assert_eq!((resting.rests(greedy), resting.rests(modest)), (true, false));
        let over = now + 40 * TURN;
        assert_eq!((resting.not_before(greedy, now), resting.not_before(modest, now)), (over, now));
        assert_eq!((resting.next(), resting.rested(now)), (Some(over), None));
        assert_eq!((resting.rested(over), resting.rested(over), resting.next()), (Some(greedy), None, None));
    }
}
