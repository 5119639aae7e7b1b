//! Takes samples. A new agent process measures each, so that no state inherits from another.

use std::time::{Duration, Instant};

use environment::host::Host;
use environment::{Environment, Running, Start};
use host::{CpuEvents, CpuList, HostTree, partition_of};
use linux::interrupt::Interrupted;
use measure::quota::Throttling;
use measure::{Failure, MetricId};
use workload::catalogue::WAKEUP_AS_CONFIGURED;
use workload::protocol::{Reply, Request};

use super::record::{Events, Sample};
use super::states::State;
use crate::asking::{Asking, NoAnswer};
use crate::runner::{Quotas, Runner, Subject, Tried};
use crate::{Launcher, Stopped};

/// The name of the agent in errors.
const AGENT: &str = "the agent that measures wake-ups";

/// Beside the trial itself: an emulated CPU takes its time to start a process.
const GRACE: Duration = Duration::from_secs(30);
/// The timer's period is 1 ms, and a trial wants some of them.
const SHORTEST: Duration = Duration::from_millis(10);

/// Takes samples.
pub struct Sampler<'a> {
    tree: &'a HostTree,
    isolated: &'a CpuList,
    length: Duration,
    launcher: Launcher,
    runner: Runner,
    /// The agents run in this process's cgroup.
    quotas: Quotas,
}

impl<'a> Sampler<'a> {
    /// A sampler for samples of `length`.
    pub fn new(tree: &'a HostTree, isolated: &'a CpuList, length: Duration) -> Result<Self, Failure> {
        Ok(Sampler {
            tree,
            isolated,
            length: length.max(SHORTEST),
            launcher: Launcher::new(Vec::new())?,
            runner: Runner::new(isolated.len(), false),
            quotas: Quotas::own(),
        })
    }

    /// Measures wake-ups on one of the isolated CPUs, a different one for each block, and counts events on all of
    /// them.
    pub fn sample(&mut self, block: u32, state: &State) -> Tried<Sample, Stopped> {
        let cpu = self.isolated.iter().nth(block as usize % self.isolated.len()).unwrap_or_default();
        let Sampler { tree, isolated, length, launcher, runner, quotas } = self;
        runner.trial(&mut StateTrial {
            tree,
            isolated,
            length: *length,
            launcher,
            quotas,
            block,
            state,
            cpu: [cpu],
        })
    }
}

/// One state of the host, measured on one CPU.
struct StateTrial<'a> {
    tree: &'a HostTree,
    isolated: &'a CpuList,
    length: Duration,
    launcher: &'a Launcher,
    quotas: &'a Quotas,
    block: u32,
    state: &'a State,
    cpu: [usize; 1],
}

impl Subject for StateTrial<'_> {
    type Measured = Sample;
    type Failed = Stopped;

    fn cpus(&self) -> &[usize] {
        &self.cpu
    }

    fn throttling(&self) -> Throttling {
        self.quotas.throttling()
    }

    /// Measures in a new agent process.
    fn measure(&mut self) -> Result<Sample, Stopped> {
        let [cpu] = self.cpu;
        let limit = self.length * 4 + GRACE;
        let start = Start { limit, ..self.launcher.start_on(&self.cpu) };
        let mut running = Host.start(&start)?;
        self.enter_partition(&running, cpu)?;
        running.greeting(AGENT, limit).map_err(told)?;
        let request = Request::Run {
            metric: MetricId::new(WAKEUP_AS_CONFIGURED),
            budget_ms: self.length.as_millis() as u64,
            cpus: vec![cpu],
        };
        let begin = Instant::now();
        let before = CpuEvents::of(self.tree, self.isolated);
        let outcome = running.ask(AGENT, &request, limit, |reply| match reply {
            Reply::Done(outcome) => Some(outcome),
            _ => None,
        });
        let outcome = outcome.map_err(told)?;
        let events = CpuEvents::of(self.tree, self.isolated).since(&before);
        Ok(Sample {
            block: self.block,
            state: self.state.clone(),
            cpu,
            outcome,
            counted_ns: begin.elapsed().as_nanos() as u64,
            events: Events::from(events),
        })
    }

    fn elapsed_ns(&self, measured: &Sample) -> u64 {
        measured.counted_ns
    }
}

impl StateTrial<'_> {
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

/// An interrupt ends the command; all else is told.
fn told(reason: NoAnswer) -> Stopped {
    match reason {
        NoAnswer::Interrupted(_) => Interrupted.into(),
        other => Failure::from(other).into(),
    }
}
