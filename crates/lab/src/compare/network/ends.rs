//! Two agents and a flow between them.

use std::net::SocketAddr;
use std::time::Duration;

use environment::Running;
use environment::network::{FAR_ADDRESS, OpenPath};
use measure::network::Cost;
use measure::{Failure, Histogram};
use workload::network::{Flow, Side};
use workload::protocol::{Reply, Request};

use super::cost::Reading;

/// A path whose agents have greeted.
pub struct Ends {
    path: OpenPath,
    cpus: Vec<usize>,
    /// An end answered late, wrongly or not at all: what it says next may answer an earlier question.
    is_lost: bool,
}

/// What a flow came to.
pub struct Flowed {
    /// Bytes a second that arrived; of requests and answers the median round trip, ns.
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

const REMEDY: &str = "repeat with --only to find what it died of";

impl Ends {
    pub fn greeted(mut path: OpenPath, limit: Duration, cpus: &[usize]) -> Result<Self, Failure> {
        for (end, name) in [(&mut path.near, "near"), (&mut path.far, "far")] {
            let doing = format!("starting the agent at the {name} end of a path");
            let line = end.channel().receive(limit).map_err(|error| end.explain(&doing, &error, REMEDY))?;
            Reply::parse(&line)
                .and_then(Reply::greeting)
                .map_err(|error| Failure::new(&doing, error, REMEDY))?;
        }
        path.set_running(false);
        Ok(Ends { path, cpus: cpus.to_vec(), is_lost: false })
    }

    /// Whether nothing more can be asked of it.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Runs one flow, with a load beside it or without, and learns whether its ends can be asked again.
    pub fn run(&mut self, flow: &Flow, load: Option<&Flow>, timeout: Duration) -> Result<Flowed, Failure> {
        self.path.set_running(true);
        let flowed = self.do_flow(flow, load, timeout);
        self.path.set_running(false);
        self.is_lost = matches!(&flowed, Err(broken) if !broken.in_turn);
        flowed.map_err(|broken| broken.failure)
    }

    /// Runs one flow: the near end on the first CPU, the far end on the second where there is one.
    fn do_flow(&mut self, flow: &Flow, load: Option<&Flow>, timeout: Duration) -> Result<Flowed, Broken> {
        let limit = flow.duration.saturating_mul(4).saturating_add(timeout);
        // A guest numbers its own.
        let near_cpus = vec![if self.path.qemu().is_some() { 0 } else { self.cpus[0] }];
        let far_cpus = vec![self.cpus.get(1).copied().unwrap_or(self.cpus[0])];
        let mut open = |flow: &Flow, beside| {
            let (flow, cpus) = (flow.clone(), far_cpus.clone());
            let open = Request::OpenFarEnd { flow, address: FAR_ADDRESS.into(), cpus, beside };
            match ask(&mut self.path.far, &open, limit)? {
                Reply::FarEnd { port } => Ok(SocketAddr::new(FAR_ADDRESS.into(), port)),
                _ => Err(out_of_turn()),
            }
        };
        let peer = open(flow, false)?;
        let beside = match load {
            Some(load) => Some((load.clone(), open(load, true)?)),
            None => None,
        };
        let before = Reading::now(&mut self.path, &self.cpus);
        let run = Request::RunNearEnd { flow: flow.clone(), peer, cpus: near_cpus, beside };
        let near = match ask(&mut self.path.near, &run, limit) {
            Ok(Reply::NearEnd(outcome)) => outcome,
            Ok(_) => return Err(out_of_turn()),
            Err(broken) => {
                // The next flow opens its own far end; this one must not stay.
                let closed = ask(&mut self.path.far, &Request::CloseFarEnd, limit);
                let in_turn = broken.in_turn && closed.map_or_else(|other| other.in_turn, |_| true);
                return Err(Broken { in_turn, ..broken });
            }
        };
        let far = match ask(&mut self.path.far, &Request::CloseFarEnd, limit)? {
            Reply::FarEndClosed(counts) => counts,
            _ => return Err(out_of_turn()),
        };
        let after = Reading::now(&mut self.path, &self.cpus);
        let corrupt = near.counts.corrupt + far.corrupt;
        if corrupt > 0 {
            return Err(in_turn(
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
        // Of requests, what was received are answers.
        let receiver = if is_stream { receiver } else { &near.counts };
        let value = match &near.latency {
            Some(latency) => latency.median_ns() as f64,
            None => receiver.received_per_second(),
        };
        if receiver.received == 0 || !(value.is_finite() && value > 0.0) {
            return Err(in_turn(
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

/// Why a flow came to nothing.
struct Broken {
    failure: Failure,
    /// Whether each question has its answer.
    in_turn: bool,
}

fn in_turn(answer: String, remedy: &str) -> Broken {
    Broken { failure: Failure::new("a flow over a path", answer, remedy), in_turn: true }
}

fn ask(end: &mut Running, request: &Request, limit: Duration) -> Result<Reply, Broken> {
    const DOING: &str = "asking an end of a path";
    let out_of_turn = |failure| Broken { failure, in_turn: false };
    let line = request.to_line();
    let sent = end.channel().send(line.trim_end(), limit);
    let answer = sent.and_then(|()| end.channel().receive(limit));
    let line = answer.map_err(|error| out_of_turn(end.explain(DOING, &error, REMEDY)))?;
    match Reply::parse(&line) {
        Ok(Reply::Failed(failure)) => Err(Broken { failure, in_turn: true }),
        Ok(reply) => Ok(reply),
        Err(error) => Err(out_of_turn(Failure::new(DOING, error, REMEDY))),
    }
}

fn out_of_turn() -> Broken {
    let failure = Failure::new("asking an end of a path", "it answered another question", REMEDY);
    Broken { failure, in_turn: false }
}
