//! Ports that have used up their turn of the control thread, and rest.
//!
//! A port rests for as long as its call took, if that was [`TURN`] or more: it has half of the control thread's time at
//! most. The other half is for the other ports, the operator and the workers' reports. What happens at its descriptors
//! meanwhile is seen when the rest is over, and so are its timers.
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use port::TURN;

use crate::PortId;

/// When each rest is over.
#[derive(Debug, Default)]
pub(crate) struct Resting(BTreeMap<PortId, Instant>);

impl Resting {
    /// A call of a port took this long. Whether the port rests from now on.
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

    /// When a port goes on; `at` if it does not rest.
    pub fn not_before(&self, port: PortId, at: Instant) -> Instant {
        self.0.get(&port).map_or(at, |over| at.max(*over))
    }

    /// When the next rest is over.
    pub fn next(&self) -> Option<Instant> {
        self.0.values().min().copied()
    }

    /// A port whose rest is over, once.
    pub fn rested(&mut self, now: Instant) -> Option<PortId> {
        let port = self.0.iter().find(|(_, over)| **over <= now).map(|(port, _)| *port)?;
        self.0.remove(&port);
        Some(port)
    }

    /// The port is gone.
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
