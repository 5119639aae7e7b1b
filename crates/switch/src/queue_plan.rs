//! Which worker serves which queue.
//!
//! Source `k` of port `p` belongs to worker `(k + p) mod W`: the queues of one port go to different
//! workers, and ports with one queue each do not all go to the first.
//!
//! A sink is used by the workers whose sources may send to its port. If a port has at least as many running sinks
//! as such workers, each sink belongs to one worker. Otherwise several workers share a sink and claim it for each
//! burst. A worker with several sinks of one port chooses one by the hash of the flow. A flow that its sender
//! always sends on one queue is moved by one worker to one sink, so its frames stay in order.
use std::collections::BTreeSet;
use std::sync::Arc;

use pipeline::{Program, Reach};

use crate::PortId;

/// The worker or workers of a sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QueueAssignment {
    /// One worker has the sink.
    Own(usize),
    /// To these.
    Shared(Vec<usize>),
}

/// Ports that reach each other.
struct Network<'a> {
    members: &'a Arc<[PortId]>,
    /// Whether frames may go back to the port that they came from.
    and_back: bool,
    /// For each worker, the ports whose frames it moves.
    sending_ports: Vec<BTreeSet<PortId>>,
}

/// The assignment of queues to workers, which is known before any queue runs.
#[derive(Clone, Debug)]
pub(crate) struct QueuePlan {
    workers: usize,
    /// For each port, the workers that may send to it.
    users: Vec<Vec<usize>>,
}

impl QueuePlan {
    /// A plan for ports with these programs and at most this many queue pairs.
    pub fn new(workers: usize, programs: &[Arc<dyn Program>], pairs: &[u16]) -> Self {
        let mut users = vec![BTreeSet::new(); programs.len()];
        let mut networks: Vec<Network<'_>> = Vec::new();
        for ((port, program), pairs) in (0..).map(PortId).zip(programs).zip(pairs) {
            // The first is there for announcements even if the port has no queue.
            let senders = (0..(*pairs).max(1)).map(|pair| worker(workers, port, pair));
            match program.reach() {
                Reach::Nowhere => {}
                Reach::Port(to) => users[usize::from(to.0)].extend(senders),
                Reach::Others(members) | Reach::All(members) => {
                    let and_back = matches!(program.reach(), Reach::All(_));
                    let same = |network: &Network<'_>| Arc::ptr_eq(network.members, members);
                    let at = networks.iter().position(same).unwrap_or_else(|| {
                        let sending_ports = vec![BTreeSet::new(); workers.max(1)];
                        networks.push(Network { members, and_back, sending_ports });
                        networks.len() - 1
                    });
                    for sender in senders {
                        networks[at].sending_ports[sender].insert(port);
                    }
                }
            }
        }
        for Network { members, and_back, sending_ports } in networks {
            for member in members.iter() {
                let own = |ports: &BTreeSet<PortId>| usize::from(!and_back && ports.contains(member));
                let sends = |ports: &BTreeSet<PortId>| ports.len() > own(ports);
                let senders = (0..).zip(&sending_ports).filter(|(_, ports)| sends(ports));
                users[usize::from(member.0)].extend(senders.map(|(worker, _)| worker));
            }
        }
        QueuePlan { workers, users: users.into_iter().map(|set| set.into_iter().collect()).collect() }
    }

    /// The worker of a source.
    pub fn source(&self, port: PortId, pair: u16) -> usize {
        worker(self.workers, port, pair)
    }

    /// The assignments of all running sinks of a port, in their order.
    pub fn sinks(&self, port: PortId, running: usize) -> Vec<QueueAssignment> {
        let users = &self.users[usize::from(port.0)];
        if running == 0 {
            return Vec::new();
        }
        if users.is_empty() {
            // No port sends here, but a worker has to keep the queues.
            return vec![QueueAssignment::Own(worker(self.workers, port, 0)); running];
        }
        if running >= users.len() {
            return (0..running).map(|i| QueueAssignment::Own(users[i % users.len()])).collect();
        }
        let of = |i: usize| users.iter().copied().skip(i).step_by(running).collect::<Vec<_>>();
        (0..running)
            .map(|i| match &of(i)[..] {
                [one] => QueueAssignment::Own(*one),
                several => QueueAssignment::Shared(several.to_vec()),
            })
            .collect()
    }
}

fn worker(workers: usize, port: PortId, pair: u16) -> usize {
    (usize::from(port.0) + usize::from(pair)) % workers.max(1)
}

#[cfg(test)]
mod tests {
    use pipeline::TableOptions;

    use super::*;
    use crate::PortOptions;
    use crate::bonds::Bonds;
    use crate::flow_sets::FlowSets;
    use crate::programs::programs;
    use crate::setup::Forwarding;
    use crate::tables::{OwnAddresses, Tables};

    fn plan(workers: usize, ports: u16, pairs: u16) -> QueuePlan {
        let tables = Tables::new(TableOptions::default(), OwnAddresses::new());
        let port = Forwarding { options: PortOptions::default(), number: 1, wire: None, forwards: true };
        let flows = FlowSets::default();
        let programs = programs(&vec![Some(&port); ports.into()], &tables, false, &flows, &Bonds::default());
        QueuePlan::new(workers, &programs, &vec![pairs; ports.into()])
    }

    #[test]
    fn two_ports_of_one_queue_and_two_workers_share_nothing() {
        let plan = plan(2, 2, 1);
        assert_eq!((plan.source(PortId(0), 0), plan.source(PortId(1), 0)), (0, 1));
        assert_eq!(plan.sinks(PortId(0), 1), [QueueAssignment::Own(1)]);
        assert_eq!(plan.sinks(PortId(1), 1), [QueueAssignment::Own(0)]);
    }

    #[test]
    fn a_queue_for_every_worker_belongs_to_it() {
        let plan = plan(2, 3, 2);
        assert_eq!(plan.sinks(PortId(1), 2), [QueueAssignment::Own(0), QueueAssignment::Own(1)]);
        assert_eq!(plan.sinks(PortId(1), 4), [0, 1, 0, 1].map(QueueAssignment::Own));
    }

    #[test]
    fn fewer_queues_than_workers_are_shared_and_every_worker_has_one() {
        let plan = plan(4, 3, 4);
        assert_eq!(plan.sinks(PortId(0), 1), [QueueAssignment::Shared(vec![0, 1, 2, 3])]);
        assert_eq!(
            plan.sinks(PortId(0), 3),
            [QueueAssignment::Shared(vec![0, 3]), QueueAssignment::Own(1), QueueAssignment::Own(2)]
        );
    }
}
