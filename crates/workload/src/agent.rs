//! The agent: reads requests, runs trials, writes replies.

use std::collections::HashMap;
use std::io::{self, BufRead, Read, Write};

use kvm::worst::GuestRecorder;
use measure::{Failure, MetricId, Outcome};

use crate::batch::Pace;
use crate::catalogue::{self, Entry};
use crate::external;
use crate::facts;
use crate::network::{FarEnd, near_end};
use crate::pin::{pin_to, pin_to_all};
use crate::protocol::{Recording, Reply, Request, VERSION};
use crate::ticks;
use crate::trial::Trial;
use crate::work::Kept;

pub use crate::os::NOOP;

/// The argument that makes the binary an agent.
pub const ARGUMENT: &str = "agent";

/// No request is longer.
const LONGEST_LINE: u64 = 1 << 20;

/// The channel to the orchestrator failed.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A request could not be read.
    #[error("reading a request: {0}; the orchestrator ended or its channel broke")]
    Read(#[source] io::Error),
    /// A reply could not be written.
    #[error("writing a reply: {0}; the orchestrator ended or its channel broke")]
    Write(#[source] io::Error),
}

/// Sends the greeting, then answers each request with one reply, until a request to quit arrives or the input ends.
///
/// # Errors
/// A request cannot be read from `input`, or a reply cannot be written to `output`. A line that is not a request is
/// answered with [`Reply::Failed`]; this is not an error.
pub fn serve(mut input: impl BufRead, mut output: impl Write) -> Result<(), ServeError> {
    let mut say = |reply: &Reply| {
        output.write_all(reply.to_line().as_bytes()).and_then(|()| output.flush()).map_err(ServeError::Write)
    };
    say(&Reply::Ready { version: VERSION, facts: facts::gather() })?;
    let mut agent = Agent::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(ServeError::Read)?;
        if line.is_empty() {
            return Ok(());
        }
        match Request::parse(&String::from_utf8_lossy(&line)) {
            Ok(Request::Quit) => return Ok(()),
            Ok(request) => say(&agent.answer(request))?,
            Err(error) => say(&Reply::Failed(Failure::new(
                "reading a request",
                error,
                "send one request a line, as this version writes it",
            )))?,
        }
    }
}

/// What the agent remembers between trials.
#[derive(Default)]
struct Agent {
    paces: HashMap<MetricId, Pace>,
    kept: Kept,
    /// The open far ends; requests concern the first one.
    far_ends: Vec<FarEnd>,
    recorder: Option<GuestRecorder>,
}

impl Agent {
    fn answer(&mut self, request: Request) -> Reply {
        let result = match request {
            Request::Run { metric, budget_ms, cpus } => self.run(&metric, budget_ms, cpus).map(Reply::Done),
            Request::External(job) => external::run(&job).map(Reply::Done),
            Request::OpenFarEnd { flow, address, cpus, beside } => {
                // Earlier far ends that were not closed end here.
                if !beside {
                    self.far_ends.clear();
                }
                // Its thread inherits the CPUs.
                pin_to_all(&cpus).and_then(|()| FarEnd::open(&flow, address)).map(|end| {
                    let port = end.port();
                    self.far_ends.push(end);
                    Reply::FarEnd { port }
                })
            }
            Request::RunNearEnd { flow, peer, cpus, beside } => pin_to_all(&cpus)
                .and_then(|()| match beside {
                    None => near_end::run(&flow, peer),
                    Some((load, load_peer)) => near_end::run_beside(&flow, peer, &load, load_peer),
                })
                .map(Reply::NearEnd),
            Request::CloseFarEnd => match std::mem::take(&mut self.far_ends).into_iter().next() {
                Some(end) => end.close().map(Reply::FarEndClosed),
                None => Err(Failure::new("closing the far end of a flow", "none is open", "open one first")),
            },
            Request::ReceiveTicks(job) => ticks::run(&job).map(|received| Reply::Ticks(Box::new(received))),
            Request::Record(recording) => self.record(recording),
            #[cfg(feature = "chains")]
            Request::JoinChain(job) => crate::chain::run(&job).map(Reply::Chain),
            Request::Quit => unreachable!("the loop ends on it"),
        };
        result.unwrap_or_else(Reply::Failed)
    }

    fn record(&mut self, recording: Recording) -> Result<Reply, Failure> {
        let none = || Failure::new("telling what was recorded", "nothing is", "start a recorder first");
        match recording {
            Recording::Start => {
                // Its instances go before others of the same names come.
                self.recorder = None;
                self.recorder = Some(GuestRecorder::start()?);
                Ok(Reply::Recorder { runs: true })
            }
            Recording::News => self.recorder.as_mut().ok_or_else(none)?.news().map(Reply::News),
            Recording::Tell(spans) => {
                let trace = self.recorder.as_mut().ok_or_else(none)?.told(&spans)?;
                Ok(Reply::Recorded(Box::new(trace)))
            }
            Recording::Stop => {
                self.recorder = None;
                Ok(Reply::Recorder { runs: false })
            }
        }
    }

    fn run(&mut self, metric: &MetricId, budget_ms: u64, cpus: Vec<usize>) -> Result<Outcome, Failure> {
        let entry = catalogue::find(metric).ok_or_else(|| {
            Failure::new(
                format!("measuring {metric}"),
                "the agent has no such metric",
                "choose one of the catalogue",
            )
        })?;
        let trial = Trial::new(budget_ms, cpus)?;
        pin_to(trial.cpu())?;
        self.measure(&entry, &trial)
    }

    fn measure(&mut self, entry: &Entry, trial: &Trial) -> Result<Outcome, Failure> {
        let pace = self.paces.entry(entry.spec.id.clone()).or_default();
        let outcome = entry.work.run(trial, pace, &mut self.kept)?;
        let value = outcome.value;
        if !(value.is_finite() && value > 0.0) {
            return Err(Failure::new(
                format!("measuring {}", entry.spec.id),
                format!("the figure came out as {value}"),
                "give a longer trial; the clock may be too coarse",
            ));
        }
        Ok(outcome)
    }
}
