//! The messages between the orchestrator and the agent: JSON, one message on each line.
//!
//! The agent sends the first message ([`Reply::Ready`]); after that each request gets exactly one reply, in order.

use std::net::{IpAddr, SocketAddr};

use kvm::events::Trace;
use kvm::worst::{News, Span};
use measure::{Failure, MetricId, Outcome};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use ticks::receiver::Received;

use crate::network::{Counts, Flow, NearOutcome};
use crate::ticks::TicksJob;

/// The version of this protocol. Both ends are one binary, so that the versions must be equal.
pub const VERSION: u32 = 5;

/// A message to the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// Run one trial of a metric of the catalogue.
    Run {
        /// The metric.
        metric: MetricId,
        /// The time to measure, in ms.
        budget_ms: u64,
        /// The CPUs to use, with the numbers of this environment. The first CPU runs the measured thread.
        cpus: Vec<usize>,
    },
    /// Run a program that the user supplied.
    External(ExternalJob),
    /// Open the far end of a flow at an address of this environment.
    OpenFarEnd {
        /// The flow.
        flow: Flow,
        /// The address.
        address: IpAddr,
        /// The CPUs that the far end may use.
        cpus: Vec<usize>,
        /// Whether the far end that is open stays open; that far end then remains the one whose counts are requested.
        #[serde(default)]
        beside: bool,
    },
    /// Run a flow with the far end at an address, which was opened before.
    RunNearEnd {
        /// The flow.
        flow: Flow,
        /// The far end.
        peer: SocketAddr,
        /// The CPUs that the near end may use.
        cpus: Vec<usize>,
        /// A flow that runs at the same time, and its far end.
        #[serde(default)]
        beside: Option<(Flow, SocketAddr)>,
    },
    /// Close the far end, and return its counts.
    CloseFarEnd,
    /// Receive ticks until their source ends.
    ReceiveTicks(TicksJob),
    /// Run as a member of a chain until the chain ends.
    #[cfg(feature = "chains")]
    JoinChain(Box<crate::chain::ChainJob>),
    /// Record the events of this guest, or return the recording.
    Record(Recording),
    /// End.
    Quit,
}

/// The request to a recorder in a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recording {
    /// Begin. Start recording. A recorder that runs already starts again.
    Start,
    /// Return the events since the last request.
    News,
    /// Return all recorded events of some stretches of time.
    Tell(Vec<Span>),
    /// End.
    Stop,
}

/// A program that the user supplied, and the pattern of the figure in its output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalJob {
    /// The command and its arguments, not passed through a shell.
    pub command: Vec<String>,
    /// A regular expression with one capture group around the figure. The last match counts.
    pub pattern: String,
    /// The time after which the command is killed, in ms.
    pub timeout_ms: u64,
    /// The CPUs that the command may use.
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
        /// The facts about the agent's environment.
        facts: AgentFacts,
    },
    /// A trial's outcome.
    Done(Outcome),
    /// The far end of a flow is open.
    FarEnd {
        /// The port of the far end.
        port: u16,
    },
    /// The result of the near end of a flow.
    NearEnd(NearOutcome),
    /// The counts of the far end.
    FarEndClosed(Counts),
    /// The result of a receiver of ticks.
    Ticks(Box<Received>),
    /// The counts of a member of a chain.
    #[cfg(feature = "chains")]
    Chain(scenario::chain::Outcome),
    /// The recorder has started or ended.
    Recorder {
        /// Whether the recorder runs.
        runs: bool,
    },
    /// The events since the last request.
    News(News),
    /// The recorded events.
    Recorded(Box<Trace>),
    /// A request could not be fulfilled.
    Failed(Failure),
}

/// The facts about its environment that the agent reads from inside. Texts that cannot be read are empty.
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
    /// The available memory in bytes.
    pub memory_available_bytes: u64,
    /// The size of a small page in bytes.
    pub page_bytes: u64,
    /// The size of a transparent huge page in bytes; 0 if the kernel has none.
    pub huge_page_bytes: u64,
    /// Transparent huge pages mode, as the kernel prints it.
    pub transparent_huge_pages: String,
    /// User id.
    pub uid: u32,
    /// Process id.
    pub pid: i32,
    /// Whether SCHED_FIFO is granted. The agent tests this by setting the policy.
    pub can_fifo: bool,
    /// Whether memory may be locked. The agent tests this by locking memory.
    pub can_lock_memory: bool,
}

/// The error for a line that is not a message, or has another version.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    /// Not a message.
    #[error("reading an agent message from {line:?}: {source}; something else writes to the agent's channel")]
    Garbage {
        /// The first part of the line.
        line: String,
        /// The place and kind of the error.
        source: serde_json::Error,
    },
    /// The agent's greeting is missing.
    #[error("waiting for the agent's greeting: it said {found}; start it anew")]
    NoGreeting {
        /// The line that was received instead.
        found: String,
    },
    /// The other end has another version.
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
    /// The line is not JSON, or is not a request of this version.
    pub fn parse(line: &str) -> Result<Self, ProtocolError> {
        parse(line)
    }

    /// The message as a line, with the line end.
    pub fn to_line(&self) -> String {
        to_line(self)
    }
}

impl Reply {
    /// Reads a line.
    ///
    /// # Errors
    /// The line is not JSON, or is not a reply of this version.
    pub fn parse(line: &str) -> Result<Self, ProtocolError> {
        parse(line)
    }

    /// The message as a line, with the line end.
    pub fn to_line(&self) -> String {
        to_line(self)
    }

    /// Takes the reply as the agent's greeting and checks the protocol version.
    ///
    /// # Errors
    /// The reply is not a greeting, or the agent's version differs from [`VERSION`].
    pub fn greeting(self) -> Result<AgentFacts, ProtocolError> {
        match self {
            Reply::Ready { version: VERSION, facts } => Ok(facts),
            Reply::Ready { version, .. } => Err(ProtocolError::Version { found: version }),
            Reply::Done(_)
            | Reply::FarEnd { .. }
            | Reply::NearEnd(_)
            | Reply::FarEndClosed(_)
            | Reply::Ticks(_)
            | Reply::Recorder { .. }
            | Reply::News(_)
            | Reply::Recorded(_) => Err(ProtocolError::NoGreeting { found: "a trial's outcome".into() }),
            #[cfg(feature = "chains")]
            Reply::Chain(_) => Err(ProtocolError::NoGreeting { found: "a trial's outcome".into() }),
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
