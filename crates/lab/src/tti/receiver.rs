//! Measures rows: starts an environment, and sends ticks to it under each load in turn.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use environment::vm::{Accelerator, Vm};
use environment::{Agent, Environment, Folder, Janitor, Proven, Running, Spec, Start};
use kvm::events::Target;
use linux::interrupt;
use measure::Failure;
use measure::quota::Throttling;
use pv_sched::{Daemon, Hints, Vcpu};
use ticks::doorbell::{Peer, Server};
use ticks::receiver::Received;
use ticks::source::{self, Sent};
use ticks::stages::Host;
use ticks::{HINTS_AT, PAGE_BYTES, Page};
use workload::protocol::{Reply, Request};
use workload::ticks::{Doorbell, Load, TicksJob};

use super::job::Job;
use super::row::Outcome;
use super::stages::{self, HostTrace};
use crate::asking::{Asking, NoAnswer};
use crate::runner::Quotas;
use crate::tracing::Made;
use crate::{Launcher, PlannedEnvironment};

/// How long a start may take until the agent answers.
const START_LIMIT: Duration = Duration::from_secs(90);
/// How long beyond its ticks an agent may take to answer.
const GRACE: Duration = Duration::from_secs(30);

/// A running environment, and the other end of its doorbell.
pub struct Receiver<'a> {
    name: String,
    accelerator: String,
    /// Whether the receiver is in a guest that KVM runs.
    has_kvm: bool,
    is_emulated: bool,
    running: Running,
    page: Page,
    hints: Arc<Hints>,
    far_end: FarEnd,
    /// The receiver's CPU, as the environment numbers it.
    cpu: usize,
    quotas: Quotas,
    janitor: &'a Janitor,
    _folder: Folder,
}

/// The doorbell's other end.
enum FarEnd {
    /// A guest that is connected while it runs.
    Guest(Peer),
    /// A process that connects to the server at this socket for each run.
    Process(PathBuf, Server),
}

impl<'a> Receiver<'a> {
    /// Starts a receiver on one CPU of the host. `folder` keeps its files apart from those of another receiver.
    ///
    /// # Errors
    /// The environment or its agent cannot be started.
    pub fn start(
        folder: &str,
        planned: &PlannedEnvironment,
        cpu: usize,
        launcher: &'a Launcher,
    ) -> Result<Self, Failure> {
        let Launcher { agent, janitor } = launcher;
        let PlannedEnvironment { name, spec, .. } = planned;
        let folder = Folder::make(folder, janitor)?;
        let socket = folder.path().join("ticks");
        let server = Server::listen(&socket, PAGE_BYTES, 1)?;
        let page = Page::map(server.memory())?;
        let hints = Arc::new(Hints::map(server.memory(), HINTS_AT)?);
        // The socket is there as well, at the same path, wherever the agent runs; a guest has a device in its place.
        let is_guest = matches!(spec, Spec::Vm(_));
        let files = if is_guest { Vec::new() } else { vec![socket.clone()] };
        let agent = Agent { files, ..agent.clone() };
        let start = Start { agent: &agent, cpus: &[cpu], limit: START_LIMIT, janitor };
        let cpu = spec.partition().map_or(cpu, |own| own[0]);
        let mut has_kvm = false;
        let place = match spec {
            Spec::Vm(settings) => {
                let guest = Vm::with_doorbell(settings.clone(), &socket, &start)?;
                has_kvm = guest.accelerator_kind() == Accelerator::Kvm;
                Proven::Vm(guest.into())
            }
            _ => spec.trusted(&start)?,
        };
        let is_emulated = place.is_emulated();
        let accelerator = place.accelerator().to_owned();
        let (mut running, far_end) = if is_guest {
            // QEMU waits for its greeting before it runs the guest.
            let (running, peer) = thread::scope(|scope| {
                let waiting = scope.spawn(|| server.accept(START_LIMIT));
                (
                    place.start(&start),
                    waiting.join().unwrap_or_else(|_| Err(Failure::panicked("waiting for QEMU"))),
                )
            });
            (running?, FarEnd::Guest(peer?))
        } else {
            (place.start(&start)?, FarEnd::Process(socket, server))
        };
        running.greeting(&agent_in(name), START_LIMIT)?;
        let quotas = Quotas::of([&running]);
        // A guest has one CPU, by its own number.
        let cpu = if is_guest { 0 } else { cpu };
        Ok(Receiver {
            name: name.to_owned(),
            accelerator,
            has_kvm,
            is_emulated,
            running,
            page,
            hints,
            far_end,
            cpu,
            quotas,
            janitor,
            _folder: folder,
        })
    }

    /// How often the environment's CPU quota has been used up so far.
    pub fn throttling(&self) -> Throttling {
        self.quotas.throttling()
    }

