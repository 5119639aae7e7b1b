//! Measures in blocks and rounds. In each round every metric is measured in every environment in turn (Kalibera
//! and Jones, ISMM 2013), and the order is reversed each time (A B C, then C B A).

use linux::interrupt;
use measure::quota::Throttling;
use measure::{EnvironmentKind, Failure, Outcome, Results};
use workload::protocol::Reply;

use super::cyclictest;
use super::job::{Job, Method};
use super::kvm_costs::KvmCosts;
use super::network::Paths;
use super::run_plan::RunPlan;
use super::session::{At, Session, recorded};
use super::slots::{EnvironmentSlot, EnvironmentSlots};
use super::ticks::Ticks;
use crate::asking::NoAnswer;
use crate::runner::Subject;

/// An agent's answer may take this many budgets, and the timeout on top for what an emulated CPU prepares.
const BUDGETS: u32 = 4;

/// Measures everything. `after_block` is called with the results after each block.
pub fn measure(
    session: &mut Session<'_>,
    slots: &mut EnvironmentSlots,
    mut after_block: impl FnMut(&mut Results),
) {
    let run_plan = session.plan;
    let plan = &run_plan.plan;
    let each_round = u64::from(plan.blocks * plan.rounds);
    let environments = &session.results.environments;
    let hosts = environments.iter().filter(|place| place.kind == EnvironmentKind::Host).count();
    let mut paths = Paths::new(&run_plan.network, session.launcher.start_on(&plan.cpus), slots.specs());
    let trials = (run_plan.jobs.len() * slots.slots.len()) as u64 + paths.trials(hosts);
    session.progress.count(each_round * trials);
    let mut others = Others { kvm: KvmCosts::new(plan.quick), ticks: Ticks::new(plan, session.launcher) };
    let asks_agents = run_plan.jobs.iter().any(|job| job.method.asks_agent());
    for block in 0..plan.blocks {
        if asks_agents {
            slots.start_all(session);
        }
        for round in 0..plan.rounds {
            let at = At { block, round };
            for job in &run_plan.jobs {
                let mut order: Vec<usize> = (0..slots.slots.len()).collect();
                if at.is_backwards() {
                    order.reverse();
                }
                for index in order {
                    if interrupt::is_set() {
                        return;
                    }
                    trial(session, job, at, &mut slots.slots[index], &mut others);
                    session.progress.step();
                }
            }
        }
        paths.block(block, plan.rounds, session);
        after_block(&mut session.results);
    }
}

/// The measurements that need no agent of the environment.
struct Others<'a> {
    kvm: KvmCosts,
    ticks: Ticks<'a>,
}

fn trial(session: &mut Session<'_>, job: &Job, at: At, slot: &mut EnvironmentSlot, others: &mut Others<'_>) {
    let (metric, name) = (&job.spec.id, slot.name().to_owned());
    if session.is_absent(metric, &name) {
        return;
    }
    if job.method.asks_agent() && !slot.runs() && !slot.start(session) {
        return;
    }
    let run_plan = session.plan;
    let blocks = run_plan.plan.blocks;
    session.progress.doing(format!("start {}/{blocks}  {name}  {}", at.block + 1, job.spec.title));
    let mut subject = JobTrial { run_plan, job, block: at.block, slot, others };
    let tried = session.runner.trial(&mut subject);
    for attempt in tried.attempts() {
        session.results.trials.push(recorded(metric, &name, at, attempt, attempt.measured.clone()));
    }
    match tried.counted {
        Ok(_) | Err(NoAnswer::Interrupted(_)) => {}
        Err(NoAnswer::Refused(reason)) => session.absent(metric, &name, reason),
        Err(NoAnswer::Lost(failure)) => {
            // A metric at which an agent died is not requested again.
            session.absent(metric, &name, failure.clone());
            slot.lose(failure, session);
        }
    }
}

/// A job in one environment.
struct JobTrial<'a, 'b> {
    run_plan: &'a RunPlan,
    job: &'a Job,
    block: u32,
    slot: &'a mut EnvironmentSlot,
    others: &'a mut Others<'b>,
}

impl Subject for JobTrial<'_, '_> {
    type Measured = Outcome;
    type Failed = NoAnswer;

    fn cpus(&self) -> &[usize] {
        let cpus = self.slot.host_cpus(&self.run_plan.plan.cpus);
        &cpus[..self.job.cpus_used.min(cpus.len())]
    }

    fn throttling(&self) -> Throttling {
        self.slot.throttling()
    }

    fn measure(&mut self) -> Result<Outcome, NoAnswer> {
        let (job, slot) = (self.job, &mut *self.slot);
        let cpus = &self.run_plan.plan.cpus;
        let measured = match &job.method {
            Method::Agent { request, budget, sees_quota } => {
                let budget = if *sees_quota { slot.stretched(*budget, job.cpus_used) } else { *budget };
                let limit = budget.saturating_mul(BUDGETS).saturating_add(self.run_plan.timeout);
                return slot.ask(
                    |cpus| request(cpus, budget),
                    limit,
                    |reply| match reply {
                        Reply::Done(outcome) => Some(outcome),
                        _ => None,
                    },
                );
            }
            Method::Cyclictest(_) | Method::KvmCost(_) if slot.kind() != EnvironmentKind::Host => {
                Err(Failure::new(
                    format!("measuring {} there", job.spec.id),
                    "it is measured on the host alone",
                    "compare it with the host's figure",
                ))
            }
            Method::Ticks(load) => self.others.ticks.measure(slot.planned(), *load, self.block),
            Method::Cyclictest(duration) => cyclictest::run(*duration, cpus),
            Method::KvmCost(row) => self.others.kvm.row(row, self.block, cpus),
        };
        measured.map_err(NoAnswer::Refused)
    }

    fn elapsed_ns(&self, measured: &Outcome) -> u64 {
        measured.elapsed_ns
    }
}
