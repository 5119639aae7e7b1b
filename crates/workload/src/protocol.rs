//! What the orchestrator and the agent say to each other: JSON, one message a line.
//!
//! The agent speaks first ([`Reply::Ready`]); after that each request gets exactly one reply, in order.

use std::net::{IpAddr, SocketAddr};

use kvm::events::Trace;
use kvm::worst::{News, Span};
use measure::{Failure, MetricId, Outcome};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use ticks::receiver::Received;

use crate::chain::ChainJob;
use crate::network::{Counts, Flow, NearOutcome};
use crate::ticks::TicksJob;

/// The version of this protocol. Both ends are one binary, so that only equality is asked for.
pub const VERSION: u32 = 5;

/// A message to the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// Run one trial of a metric of the catalogue.
    Run {
        /// The metric.
        metric: MetricId,
        /// How long to measure, in ms.
        budget_ms: u64,
        /// CPUs to work on, as this environment numbers them. The first runs the measured thread.
        cpus: Vec<usize>,
    },
    /// Run a program that the user brought.
    External(ExternalJob),
    /// Open the far end of a flow at an address of this environment.
    OpenFarEnd {
        /// The flow.
        flow: Flow,
        /// The address.
        address: IpAddr,
        /// CPUs it may use.
        cpus: Vec<usize>,
        /// Whether the one that is open stays open; it is the one whose counts are asked for.
        #[serde(default)]
        beside: bool,
    },
    /// Do a flow with the far end at an address, which was opened before.
    RunNearEnd {
        /// The flow.
        flow: Flow,
        /// The far end.
        peer: SocketAddr,
        /// CPUs it may use.
        cpus: Vec<usize>,
        /// A flow that runs meanwhile, and its far end.
        #[serde(default)]
        beside: Option<(Flow, SocketAddr)>,
    },
    /// Close the far end, and say what it counted.
    CloseFarEnd,
    /// Receive ticks until their source ends.
    ReceiveTicks(TicksJob),
    /// Be a member of a chain until it ends.
    JoinChain(Box<ChainJob>),
    /// Record what this guest does, or tell of it.
    Record(Recording),
    /// End.
    Quit,
}

/// What a recorder in a guest is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recording {
    /// Begin. One that runs already begins afresh.
    Start,
    /// Tell what came since.
    News,
    /// Tell all that was recorded in some stretches of time.
    Tell(Vec<Span>),
    /// End.
    Stop,
}

/// A program that the user brought, and where to find the figure in what it prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalJob {
    /// The command and its arguments, not passed through a shell.
    pub command: Vec<String>,
    /// A regular expression with one capture group around the figure. The last match counts.
    pub pattern: String,
    /// The command is killed after so many ms.
    pub timeout_ms: u64,
    /// CPUs it may use.
    pub cpus: Vec<usize>,
}

/// A message from the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    /// The agent runs and awaits requests.
    Ready {
        /// [`VERSION`] of the agent.
        version: u32,
        /// Where it finds itself.
        facts: AgentFacts,
    },
    /// A trial's outcome.
    Done(Outcome),
    /// The far end of a flow is open.
    FarEnd {
        /// At this port.
        port: u16,
    },
    /// What the near end of a flow came to.
    NearEnd(NearOutcome),
    /// What the far end counted.
    FarEndClosed(Counts),
    /// What a receiver of ticks saw.
    Ticks(Box<Received>),
    /// What a member of a chain counted.
    Chain(scenario::chain::Outcome),
    /// The recorder has started, or has ended.
    Recorder {
        /// Whether it runs.
        runs: bool,
    },
    /// What came since.
    News(News),
    /// What was recorded.
    Recorded(Box<Trace>),
    /// A request could not be met.
    Failed(Failure),
}

