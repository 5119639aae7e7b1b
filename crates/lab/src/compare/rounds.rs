//! The measuring itself: blocks, rounds, and within a round every metric in every environment in turn
//! (Kalibera and Jones, ISMM 2013), the order turned round each time (A B C, then C B A); noisy trials repeated.

use linux::interrupt;
use linux::progress::Progress;
use measure::noise::{NoiseProbe, Preemption};
use measure::{Absence, EnvironmentKind, Failure, MetricId, Results, Trial, Verdict};

use super::cores::Cores;
use super::cyclictest;
use super::disturbed::{ATTEMPTS, disturbed, over_limit};
use super::job::{Job, Method};
use super::kvm_costs::KvmCosts;
use super::network::{self, Paths};
use super::run_plan::RunPlan;
use super::slots::{Answer, EnvironmentSlots};
use super::ticks::Ticks;
use crate::Launcher;

/// An agent's answer may take this many budgets, and the timeout on top for what an emulated CPU prepares.
const BUDGETS: u32 = 4;

/// Measures everything; `after_block` hears of every block that ended.
pub fn measure(
    run_plan: &RunPlan,
    launcher: &Launcher,
    slots: &mut EnvironmentSlots<'_>,
    results: &mut Results,
    progress: &Progress,
    mut after_block: impl FnMut(&mut Results),
) {
    let plan = &run_plan.plan;
    let trials = u64::from(plan.blocks * plan.rounds) * (run_plan.jobs.len() * slots.slots.len()) as u64;
    let hosts = results.environments.iter().filter(|place| place.kind == EnvironmentKind::Host).count();
    let mut paths = Paths::new(&run_plan.network, slots.start_on(&plan.cpus));
    progress.count(trials + u64::from(plan.blocks * plan.rounds) * paths.trials(hosts));
    let mut cores = Cores::new(&plan.cpus, plan.quick);
    let mut others = Others { kvm: KvmCosts::new(plan.quick), ticks: Ticks::new(plan, launcher) };
    let asks_agents = run_plan.jobs.iter().any(|job| job.method.asks_agent());
    for block in 0..plan.blocks {
        if asks_agents {
            slots.start_all(results, progress);
        }
        for round in 0..plan.rounds {
            for job in &run_plan.jobs {
                let mut order: Vec<usize> = (0..slots.slots.len()).collect();
                if (block + round) % 2 == 1 {
                    order.reverse();
                }
                for index in order {
                    if interrupt::is_set() {
                        return;
                    }
                    let at = At { block, round, index };
                    trial(run_plan, job, at, slots, (&mut cores, &mut others), results, progress);
                    progress.step();
                }
            }
        }
        let at = network::At { block, round: 0 };
        paths.block(at, plan.rounds, &mut cores, results, progress);
        after_block(results);
    }
}

#[derive(Clone, Copy)]
struct At {
    block: u32,
    round: u32,
    index: usize,
}

/// What measures by itself, without the environment's agent.
struct Others<'a> {
    kvm: KvmCosts,
    ticks: Ticks<'a>,
}

fn trial(
    run_plan: &RunPlan,
    job: &Job,
    at: At,
    slots: &mut EnvironmentSlots<'_>,
    (cores, others): (&mut Cores, &mut Others<'_>),
    results: &mut Results,
    progress: &Progress,
) {
    let name = slots.slots[at.index].name.clone();
    if absent(results, &job.spec.id, &name) {
        return;
    }
    if job.method.asks_agent() && !slots.slots[at.index].runs() && !slots.start(at.index, results, progress) {
        return;
    }
    let blocks = run_plan.plan.blocks;
    progress.doing(format!("start {}/{blocks}  {name}  {}", at.block + 1, job.spec.title));
    for attempt in 0..ATTEMPTS {
        let disturbed_before = cores.wait(job.cpus_used);
        let throttling = slots.slots[at.index].throttling();
        let probe = NoiseProbe::start(Preemption::NotCounted);
        let answer = ask(run_plan, job, at, slots, (results, &mut *others));
        let mut host_noise = probe.finish();
        let throttling = slots.slots[at.index].throttling().since(throttling);
        (host_noise.throttled_periods, host_noise.throttled_ns) = (throttling.periods, throttling.waited_ns);
        match answer {
            Answer::Done(outcome) => {
                host_noise.disturbed_cpus = cores.disturbed_since(disturbed_before, job.cpus_used);
                let noisy = over_limit(&outcome, &host_noise, run_plan.plan.cpus.len());
                let disturbed = disturbed(&host_noise);
                // Without time to wait it would only be disturbed again.
                let last = attempt + 1 == ATTEMPTS || noisy.is_none() && !cores.may_wait();
                if noisy.is_none() && disturbed.is_some() && !last {
                    cores.repeats();
                }
                let verdict = match (noisy.or(disturbed), last) {
                    (None, _) => Verdict::Accepted,
                    (Some(reason), false) => Verdict::Discarded(reason),
                    (Some(reason), true) => Verdict::KeptNoisy(reason),
                };
                let counts = verdict.counts();
                results.trials.push(Trial {
                    metric: job.spec.id.clone(),
                    environment: name.clone(),
                    block: at.block,
                    round: at.round,
                    attempt,
                    outcome,
                    host_noise,
                    verdict,
                });
                if counts {
                    return;
                }
            }
            Answer::Failed(reason) => {
                results.absences.push(Absence { metric: job.spec.id.clone(), environment: name, reason });
                return;
            }
            Answer::Lost(failure) => {
                // What an agent dies of is not asked of it again.
                let reason = failure.clone();
                results.absences.push(Absence { metric: job.spec.id.clone(), environment: name, reason });
                slots.slots[at.index].lose(failure, results, progress);
                return;
            }
            Answer::Interrupted => return,
        }
    }
}

fn absent(results: &Results, metric: &MetricId, environment: &str) -> bool {
    results.absences.iter().any(|absence| absence.metric == *metric && absence.environment == environment)
}

fn ask(
    run_plan: &RunPlan,
    job: &Job,
    at: At,
    slots: &mut EnvironmentSlots<'_>,
    (results, others): (&Results, &mut Others<'_>),
) -> Answer {
    let index = at.index;
    let is_host = results.environments[slots.slots[index].index].kind == EnvironmentKind::Host;
    match &job.method {
        Method::Agent { request, budget, sees_quota } => {
            let slot = &mut slots.slots[index];
            let budget = if *sees_quota { slot.stretched(*budget, job.cpus_used) } else { *budget };
            let limit = budget.saturating_mul(BUDGETS).saturating_add(run_plan.timeout);
            slot.ask(|cpus| request(cpus, budget), limit)
        }
        Method::Cyclictest(_) | Method::KvmCost(_) if !is_host => Answer::Failed(Failure::new(
            format!("measuring {} there", job.spec.id),
            "it is measured on the host alone",
            "compare it with the host's figure",
        )),
        Method::Ticks(load) => {
            let name = &slots.slots[index].name;
            let (.., spec) = run_plan.environments.iter().find(|(known, ..)| known == name).expect("its own");
            Answer::of(others.ticks.measure((name, spec), *load, at.block))
        }
        Method::Cyclictest(duration) => Answer::of(cyclictest::run(*duration, &run_plan.plan.cpus)),
        Method::KvmCost(row) => Answer::of(others.kvm.row(row, at.block, &run_plan.plan.cpus)),
    }
}