    /// Sends ticks to the receiver, with a load on its CPU.
    ///
    /// # Errors
    /// Ticks could not be sent or received.
    pub fn measure(&mut self, load: Option<Load>, job: &Job) -> Result<Outcome, Failure> {
        self.page.reset();
        self.ask(load, job)?;
        let came;
        let peer = match &self.far_end {
            FarEnd::Guest(peer) => peer,
            FarEnd::Process(_, server) => match server.accept(START_LIMIT) {
                Ok(peer) => {
                    came = peer;
                    &came
                }
                // The agent knows why it did not come.
                Err(silent) => {
                    return Err(match self.hear(Duration::from_secs(1)) {
                        Err(NoAnswer::Refused(failure)) => failure,
                        _ => silent,
                    });
                }
            },
        };
        let mut made = Made::by(self.janitor);
        let trace = (job.stages && self.has_kvm)
            .then(|| HostTrace::start(&mut made, job.source.ticks))
            .transpose()?;
        let daemon = job.raise.as_ref().map(|settings| self.raise(settings, peer)).transpose()?;
        let (source, sent) = send(&self.page, peer, job);
        let raised = daemon.and_then(|daemon| daemon.end().pop());
        let trace = trace.map(HostTrace::stop).transpose();
        let (sent, received) = match (sent, self.hear(GRACE)) {
            (Ok(sent), Ok(received)) => (sent, received),
            (_, Err(NoAnswer::Refused(failure))) | (Err(failure), _) => return Err(failure),
            (Ok(_), Err(reason)) => return Err(reason.into()),
        };
        let threads =
            Target::find(self.running.process_id()).map(|target| target.threads).unwrap_or_default();
        let trace = trace?;
        let host = trace.as_ref().map(|trace| Host { trace, threads: &threads });
        let (stages, worst) = stages::of(&self.page, &received, source, host);
        Ok(Outcome {
            accelerator: self.accelerator.clone(),
            is_emulated: self.is_emulated,
            sent,
            received,
            raised,
            stages,
            worst,
        })
    }

    /// Begins to raise the receiver's thread, or its virtual CPU's, by its hints.
    fn raise(&self, settings: &pv_sched::Settings, peer: &Peer) -> Result<Daemon, Failure> {
        let thread = match &self.far_end {
            FarEnd::Process(..) => peer.process(),
            FarEnd::Guest(_) => vcpu(self.running.process_id())?,
        };
        self.hints.set_due_ns(0, 0);
        self.hints.set_runs(0, false);
        let vcpu = Vcpu { thread, hints: Arc::clone(&self.hints), slot: 0, cpu: None };
        Daemon::start(settings.clone(), vec![vcpu], Vec::new())
    }

    fn ask(&mut self, load: Option<Load>, job: &Job) -> Result<(), Failure> {
        let (doorbell, traced) = match &self.far_end {
            FarEnd::Guest(_) => (Doorbell::Device, job.stages.then_some(job.source.ticks)),
            FarEnd::Process(socket, _) => (Doorbell::Socket(socket.clone()), None),
        };
        let length = job.source.interval * u32::try_from(job.source.ticks).unwrap_or(u32::MAX);
        let request = Request::ReceiveTicks(TicksJob {
            doorbell,
            traced,
            receiver: job.receiver.clone(),
            load,
            cpus: vec![self.cpu],
            limit_ms: (length + GRACE).as_millis() as u64,
        });
        Ok(self.running.send(&agent_in(&self.name), &request, START_LIMIT)?)
    }

    /// Waits for what the agent has received.
    fn hear(&mut self, limit: Duration) -> Result<Received, NoAnswer> {
        let doing = format!("waiting for {}", agent_in(&self.name));
        self.running.hear(&doing, limit, |reply| match reply {
            Reply::Ticks(received) => Some(*received),
            _ => None,
        })
    }
}

/// Sends the ticks, and returns the sending thread's id and the result. The source runs in a separate thread, because
/// it binds itself to a CPU and raises its priority, and neither may stay.
fn send(page: &Page, peer: &Peer, job: &Job) -> (u32, Result<Sent, Failure>) {
    thread::scope(|scope| {
        let source = scope.spawn(|| {
            let thread = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
            (thread, source::run(page, &job.source, &|| peer.ring(0), &interrupt::is_set))
        });
        source.join().unwrap_or_else(|_| (0, Err(Failure::panicked("sending ticks"))))
    })
}

/// The thread of a QEMU's first virtual CPU.
fn vcpu(qemu: u32) -> Result<i32, Failure> {
    let failed = |answer: String| {
        Failure::new("looking for the thread of a virtual CPU", answer, "see whether the guest still runs")
    };
    let tasks = std::fs::read_dir(format!("/proc/{qemu}/task")).map_err(|error| failed(error.to_string()))?;
    let is_vcpu = |task: &std::path::PathBuf| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with("CPU 0/"))
    };
    let found = tasks.flatten().map(|task| task.path()).find(is_vcpu);
    let id = found.and_then(|task| task.file_name()?.to_str()?.parse().ok());
    id.ok_or_else(|| failed(format!("process {qemu} has no thread `CPU 0/…`")))
}

/// The name in errors of the agent in an environment.
fn agent_in(name: &str) -> String {
    format!("the agent in {name}")
}