/// What the agent sees of its environment from inside. Texts that cannot be read are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentFacts {
    /// Kernel release and version.
    pub kernel: String,
    /// CPU model name.
    pub cpu_model: String,
    /// Kernel command line.
    pub command_line: String,
    /// CPUs online.
    pub cpus_online: usize,
    /// CPUs that the agent may run on.
    pub cpus_usable: Vec<usize>,
    /// Clock source in use.
    pub clocksource: String,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Memory that can still be had, bytes.
    pub memory_available_bytes: u64,
    /// Size of a small page, bytes.
    pub page_bytes: u64,
    /// Size of a transparent huge page, bytes; 0 where the kernel has none.
    pub huge_page_bytes: u64,
    /// Transparent huge pages mode, as the kernel prints it.
    pub transparent_huge_pages: String,
    /// User id.
    pub uid: u32,
    /// Process id.
    pub pid: i32,
    /// Whether SCHED_FIFO is granted. Tried, not guessed.
    pub can_fifo: bool,
    /// Whether memory may be locked. Tried, not guessed.
    pub can_lock_memory: bool,
}

/// A line that is no message, or one of another version.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    /// Not a message.
    #[error("reading an agent message from {line:?}: {source}; something else writes to the agent's channel")]
    Garbage {
        /// The line's beginning.
        line: String,
        /// Where and what.
        source: serde_json::Error,
    },
    /// The agent's greeting is missing.
    #[error("waiting for the agent's greeting: it said {found}; start it anew")]
    NoGreeting {
        /// What came instead.
        found: String,
    },
    /// The other end is of another version.
    #[error("the agent speaks version {found}, this program {VERSION}; start the agent from the same binary")]
    Version {
        /// Its version.
        found: u32,
    },
}

/// A message's line, with its end.
fn to_line(message: &impl Serialize) -> String {
    let mut line = serde_json::to_string(message).expect("messages have no maps with other than text keys");
    line.push('\n');
    line
}

fn parse<T: DeserializeOwned>(line: &str) -> Result<T, ProtocolError> {
    serde_json::from_str(line.trim_end())
        .map_err(|source| ProtocolError::Garbage { line: line.chars().take(120).collect(), source })
}

impl Request {
    /// Reads a line.
    ///
    /// # Errors
    /// The line is not JSON, or no request of this version.
    pub fn parse(line: &str) -> Result<Self, ProtocolError> {
        parse(line)
    }

    /// The line, with its end.
    pub fn to_line(&self) -> String {
        to_line(self)
    }
}

impl Reply {
    /// Reads a line.
    ///
    /// # Errors
    /// The line is not JSON, or no reply of this version.
    pub fn parse(line: &str) -> Result<Self, ProtocolError> {
        parse(line)
    }

    /// The line, with its end.
    pub fn to_line(&self) -> String {
        to_line(self)
    }

