//! The environments of a run. Each is proved once, started for each block, and started again after a loss.

use std::time::Duration;

use environment::{Environment, Proven, Running, Spec, Start};
use linux::interrupt;
use measure::quota::{CpuCgroup, Throttling, tick};
use measure::{EnvironmentKind, EnvironmentRecord, Failure, QuotaRecord};
use workload::protocol::{AgentFacts, Reply, Request};

use super::session::Session;
use crate::PlannedEnvironment;
use crate::asking::{Asking, NoAnswer};

/// How often an environment may be lost before it is given up.
const LIVES: u32 = 3;

/// One environment of the run.
pub struct EnvironmentSlot {
    /// The environment's index in [`measure::Results::environments`].
    index: usize,
    planned: PlannedEnvironment,
    environment: Proven,
    running: Option<Running>,
    lives: u32,
    /// The CPUs to use, as the environment numbers them.
    cpus: Vec<usize>,
    /// The cgroup of the running agent.
    cgroup: CpuCgroup,
    quota: Option<QuotaRecord>,
}

/// All environments that could be proven.
pub struct EnvironmentSlots {
    /// The slots in the order of the command line.
    pub slots: Vec<EnvironmentSlot>,
}

impl EnvironmentSlots {
    /// Starts every environment once. An environment that cannot be started is recorded with the reason, and the
    /// run continues without it.
    pub fn prove(session: &mut Session<'_>) -> Self {
        let cpus = &session.plan.plan.cpus;
        let mut slots = Vec::new();
        for planned in &session.plan.environments {
            if interrupt::is_set() {
                break;
            }
            session.progress.doing(format!("starting {} for the first time", planned.name));
            let mut record = EnvironmentRecord {
                name: planned.name.clone(),
                kind: planned.spec.kind(),
                spec: planned.text.clone(),
                accelerator: String::new(),
                emulated: false,
                facts: Vec::new(),
                cpu_quota: None,
                failure: None,
            };
            match planned.spec.prove(&session.launcher.start_on(cpus)) {
                Ok(environment) => {
                    record.accelerator = environment.accelerator().to_owned();
                    record.emulated = environment.is_emulated();
                    record.facts = environment.facts();
                    slots.push(EnvironmentSlot {
                        index: session.results.environments.len(),
                        planned: PlannedEnvironment { spec: environment.spec(), ..planned.clone() },
                        environment,
                        running: None,
                        lives: LIVES,
                        cpus: match planned.spec.kind() {
                            EnvironmentKind::Host
                            | EnvironmentKind::Container
                            | EnvironmentKind::Partition => host_cpus(&planned.spec, cpus).to_vec(),
                            // Another machine numbers its own: known once its agent has greeted.
                            EnvironmentKind::Vm | EnvironmentKind::Remote => (0..cpus.len()).collect(),
                        },
                        cgroup: CpuCgroup::default(),
                        quota: None,
                    });
                }
                Err(failure) => {
                    session.progress.note(&format!("{}: {failure}", planned.name));
                    record.failure = Some(failure);
                }
            }
            session.results.environments.push(record);
        }
        EnvironmentSlots { slots }
    }

    /// The specs of the environments, with the means that were proven.
    pub fn specs(&self) -> Vec<Spec> {
        self.slots.iter().map(|slot| slot.planned.spec.clone()).collect()
    }

    /// Starts every environment that is not given up. A block begins with this call.
    pub fn start_all(&mut self, session: &mut Session<'_>) {
        for slot in &mut self.slots {
            slot.running = None;
        }
        for slot in &mut self.slots {
            slot.start(session);
        }
    }
}

