//! A switch, and a member on each of its ports.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use environment::{Agent, Folder, Janitor, Running, Spec, Start};
use linux::{Child, OutputFile};
use measure::Failure;
use scenario::chain::{self, Outcome};
use workload::chain::ChainJob;
use workload::protocol::{Reply, Request};

use super::job::Job;

/// How long a start may take until the agent answers.
const START_LIMIT: Duration = Duration::from_secs(45);
/// How long beyond its ticks a chain may take to end.
const GRACE: Duration = Duration::from_secs(20);
/// A member that hears nothing for so long gives up.
const SILENCE: Duration = Duration::from_secs(10);

/// Agents that wait for trials.
pub struct Chain {
    members: Vec<Running>,
    sockets: Vec<PathBuf>,
    names: Vec<String>,
    _switch: Switch,
    _folder: Folder,
}

impl Chain {
    /// Starts switch and agents: those that move in `spec`, the others on the host.
    pub fn start(
        name: &str,
        spec: &Spec,
        job: &Job,
        (agent, janitor): (&Agent, &Arc<Janitor>),
    ) -> Result<Self, Failure> {
        let folder = Folder::make("scenario", janitor)?;
        let sockets: Vec<_> = (0..job.description.members.len())
            .map(|place| folder.path().join(format!("member-{place}")))
            .collect();
        let switch = Switch::start(&agent.binary, &sockets)?;
        let mut members = Vec::new();
        let mut names = Vec::new();
        for (member, socket) in job.description.members.iter().zip(&sockets) {
            // The socket is there as well, at the same path, wherever the agent runs.
            let agent = Agent { files: vec![socket.clone()], ..agent.clone() };
            let start = Start { agent: &agent, cpus: &job.cpus, limit: START_LIMIT, janitor };
            let spec = if member.moves { spec } else { &Spec::Host };
            let mut running = spec.prove(&start)?.start(&start)?;
            let place = if member.moves { name } else { "host" };
            let full_name = format!("{} ({place})", member.name);
            match hear(&mut running, &full_name, START_LIMIT)? {
                Reply::Ready { .. } => {}
                _ => return Err(odd(&full_name)),
            }
            members.push(running);
            names.push(full_name);
        }
        Ok(Chain { members, sockets, names, _switch: switch, _folder: folder })
    }

    /// One trial with so many users in each cell: what each member counted.
    pub fn trial(&mut self, job: &Job, users: u32) -> Result<Vec<Outcome>, Failure> {
        let mut description = job.description.clone();
        description.load.users = users;
        let length = description.interval() * u32::try_from(job.ticks).unwrap_or(u32::MAX);
        let limit = length.saturating_mul(4) + SILENCE + GRACE;
        // The last first: each waits for the one behind it.
        for (place, member) in self.members.iter_mut().enumerate().rev() {
            let request = Request::JoinChain(Box::new(ChainJob {
                socket: self.sockets[place].clone(),
                job: chain::Job {
                    description: description.clone(),
                    place,
                    ticks: job.ticks,
                    cpus: if job.is_bound { job.cpus.clone() } else { Vec::new() },
                    priority: job.priority,
                    silence_ms: SILENCE.as_millis() as u64,
                },
                limit_ms: limit.as_millis() as u64,
            }));
            let sent = member.channel().send(request.to_line().trim_end(), START_LIMIT);
            sent.map_err(|error| {
                member.explain(&format!("asking {}", self.names[place]), &error, "see its last output")
            })?;
        }
        // All are heard, so that each question has its answer; the first that failed says most.
        let replies: Vec<_> = self
            .members
            .iter_mut()
            .zip(&self.names)
            .map(|(member, name)| hear(member, name, limit + GRACE))
            .collect();
        let outcome = |(reply, name): (Result<Reply, Failure>, &String)| match reply? {
            Reply::Chain(outcome) => Ok(outcome),
            Reply::Failed(failure) => {
                Err(Failure::new(format!("{name}: {}", failure.tried), failure.answer, failure.remedy))
            }
            _ => Err(odd(name)),
        };
        replies.into_iter().zip(&self.names).map(outcome).collect()
    }
}

fn hear(running: &mut Running, name: &str, limit: Duration) -> Result<Reply, Failure> {
    let doing = format!("waiting for {name}");
    let remedy = "see its last output";
    let line = running.channel().receive(limit).map_err(|error| running.explain(&doing, &error, remedy))?;
    Reply::parse(&line).map_err(|error| Failure::new(doing, error, remedy))
}

fn odd(name: &str) -> Failure {
    Failure::new(format!("asking {name}"), "it answered another question", "report it")
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