    /// Takes the reply as the agent's greeting and checks the protocol version.
    ///
    /// # Errors
    /// The reply is no greeting, or the agent speaks another version than [`VERSION`].
    pub fn greeting(self) -> Result<AgentFacts, ProtocolError> {
        match self {
            Reply::Ready { version: VERSION, facts } => Ok(facts),
            Reply::Ready { version, .. } => Err(ProtocolError::Version { found: version }),
            Reply::Done(_)
            | Reply::FarEnd { .. }
            | Reply::NearEnd(_)
            | Reply::FarEndClosed(_)
            | Reply::Ticks(_)
            | Reply::Chain(_)
            | Reply::Recorder { .. }
            | Reply::News(_)
            | Reply::Recorded(_) => Err(ProtocolError::NoGreeting { found: "a trial's outcome".into() }),
            Reply::Failed(failure) => Err(ProtocolError::NoGreeting { found: failure.to_string() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::{Histogram, Noise};
    use proptest::prelude::*;

    fn outcome(value: f64, missed: u64, remark: String) -> Outcome {
        let mut histogram = Histogram::new();
        histogram.record_ns(missed % 1_000_000);
        Outcome {
            value,
            samples: vec![value, 1.5e-300, 3.0],
            histogram: Some(histogram),
            missed,
            elapsed_ns: missed,
            remarks: vec![remark],
            noise: Noise { steal_ns: missed, ..Noise::default() },
        }
    }

    fn flow(duration_ms: u64) -> Flow {
        Flow {
            class: crate::network::Class::UdpStream,
            sender: crate::network::Side::Near,
            message_bytes: 64,
            connections: 1,
            per_second: Some(0.5),
            duration: std::time::Duration::from_millis(duration_ms),
            verify: true,
        }
    }

    proptest! {
        #[test]
        fn requests_survive_the_line(metric in ".*", budget_ms: u64, cpus: Vec<usize>, words: Vec<String>) {
            for request in [
                Request::Run { metric: MetricId::new(metric.clone()), budget_ms, cpus: cpus.clone() },
                Request::External(ExternalJob { command: words.clone(), pattern: metric.clone(), timeout_ms: budget_ms, cpus: cpus.clone() }),
                Request::OpenFarEnd { flow: flow(budget_ms), address: [127, 0, 0, 1].into(), cpus: cpus.clone(), beside: budget_ms % 2 == 0 },
                Request::RunNearEnd {
                    flow: flow(budget_ms),
                    peer: ([127, 0, 0, 1], 80).into(),
                    cpus: cpus.clone(),
                    beside: (budget_ms % 2 == 0).then(|| (flow(budget_ms), ([127, 0, 0, 1], 81).into())),
                },
                Request::CloseFarEnd,
                Request::Record(Recording::News),
                Request::Record(Recording::Tell(vec![Span { from: budget_ms, until: u64::MAX }])),
                Request::Quit,
            ] {
                let line = request.to_line();
                prop_assert_eq!(line.matches('\n').count(), 1);
                prop_assert_eq!(Request::parse(&line).unwrap(), request);
            }
        }

        #[test]
        fn replies_survive_the_line(value in proptest::num::f64::NORMAL, missed: u64, text in ".*") {
            for reply in [
                Reply::Done(outcome(value, missed, text.clone())),
                Reply::Failed(Failure::new(text.clone(), "b", "c")),
                Reply::FarEnd { port: missed as u16 },
                Reply::NearEnd(NearOutcome { unanswered: missed, ..NearOutcome::default() }),
                Reply::FarEndClosed(Counts { sent: missed, ..Counts::default() }),
                Reply::News(News { lost: missed, ..News::default() }),
                Reply::Recorded(Box::new(Trace { names: [(7, text.clone())].into(), ..Trace::default() })),
                Reply::Ready { version: VERSION, facts: AgentFacts { kernel: text, ..AgentFacts::default() } },
            ] {
                let line = reply.to_line();
                prop_assert_eq!(line.matches('\n').count(), 1);
                prop_assert!(Reply::parse(&line).unwrap() == reply, "{line}");
            }
        }

        #[test]
        fn no_line_panics(line in ".*") {
            let _ = (Request::parse(&line), Reply::parse(&line));
        }
    }

    #[test]
    fn garbage_is_quoted_in_the_error() {
        for line in
            ["", "[    0.000000] Linux version 6.1", "{\"request\":\"dance\"}", "{\"request\":\"run\"}"]
        {
            let error = Request::parse(line).unwrap_err().to_string();
            assert!(error.contains("reading an agent message from"), "{error}");
            assert!(error.contains(&line.replace('"', "\\\"")), "{error}");
        }
    }

    #[test]
    fn another_version_is_refused() {
        let ready = |version| Reply::Ready { version, facts: AgentFacts::default() };
        assert!(ready(VERSION).greeting().is_ok());
        assert!(
            matches!(ready(VERSION + 1).greeting(), Err(ProtocolError::Version { found }) if found == VERSION + 1)
        );
        assert!(Reply::Failed(Failure::new("a", "b", "c")).greeting().is_err());
    }
}