impl EnvironmentSlot {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.planned.name
    }

    /// The environment's entry in the plan, with the means that were proven.
    pub fn planned(&self) -> &PlannedEnvironment {
        &self.planned
    }

    /// The CPUs of this machine that a trial there uses, of a run on `cpus`.
    pub fn host_cpus<'a>(&'a self, cpus: &'a [usize]) -> &'a [usize] {
        host_cpus(&self.planned.spec, cpus)
    }

    /// Its kind.
    pub fn kind(&self) -> EnvironmentKind {
        self.planned.spec.kind()
    }

    /// Whether the agent of the environment runs.
    pub fn runs(&self) -> bool {
        self.running.is_some()
    }

    /// Starts the environment, unless it has failed too often. Returns whether its agent runs.
    pub fn start(&mut self, session: &mut Session<'_>) -> bool {
        if self.lives == 0 || interrupt::is_set() {
            return false;
        }
        session.progress.doing(format!("starting {}", self.name()));
        match self.started(&session.launcher.start_on(&session.plan.plan.cpus)) {
            Ok((running, facts)) => {
                self.cgroup = running.cpu_cgroup();
                self.quota = quota(&self.cgroup, session.plan.plan.trial_ms);
                self.running = Some(running);
                let record = session.environment(self.index);
                for (key, value) in facts {
                    match record.facts.iter_mut().find(|(known, _)| *known == key) {
                        Some(known) => known.1 = value,
                        None => record.facts.push((key, value)),
                    }
                }
                record.cpu_quota = self.quota;
                true
            }
            Err(failure) => {
                self.lose(failure, session);
                false
            }
        }
    }

    fn started(&mut self, start: &Start<'_>) -> Result<(Running, Vec<(String, String)>), Failure> {
        let mut running = self.environment.start(start)?;
        let facts = running.greeting(&self.agent(), start.limit)?;
        if self.kind() == EnvironmentKind::Remote {
            self.cpus = facts.cpus_usable.iter().copied().take(start.cpus.len()).collect();
        }
        Ok((running, facts_to_show(&facts)))
    }

    /// The name of its agent in errors.
    fn agent(&self) -> String {
        format!("the agent in {}", self.name())
    }

    /// The length of a trial on `cpus_used` CPUs whose length without a quota is `budget`. A CPU quota shows only
    /// in a longer trial. A quota of this process itself is not considered, because it affects the baseline as
    /// well; it is only reported.
    pub fn stretched(&self, budget: Duration, cpus_used: usize) -> Duration {
        match self.quota {
            Some(QuotaRecord { quota, inherited: false, trial_ms }) if quota.cpus() < cpus_used as f64 => {
                budget.max(Duration::from_millis(trial_ms))
            }
            _ => budget,
        }
    }

    /// How often the environment's CPU quota has been used up so far.
    pub fn throttling(&self) -> Throttling {
        self.quota.map(|_| self.cgroup.throttling()).unwrap_or_default()
    }

    /// Sends the agent a request, and waits at most `limit` for the answer.
    pub fn ask<T>(
        &mut self,
        request: impl FnOnce(Vec<usize>) -> Request,
        limit: Duration,
        pick: impl FnOnce(Reply) -> Option<T>,
    ) -> Result<T, NoAnswer> {
        let (agent, request) = (self.agent(), request(self.cpus.clone()));
        let Some(running) = self.running.as_mut() else {
            let failure = Failure::new(format!("asking {agent}"), "it does not run", "see the reason above");
            return Err(NoAnswer::Lost(failure));
        };
        running.ask(&agent, &request, limit, pick)
    }

    /// Ends what is left of the environment, and counts the failure.
    pub fn lose(&mut self, failure: Failure, session: &mut Session<'_>) {
        self.running = None;
        self.lives -= 1;
        session.progress.note(&format!("{}: {failure}", self.name()));
        session.environment(self.index).failure = Some(failure);
    }
}

/// The CPUs of this machine that an environment uses: the run's, or as many of its partition's.
fn host_cpus<'a>(spec: &'a Spec, cpus: &'a [usize]) -> &'a [usize] {
    spec.partition().map_or(cpus, |own| &own[..own.len().min(cpus.len())])
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

/// The facts that an agent sees from inside and that a reader of its figures needs.
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
