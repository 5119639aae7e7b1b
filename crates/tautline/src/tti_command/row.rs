//! One environment under one load.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use environment::spec::split_list;
use environment::{Agent, Folder, Janitor, Running, Spec, Start};
use linux::interrupt;
use measure::Failure;
use serde::{Deserialize, Serialize};
use ticks::receiver::Received;
use ticks::source::{self, Sent};
use ticks::{PAGE_BYTES, Page, doorbell};
use workload::protocol::{Reply, Request};
use workload::ticks::{Load, TicksJob};

use super::job::Job;
use crate::exit::Usage;

/// How long a start may take until the agent answers.
const START_LIMIT: Duration = Duration::from_secs(45);
/// How long beyond its ticks an agent may take to answer.
const GRACE: Duration = Duration::from_secs(30);

/// What came of it.
#[derive(Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub environment: String,
    /// What ran beside the receiver.
    pub load: Option<Load>,
    /// Both ends' counts, or why there are none.
    pub outcome: Result<(Sent, Received), Failure>,
}

/// The environments of a list. A guest is none of them yet: it has the doorbell as a PCI device, which this version's
/// agent does not drive.
pub fn environments(list: &str) -> anyhow::Result<Vec<(String, Spec)>> {
    let read = |text: String| {
        let spec: Spec =
            text.parse().map_err(|error: environment::spec::SpecError| Usage(error.to_string()))?;
        match spec {
            Spec::Host | Spec::Container(_) => Ok((text, spec)),
            _ => Err(Usage(format!(
                "{text}: ticks are received on the host and in containers only; leave it out"
            ))
            .into()),
        }
    };
    split_list(list).into_iter().map(read).collect()
}

/// As the command line has it.
pub fn load_name(load: Option<Load>) -> &'static str {
    match load {
        None => "none",
        Some(Load::Cpu) => "cpu",
        Some(Load::Memory) => "memory",
        Some(Load::Io) => "io",
        Some(Load::Network) => "network",
    }
}

impl Row {
    /// Starts it afresh, and sends it ticks.
    pub fn measure(
        name: &str,
        spec: &Spec,
        load: Option<Load>,
        job: &Job,
        places: (&Agent, &Arc<Janitor>),
    ) -> Self {
        Row { environment: name.to_owned(), load, outcome: measure(name, spec, load, job, places) }
    }
}

fn measure(
    name: &str,
    spec: &Spec,
    load: Option<Load>,
    job: &Job,
    (agent, janitor): (&Agent, &Arc<Janitor>),
) -> Result<(Sent, Received), Failure> {
    let folder = Folder::make("tti", janitor)?;
    let socket = folder.path().join("ticks");
    let server = doorbell::Server::listen(&socket, PAGE_BYTES, 1)?;
    let page = Page::map(server.memory())?;
    // The socket is there as well, at the same path, wherever the agent runs.
    let agent = Agent { files: vec![socket.clone()], ..agent.clone() };
    let start = Start { agent: &agent, cpus: &[job.receiver_cpu], limit: START_LIMIT, janitor };
    let mut running = spec.prove(&start)?.start(&start)?;
    match hear(&mut running, name, START_LIMIT)? {
        Reply::Ready { .. } => {}
        _ => return Err(odd(name)),
    }
    let length = job.source.interval * u32::try_from(job.source.ticks).unwrap_or(u32::MAX);
    let limit = length + GRACE;
    let request = Request::ReceiveTicks(TicksJob {
        doorbell: socket,
        receiver: job.receiver.clone(),
        load,
        cpus: vec![job.receiver_cpu],
        limit_ms: limit.as_millis() as u64,
    });
    let sent = running.channel().send(request.to_line().trim_end(), START_LIMIT);
    sent.map_err(|error| {
        running.explain(&format!("asking the agent in {name}"), &error, "see its last output")
    })?;
    let bell = match server.accept(START_LIMIT) {
        Ok(bell) => bell,
        // The agent knows why it did not come.
        Err(silent) => return Err(told(hear(&mut running, name, Duration::from_secs(1))).unwrap_or(silent)),
    };
    // The source binds itself to a CPU and raises its priority: a thread of its own, so that neither sticks.
    let sent = thread::scope(|scope| {
        let source = scope.spawn(|| source::run(&page, &job.source, &|| bell.ring(0), &interrupt::is_set));
        source
            .join()
            .unwrap_or_else(|_| Err(Failure::new("sending ticks", "the source panicked", "report it")))
    });
    let heard = hear(&mut running, name, GRACE);
    match (sent, heard) {
        (Ok(sent), Ok(Reply::Ticks(received))) => Ok((sent, received)),
        (_, Ok(Reply::Failed(failure))) => Err(failure),
        (Err(failure), _) | (_, Err(failure)) => Err(failure),
        (Ok(_), Ok(_)) => Err(odd(name)),
    }
}

fn hear(running: &mut Running, name: &str, limit: Duration) -> Result<Reply, Failure> {
    let remedy = "see its last output";
    let doing = format!("waiting for the agent in {name}");
    let line = running.channel().receive(limit).map_err(|error| running.explain(&doing, &error, remedy))?;
    Reply::parse(&line).map_err(|error| Failure::new(doing, error, remedy))
}

/// The failure that an agent told of.
fn told(reply: Result<Reply, Failure>) -> Option<Failure> {
    match reply {
        Ok(Reply::Failed(failure)) => Some(failure),
        _ => None,
    }
}

fn odd(name: &str) -> Failure {
    Failure::new(format!("asking the agent in {name}"), "it answered another question", "report it")
}
