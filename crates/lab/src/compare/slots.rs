//! The environments of a run: proven, started for each block, lost and started again.

use std::time::Duration;

use environment::channel::ChannelError;
use environment::{Environment, Running, Start};
use linux::interrupt;
use linux::progress::Progress;
use measure::quota::{CpuCgroup, Throttling, tick};
use measure::{EnvironmentKind, EnvironmentRecord, Failure, QuotaRecord, Results};
use workload::protocol::{AgentFacts, Reply, Request};

use super::run_plan::RunPlan;
use crate::Launcher;

/// How long a start may take until the agent answers: a stock kernel under emulation needs 2 to 10 s.
const START_LIMIT: Duration = Duration::from_secs(45);
/// How long a start may take under KVM on a CPU that is emulated itself: it takes 35 s where nothing else runs.
const EMULATED_START_LIMIT: Duration = Duration::from_secs(120);

/// What a start on these CPUs needs.
fn start_on<'a>(launcher: &'a Launcher, cpus: &'a [usize]) -> Start<'a> {
    let limit = if kvm::is_emulated() { EMULATED_START_LIMIT } else { START_LIMIT };
    Start { agent: &launcher.agent, cpus, limit, janitor: &launcher.janitor }
}

/// How often an environment may be lost before it is given up.
const LIVES: u32 = 3;

/// What came of asking an agent.
pub enum Answer {
    /// A measurement.
    Done(measure::Outcome),
    /// The agent could not do it, and is ready for more.
    Failed(Failure),
    /// The agent is gone.
    Lost(Failure),
    /// The user interrupted.
    Interrupted,
}

impl Answer {
    /// Of what was measured without an agent.
    pub fn of(outcome: Result<measure::Outcome, Failure>) -> Self {
        outcome.map_or_else(Answer::Failed, Answer::Done)
    }
}

/// One environment of the run.
pub struct EnvironmentSlot {
    /// Its place in [`Results::environments`].
    pub index: usize,
    /// Its name.
    pub name: String,
    environment: Box<dyn Environment>,
    running: Option<Running>,
    lives: u32,
    /// The CPUs to work on, as the environment numbers them.
    cpus: Vec<usize>,
    /// Of the agent that runs.
    cgroup: CpuCgroup,
    quota: Option<QuotaRecord>,
}

/// All environments that could be proven.
pub struct EnvironmentSlots<'a> {
    /// In the order of the command line.
    pub slots: Vec<EnvironmentSlot>,
    launcher: &'a Launcher,
    cpus: Vec<usize>,
}

impl<'a> EnvironmentSlots<'a> {
    /// Starts every environment once. One that cannot is recorded with the reason, and the others go on.
    pub fn prove(
        run_plan: &RunPlan,
        launcher: &'a Launcher,
        results: &mut Results,
        progress: &Progress,
    ) -> Self {
        let cpus = run_plan.plan.cpus.clone();
        let mut slots = Vec::new();
        for (name, text, spec) in &run_plan.environments {
            if interrupt::is_set() {
                break;
            }
            progress.doing(format!("starting {name} for the first time"));
            let start = start_on(launcher, &cpus);
            let mut record = EnvironmentRecord {
                name: name.clone(),
                kind: spec.kind(),
                spec: text.clone(),
                accelerator: String::new(),
                emulated: false,
                facts: Vec::new(),
                cpu_quota: None,
                failure: None,
            };
            match spec.prove(&start) {
                Ok(environment) => {
                    record.accelerator = environment.accelerator().to_owned();
                    record.emulated = environment.accelerator() == "tcg";
                    record.facts = environment.facts();
                    let index = results.environments.len();
                    let cpus = match spec.kind() {
                        EnvironmentKind::Host | EnvironmentKind::Container => cpus.clone(),
                        // Another machine numbers its own: known once its agent has greeted.
                        EnvironmentKind::Vm | EnvironmentKind::Remote => (0..cpus.len()).collect(),
                    };
                    let name = name.clone();
                    let (running, cgroup, quota) = (None, CpuCgroup::default(), None);
                    slots.push(EnvironmentSlot {
                        index,
                        name,
                        environment,
                        running,
                        lives: LIVES,
                        cpus,
                        cgroup,
                        quota,
                    });
                }
                Err(failure) => {
                    progress.note(&lost(name, &failure));
                    record.failure = Some(failure);
                }
            }
            results.environments.push(record);
        }
        EnvironmentSlots { slots, launcher, cpus }
    }

    /// What a start of something else than an environment needs.
    pub fn start_on<'b>(&self, cpus: &'b [usize]) -> Start<'b>
    where
        'a: 'b,
    {
        start_on(self.launcher, cpus)
    }

    /// Starts afresh whatever is not given up: the beginning of a block.
    pub fn start_all(&mut self, results: &mut Results, progress: &Progress) {
        for slot in &mut self.slots {
            slot.running = None;
        }
        for index in 0..self.slots.len() {
            self.start(index, results, progress);
        }
    }

    /// Starts one environment, if it has a life left. Returns whether it runs.
    pub fn start(&mut self, index: usize, results: &mut Results, progress: &Progress) -> bool {
        let slot = &mut self.slots[index];
        if slot.lives == 0 || interrupt::is_set() {
            return false;
        }
        progress.doing(format!("starting {}", slot.name));
        let start = start_on(self.launcher, &self.cpus);
        match slot.start(&start) {
            Ok((running, facts)) => {
                let record = &mut results.environments[slot.index];
                for (key, value) in facts {
                    match record.facts.iter_mut().find(|(known, _)| *known == key) {
                        Some(known) => known.1 = value,
                        None => record.facts.push((key, value)),
                    }
                }
                slot.cgroup = running.cpu_cgroup();
                slot.quota = quota(&slot.cgroup, results.plan.trial_ms);
                results.environments[slot.index].cpu_quota = slot.quota;
                slot.running = Some(running);
                true
            }
            Err(failure) => {
                slot.lose(failure, results, progress);
                false
            }
        }
    }
}

