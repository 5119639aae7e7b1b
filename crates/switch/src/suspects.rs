//! Which port caused a worker to be stuck or to panic.
//!
//! Between a source's `lend` and its `release` it is known whose code runs, except in a sink's `accept`. That call
//! reads the memory of the source's peer and writes the memory of its own peer, and either can block. A guest with
//! slow memory must not end every port that it sends to, and must not end every port that sends to it. Both ports
//! are therefore disconnected. A port is ended when the same happens with another partner, or for the third time.
use std::collections::BTreeMap;

use crate::PortId;

/// If a port gets stuck this many times with the same partner, both are ended, because the cause cannot be determined.
const MOST_WITH_ONE: usize = 3;

/// For each port, the ports with which it was found in a call that did not return.
#[derive(Debug, Default)]
pub(crate) struct Suspects(BTreeMap<PortId, Vec<PortId>>);

impl Suspects {
    /// Notes that a burst from port `from` got stuck in port `to`. Returns the ports to be ended.
    pub fn found(&mut self, from: PortId, to: PortId) -> Vec<PortId> {
        for (port, partner) in [(from, to), (to, from)] {
            self.0.entry(port).or_default().push(partner);
        }
        let guilty: Vec<PortId> = [from, to].into_iter().filter(|port| self.is_guilty(*port)).collect();
        for port in &guilty {
            self.0.remove(port);
        }
        // A port that hung together with a guilty port is not suspected for that hang any more.
        self.0.values_mut().for_each(|partners| partners.retain(|partner| !guilty.contains(partner)));
        guilty
    }

    fn is_guilty(&self, port: PortId) -> bool {
        let Some(partners) = self.0.get(&port) else { return false };
        partners.len() >= MOST_WITH_ONE || partners.windows(2).any(|two| two[0] != two[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PortId = PortId(0);
    const B: PortId = PortId(1);
    const C: PortId = PortId(2);
    const D: PortId = PortId(3);

    #[test]
    fn who_does_it_with_two_partners_goes_and_the_partners_stay() {
        let mut sender = Suspects::default();
        assert_eq!(sender.found(A, B), []);
        assert_eq!(sender.found(A, C), [A]);
        let mut receiver = Suspects::default();
        assert_eq!(receiver.found(B, A), []);
        assert_eq!(receiver.found(C, A), [A]);
        // Neither B nor C has a mark left.
        assert_eq!(receiver.found(B, D), []);
        assert_eq!(receiver.found(C, D), [D]);
    }

    #[test]
    fn two_that_do_it_again_and_again_both_go() {
        let mut suspects = Suspects::default();
        assert_eq!((suspects.found(A, B), suspects.found(B, A)), (vec![], vec![]));
        assert_eq!(suspects.found(A, B), [A, B]);
    }
}
