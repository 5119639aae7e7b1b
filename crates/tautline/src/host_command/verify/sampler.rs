//! One sample: an agent of its own for each, so that every state is measured by a new process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use environment::host::Host;
use environment::{Agent, Environment, Janitor, Running, Start};
use host::tuning::{CpuEvents, CpuList, HostTree, partition_of};
use linux::interrupt::Interrupted;
use measure::{Failure, MetricId, NoiseProbe, Outcome, Preemption};
use workload::catalogue::WAKEUP_AS_CONFIGURED;
use workload::protocol::{Reply, Request};

use super::record::{Events, Sample};
use super::states::State;

/// Beside the trial itself: an emulated CPU takes its time to start a process.
const GRACE: Duration = Duration::from_secs(30);
/// The timer's period is 1 ms, and a trial wants some of them.
const SHORTEST: Duration = Duration::from_millis(10);

/// Takes samples.
pub struct Sampler<'a> {
    tree: &'a HostTree,
    isolated: &'a CpuList,
    length: Duration,
    agent: Agent,
    janitor: Arc<Janitor>,
}

impl<'a> Sampler<'a> {
    /// Samples of this length.
    pub fn new(tree: &'a HostTree, isolated: &'a CpuList, length: Duration) -> anyhow::Result<Self> {
        let binary = std::env::current_exe().context("finding the own binary; is /proc mounted?")?;
        let janitor = Arc::new(Janitor::start(&binary)?);
        let agent = Agent { binary, arguments: vec![workload::agent::ARGUMENT.into()], files: Vec::new() };
        Ok(Sampler { tree, isolated, length: length.max(SHORTEST), agent, janitor })
    }

    /// Measures wake-ups on one of the isolated CPUs, each block on the next, and counts on all of them.
    pub fn sample(&mut self, block: u32, state: &State) -> anyhow::Result<Sample> {
        let cpu = self.isolated.iter().nth(block as usize % self.isolated.len()).unwrap_or_default();
        let limit = self.length * 4 + GRACE;
        let start = Start { agent: &self.agent, cpus: &[cpu], limit, janitor: &self.janitor };
        let mut running = Host.start(&start)?;
        self.enter_partition(&running, cpu)?;
        ask(&mut running, None, limit)?;
        let request = Request::Run {
            metric: MetricId::new(WAKEUP_AS_CONFIGURED),
            budget_ms: self.length.as_millis() as u64,
            cpus: vec![cpu],
        };
        let (probe, begin) = (NoiseProbe::start(Preemption::NotCounted), Instant::now());
        let before = CpuEvents::of(self.tree, self.isolated);
        let outcome = ask(&mut running, Some(&request), limit)?;
        let events = CpuEvents::of(self.tree, self.isolated).since(&before);
        let counted = begin.elapsed();
        let host_noise = probe.finish();
        let outcome = outcome.context("the agent has greeted twice")?;
        Ok(Sample {
            block,
            state: state.clone(),
            cpu,
            outcome,
            counted_ns: counted.as_nanos() as u64,
            events: Events::from(events),
            host_noise,
        })
    }

    /// Into an isolated partition nothing gets but by its cgroup.
    fn enter_partition(&self, running: &Running, cpu: usize) -> Result<(), Failure> {
        let Some(folder) = partition_of(self.tree, cpu) else { return Ok(()) };
        let file = format!("{folder}/cgroup.procs");
        self.tree.write(&file, &running.process_id().to_string()).map_err(|error| {
            Failure::new(
                format!("moving the measuring process onto CPU {cpu} by {file}"),
                error,
                "run as root; see whether the cgroup takes processes",
            )
        })
    }
}

/// Sends a request, if there is one, and waits for the reply: an outcome, or the agent's greeting.
fn ask(running: &mut Running, request: Option<&Request>, limit: Duration) -> anyhow::Result<Option<Outcome>> {
    let doing = "measuring wake-ups";
    let channel = running.channel();
    let sent = request.map_or(Ok(()), |request| channel.send(request.to_line().trim_end(), limit));
    let line = match sent.and_then(|()| channel.receive(limit)) {
        Ok(line) => line,
        Err(environment::ChannelError::Interrupted) => return Err(Interrupted.into()),
        Err(error) => return Err(running.explain(doing, &error, "see its last output").into()),
    };
    match Reply::parse(&line) {
        Ok(Reply::Done(outcome)) if request.is_some() => Ok(Some(outcome)),
        Ok(Reply::Ready { .. }) if request.is_none() => Ok(None),
        Ok(Reply::Failed(failure)) => Err(failure.into()),
        other => {
            let answer =
                other.map_or_else(|error| error.to_string(), |_| "it answered another question".into());
            Err(Failure::new(doing, answer, "try again").into())
        }
    }
}
