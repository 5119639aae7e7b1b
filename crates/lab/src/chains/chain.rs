//! A switch and the members of a scenario, each on a port.

use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clocks::{Answering, Exchange};
use environment::vm::{Accelerator, Nic, Settings, SharedMemory, Vm, is_emulated};
use environment::{Agent, Environment, Folder, Running, Spec, Start};
use linux::{Child, OutputFile};
use measure::Failure;
use measure::quota::Throttling;
use scenario::chain::{self, Outcome};
use workload::chain::{ChainJob, MemberPort};
use workload::protocol::{Reply, Request};

use super::job::Job;
use crate::asking::{Asking, NoAnswer};
use crate::runner::Quotas;
use crate::{Launcher, PlannedEnvironment};

/// How long a start may take until the agent answers.
const START_LIMIT: Duration = Duration::from_secs(90);
/// How long beyond its ticks a chain may take to end.
const GRACE: Duration = Duration::from_secs(20);
/// A member that hears nothing for so long gives up. Guests on an emulated CPU need some seconds to ask for the time.
const SILENCE: Duration = Duration::from_secs(20);

/// The memory that a guest shares with this process: one small page.
const SHARED_BYTES: u64 = 4096;
/// The interface of a guest's only card, as a kernel names it.
const INTERFACE: &str = "eth0";

/// A switch and agents that are ready for trials.
pub struct Chain {
    members: Vec<Member>,
    quotas: Quotas,
    _switch: Switch,
    _folder: Folder,
}

/// One of them.
struct Member {
    running: Running,
    /// The name of the scenario, with the environment in which it runs.
    name: String,
    port: MemberPort,
    /// The thread that tells a guest the time.
    _clock: Option<Answering>,
}

impl Chain {
    /// Starts the switch and the agents: those of members that move in `planned`, all others on the host.
    pub fn start(planned: &PlannedEnvironment, job: &Job, launcher: &Launcher) -> Result<Self, Failure> {
        let Launcher { agent, janitor } = launcher;
        let folder = Folder::make("scenario", janitor)?;
        let sockets: Vec<_> = (0..job.description.members.len())
            .map(|place| folder.path().join(format!("member-{place}")))
            .collect();
        let switch = Switch::start(&agent.binary, &sockets)?;
        let mut members = Vec::new();
        for (place, (member, socket)) in job.description.members.iter().zip(&sockets).enumerate() {
            let (environment, spec) = match member.moves {
                true => (planned.name.as_str(), &planned.spec),
                false => ("host", &Spec::Host),
            };
            let name = format!("{} ({environment})", member.name);
            let start = Start { limit: START_LIMIT, ..launcher.start_on(&job.cpus) };
            members.push(match spec {
                Spec::Vm(settings) => guest(name, settings, place, socket, &start)?,
                _ => {
                    // The socket is there as well, at the same path, wherever the agent runs.
                    let agent = Agent { files: vec![socket.clone()], ..agent.clone() };
                    let start = Start { agent: &agent, ..start };
                    let running = spec.trusted(&start)?.start(&start)?;
                    Member { running, name, port: MemberPort::Socket(socket.clone()), _clock: None }
                }
            });
        }
        // All have begun: guests boot beside one another.
        for member in &mut members {
            member.running.greeting(&member.name, START_LIMIT)?;
        }
        let quotas = Quotas::of(members.iter().map(|member| &member.running));
        Ok(Chain { members, quotas, _switch: switch, _folder: folder })
    }

    /// How often the members' CPU quotas have been used up so far.
    pub fn throttling(&self) -> Throttling {
        self.quotas.throttling()
    }

    /// Runs one trial with `users` users in each cell. Returns what each member counted.
    pub fn trial(&mut self, job: &Job, users: u32) -> Result<Vec<Outcome>, Failure> {
        let mut description = job.description.clone();
        description.load.users = users;
        let length = description.interval() * u32::try_from(job.ticks).unwrap_or(u32::MAX);
        let limit = length.saturating_mul(4) + SILENCE + GRACE;
        // The last member starts first, because each member waits for the one behind it.
        for (place, member) in self.members.iter_mut().enumerate().rev() {
            // A guest has no other CPUs than these.
            let is_bound = job.is_bound && matches!(member.port, MemberPort::Socket(_));
            let request = Request::JoinChain(Box::new(ChainJob {
                port: member.port.clone(),
                job: chain::Job {
                    description: description.clone(),
                    place,
                    ticks: job.ticks,
                    cpus: if is_bound { job.cpus.clone() } else { Vec::new() },
                    priority: job.priority,
                    silence_ms: SILENCE.as_millis() as u64,
                },
                limit_ms: limit.as_millis() as u64,
            }));
            member.running.send(&member.name, &request, START_LIMIT)?;
        }
        // All are heard, so that each question has its answer; the first that failed says most.
        let heard: Vec<_> = self.members.iter_mut().map(|member| member.hear(limit + GRACE)).collect();
        heard.into_iter().collect()
    }
}

