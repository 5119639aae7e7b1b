//! Two agents and a flow between them.

use std::net::SocketAddr;
use std::time::Duration;

use environment::network::{FAR_ADDRESS, OpenPath};
use measure::network::Cost;
use measure::quota::Throttling;
use measure::{Failure, Histogram};
use workload::network::{Flow, Side};
use workload::protocol::{Reply, Request};

use super::cost::Reading;
use crate::asking::{Asking, NoAnswer};
use crate::runner::Quotas;

/// A path whose agents have greeted.
pub struct Ends {
    path: OpenPath,
    cpus: Vec<usize>,
    /// An end answered late, wrongly or not at all. Its next reply may belong to an earlier request.
    is_lost: bool,
    /// The CPU quota of the near end.
    quotas: Quotas,
}

/// The result of a flow.
pub struct Flowed {
    /// Bytes a second that arrived. For requests and answers, the median round-trip time in ns.
    pub value: f64,
    pub latency: Option<Histogram>,
    pub sent: u64,
    pub received: u64,
    pub refused: u64,
    pub received_bytes: u64,
    /// Requests without an answer.
    pub missed: u64,
    pub elapsed_ns: u64,
    pub cost: Cost,
}

const NEAR: &str = "the agent at the near end of a path";
const FAR: &str = "the agent at the far end of a path";

impl Ends {
    /// Waits for the greetings of both agents, up to `limit` for each, and pauses the path.
    ///
    /// # Errors
    /// An agent ended, did not greet within `limit`, or speaks another version of the protocol.
    pub fn greeted(mut path: OpenPath, limit: Duration, cpus: &[usize]) -> Result<Self, Failure> {
        for (end, name) in [(&mut path.near, NEAR), (&mut path.far, FAR)] {
            end.greeting(name, limit)?;
        }
        let quotas = Quotas::of([&path.near]);
        path.set_running(false);
        Ok(Ends { path, cpus: cpus.to_vec(), is_lost: false, quotas })
    }

    /// The CPUs on which both ends work: two where there are two.
    pub fn cpus(&self) -> &[usize] {
        &self.cpus[..self.cpus.len().min(2)]
    }

    /// How often the near end's CPU quota has been used up so far.
    pub fn throttling(&self) -> Throttling {
        self.quotas.throttling()
    }

    /// Whether the ends can take no more requests.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Runs one flow, with a load beside it or without. After this call, [`Ends::is_lost`] says whether the ends
    /// can take more requests.
    ///
    /// # Errors
    /// An agent refused a request, answered late, wrongly or not at all, or the user interrupted the run. Messages
    /// arrived corrupt, or none arrived.
    pub fn run(&mut self, flow: &Flow, load: Option<&Flow>, timeout: Duration) -> Result<Flowed, NoAnswer> {
        self.path.set_running(true);
        let flowed = self.do_flow(flow, load, timeout);
        self.path.set_running(false);
        self.is_lost = matches!(&flowed, Err(NoAnswer::Lost(_) | NoAnswer::Interrupted(_)));
        flowed
    }

    /// Runs one flow: the near end on the first CPU, the far end on the second where there is one.
    fn do_flow(&mut self, flow: &Flow, load: Option<&Flow>, timeout: Duration) -> Result<Flowed, NoAnswer> {
        let limit = flow.duration.saturating_mul(4).saturating_add(timeout);
        // A guest numbers its own.
        let near_cpus = vec![if self.path.qemu().is_some() { 0 } else { self.cpus[0] }];
        let far_cpus = vec![self.cpus.get(1).copied().unwrap_or(self.cpus[0])];
        let mut open = |flow: &Flow, beside| {
            let (flow, cpus) = (flow.clone(), far_cpus.clone());
            let open = Request::OpenFarEnd { flow, address: FAR_ADDRESS.into(), cpus, beside };
            let port = self.path.far.ask(FAR, &open, limit, |reply| match reply {
                Reply::FarEnd { port } => Some(port),
                _ => None,
            })?;
            Ok(SocketAddr::new(FAR_ADDRESS.into(), port))
        };
        let peer = open(flow, false)?;
        let beside = match load {
            Some(load) => Some((load.clone(), open(load, true)?)),
            None => None,
        };
        let before = Reading::now(&mut self.path, &self.cpus);
        let run = Request::RunNearEnd { flow: flow.clone(), peer, cpus: near_cpus, beside };
        let near = self.path.near.ask(NEAR, &run, limit, |reply| match reply {
            Reply::NearEnd(outcome) => Some(outcome),
            _ => None,
        });
        // Whatever came of it: the next flow opens its own far end; this one must not stay.
        let far = self.path.far.ask(FAR, &Request::CloseFarEnd, limit, |reply| match reply {
            Reply::FarEndClosed(counts) => Some(counts),
            _ => None,
        });
        let (near, far) = match (near, far) {
            (Ok(near), Ok(far)) => (near, far),
            // The near end says why; the far end's answer says whether it can be asked again.
            (Err(NoAnswer::Refused(failure)), Err(NoAnswer::Lost(_))) => return Err(NoAnswer::Lost(failure)),
            (Err(reason), _) | (Ok(_), Err(reason)) => return Err(reason),
        };
        let after = Reading::now(&mut self.path, &self.cpus);
        let corrupt = near.counts.corrupt + far.corrupt;
        if corrupt > 0 {
            return Err(nothing(
                format!("{corrupt} messages were not as they were sent"),
                "see which layer changes them: repeat with one layer less",
            ));
        }
        let (sender, receiver) = match flow.sending() {
            Side::Near => (&near.counts, &far),
            Side::Far => (&far, &near.counts),
        };
        let cost = after.since(&before, flow.sending(), (sender, receiver));
        let is_stream = flow.class.is_stream();
        // For a flow of requests, the received messages are answers.
        let receiver = if is_stream { receiver } else { &near.counts };
        let value = match &near.latency {
            Some(latency) => latency.median_ns() as f64,
            None => receiver.received_per_second(),
        };
        if receiver.received == 0 || !(value.is_finite() && value > 0.0) {
            return Err(nothing(
                format!("of {} messages {} arrived", sender.sent, receiver.received),
                "give a longer trial: the path may be slow",
            ));
        }
        Ok(Flowed {
            value,
            sent: sender.sent,
            received: receiver.received,
            refused: sender.refused,
            received_bytes: receiver.received_bytes,
            missed: near.unanswered,
            elapsed_ns: sender.elapsed_ns.max(receiver.elapsed_ns),
            cost,
            latency: near.latency,
        })
    }
}

/// A flow that came to nothing although each question has its answer.
fn nothing(answer: String, remedy: &str) -> NoAnswer {
    NoAnswer::Refused(Failure::new("a flow over a path", answer, remedy))
}