impl EnvironmentSlot {
    /// Whether its agent is there.
    pub fn runs(&self) -> bool {
        self.running.is_some()
    }

    fn start(&mut self, start: &Start<'_>) -> Result<(Running, Vec<(String, String)>), Failure> {
        let mut running = self.environment.start(start)?;
        let doing = format!("starting the agent in {}", self.name);
        let remedy = "see its last output; the other environments go on";
        let greeting = running
            .channel()
            .receive(start.limit)
            .map_err(|error| running.explain(&doing, &error, remedy))?;
        match Reply::parse(&greeting).and_then(Reply::greeting) {
            Ok(facts) => {
                if self.environment.kind() == EnvironmentKind::Remote {
                    self.cpus = facts.cpus_usable.iter().copied().take(start.cpus.len()).collect();
                }
                Ok((running, facts_to_show(&facts)))
            }
            Err(error) => Err(Failure::new(doing, error, remedy)),
        }
    }

    /// How long a trial on so many CPUs lasts that would last `budget`: a CPU quota is seen by a longer one only.
    /// One that this process itself is under is as much in the base's figures, and only named.
    pub fn stretched(&self, budget: Duration, cpus_used: usize) -> Duration {
        match self.quota {
            Some(QuotaRecord { quota, inherited: false, trial_ms }) if quota.cpus() < cpus_used as f64 => {
                budget.max(Duration::from_millis(trial_ms))
            }
            _ => budget,
        }
    }

    /// How often its CPU quota was used up until now.
    pub fn throttling(&self) -> Throttling {
        self.quota.map(|_| self.cgroup.throttling()).unwrap_or_default()
    }

    /// Asks the agent, and waits for up to `limit`.
    pub fn ask(&mut self, request: impl FnOnce(Vec<usize>) -> Request, limit: Duration) -> Answer {
        let request = request(self.cpus.clone());
        let Some(running) = self.running.as_mut() else {
            return Answer::Lost(Failure::new("asking the agent", "it does not run", "see the reason above"));
        };
        let line = request.to_line();
        let sent = running.channel().send(line.trim_end(), limit);
        let answer = sent.and_then(|()| running.channel().receive(limit));
        let remedy = "see its last output; repeat with --only to find what it died of";
        let lost = |failure| Answer::Lost(failure);
        match answer {
            Ok(line) => match Reply::parse(&line) {
                Ok(Reply::Done(outcome)) => Answer::Done(outcome),
                Ok(Reply::Failed(failure)) => Answer::Failed(failure),
                Ok(Reply::Ready { .. }) => {
                    lost(Failure::new("asking the agent", "it greeted anew: the guest restarted", remedy))
                }
                Ok(_) => lost(Failure::new("asking the agent", "it answered another question", remedy)),
                Err(error) => lost(Failure::new("asking the agent", error, remedy)),
            },
            Err(ChannelError::Interrupted) => Answer::Interrupted,
            Err(error) => {
                let doing = format!("waiting for the agent in {} to do {}", self.name, line.trim_end());
                lost(running.explain(&doing, &error, remedy))
            }
        }
    }

    /// Ends what is left of it, and takes a life.
    pub fn lose(&mut self, failure: Failure, results: &mut Results, progress: &Progress) {
        self.running = None;
        self.lives -= 1;
        progress.note(&lost(&self.name, &failure));
        results.environments[self.index].failure = Some(failure);
    }
}

/// The quota of a cgroup, and how long trials must last to see it.
fn quota(cgroup: &CpuCgroup, trial_ms: u64) -> Option<QuotaRecord> {
    let quota = cgroup.quota()?;
    let inherited = CpuCgroup::own().quota() == Some(quota);
    let least_ms = quota.least_trial(tick()).as_millis() as u64;
    Some(QuotaRecord {
        quota,
        inherited,
        trial_ms: if inherited { trial_ms } else { trial_ms.max(least_ms) },
    })
}

/// What an agent sees from inside that a reader of its figures needs.
fn facts_to_show(facts: &AgentFacts) -> Vec<(String, String)> {
    let yes_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    [
        ("kernel", facts.kernel.clone()),
        ("CPU", facts.cpu_model.clone()),
        ("CPUs usable", facts.cpus_usable.len().to_string()),
        ("memory", format!("{} MiB", facts.memory_bytes >> 20)),
        ("clock source", facts.clocksource.clone()),
        ("transparent huge pages", facts.transparent_huge_pages.clone()),
        ("SCHED_FIFO granted", yes_no(facts.can_fifo)),
        ("memory locking granted", yes_no(facts.can_lock_memory)),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect()
}

/// A failure's three parts for one environment that could not go on.
fn lost(name: &str, failure: &Failure) -> String {
    format!("{name}: {failure}")
}