impl Member {
    fn hear(&mut self, limit: Duration) -> Result<Outcome, Failure> {
        let doing = format!("waiting for {}", self.name);
        let heard = self.running.hear(&doing, limit, |reply| match reply {
            Reply::Chain(outcome) => Some(outcome),
            _ => None,
        });
        heard.map_err(|reason| match reason {
            NoAnswer::Refused(failure) => {
                Failure { tried: format!("{}: {}", self.name, failure.tried), ..failure }
            }
            other => other.into(),
        })
    }
}

/// The environment with its runtime or accelerator, which holds for the whole run, and whether its CPU is emulated. A
/// container or a guest is started once to find that out, unless the user named it.
pub fn settled(spec: &Spec, job: &Job, launcher: &Launcher) -> Result<(Spec, bool), Failure> {
    if let Spec::Vm(Settings { accelerator: Some(accelerator), .. }) = spec {
        return Ok((spec.clone(), is_emulated(*accelerator)));
    }
    let place = spec.trusted(&Start { limit: START_LIMIT, ..launcher.start_on(&job.cpus) })?;
    Ok((place.spec(), place.is_emulated()))
}

/// A member in a guest, whose card is at the switch's socket.
fn guest(
    name: String,
    settings: &Settings,
    place: usize,
    socket: &Path,
    start: &Start<'_>,
) -> Result<Member, Failure> {
    let failed = |error: io::Error| {
        Failure::new("making memory that a guest shares", error, "see what the system said; free some memory")
    };
    let memory = memory::sealed_memfd(c"tautline-clock", SHARED_BYTES).map_err(failed)?;
    let clock = Answering::start(Exchange::map(&memory, 0)?)?;
    let memory = SharedMemory::new(memory).map_err(failed)?;
    // For benchmarks of networks (RFC 2544). No program sends to this network: a card needs an address to be up.
    let address = Ipv4Addr::new(198, 18, 0, place as u8 + 1);
    let is_emulated = settings.accelerator == Some(Accelerator::Tcg);
    let nic = Nic::at_switch(socket, chain::address(place), (address, 24), is_emulated);
    let running = Vm::with_nic(settings, nic, start)?.sharing(memory).start(start)?;
    Ok(Member { running, name, port: MemberPort::Interface(INTERFACE.into()), _clock: Some(clock) })
}

/// `tautline switch`, as a user starts it.
struct Switch {
    _process: Child,
}

impl Switch {
    fn start(binary: &Path, sockets: &[PathBuf]) -> Result<Self, Failure> {
        let mut command = Command::new(binary);
        command.arg("switch");
        for (place, socket) in sockets.iter().enumerate() {
            command.args(["--port", &format!("member-{place}=vhost-user:{}", socket.display())]);
        }
        let tried = format!("starting the switch: {command:?}");
        let failed = |answer: String| Failure::new(&tried, answer, "repeat the command to see what it says");
        let output = OutputFile::new().map_err(|error| failed(error.to_string()))?;
        let stdio = || output.stdio().map_err(|error| failed(error.to_string()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stdio()?);
        let mut process = environment::spawn(&mut command).map_err(|error| failed(error.to_string()))?;
        let until = Instant::now() + START_LIMIT;
        while !sockets.iter().all(|socket| socket.exists()) {
            let ended = process.try_wait().ok().flatten();
            if ended.is_some() || Instant::now() > until {
                let said = output.tail(4096).unwrap_or_default();
                let how = ended.map_or("its sockets are not there".to_owned(), |status| status.to_string());
                return Err(failed(format!("{how}; its last output: {}", said.trim())));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(Switch { _process: process })
    }
}
