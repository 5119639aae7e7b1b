//! The plan of a run names the metrics, the environments and the number of trials. The plan is complete before any
//! environment is started.

use std::time::Duration;

use environment::spec::split_list;
use environment::{Spec, vm};
use measure::{Group, MetricSpec, Plan};
use workload::catalogue::{self, BudgetKind, Profile};
use workload::protocol::Request;

use super::external::External;
use super::job::{Job, Method};
use super::network::NetworkPlan;
use super::options::{Options, PlanError};
use super::{cyclictest, external, kvm_costs, selection, ticks};
use crate::PlannedEnvironment;

/// Everything decided.
pub struct RunPlan {
    /// The plan in the form of the results file.
    pub plan: Plan,
    /// The environments, in order.
    pub environments: Vec<PlannedEnvironment>,
    /// The measurements, in order.
    pub jobs: Vec<Job>,
    /// The group `net`, which has paths of its own.
    pub network: NetworkPlan,
    /// How long an agent may take to answer, in addition to the length of the trial.
    pub timeout: Duration,
    /// The user's programs.
    pub externals: Vec<External>,
}

impl RunPlan {
    /// Checks the options and makes the plan; changes nothing.
    ///
    /// # Errors
    /// A name matches nothing, or a file of workloads cannot be read.
    pub fn new(options: &Options) -> Result<Self, PlanError> {
        let pick = |given: Option<Duration>, quick_ms: u64, full_ms: u64| {
            given.map_or(if options.quick { quick_ms } else { full_ms }, |given| given.as_millis() as u64)
        };
        let mut environments = environments(&options.environments)?;
        let plan = Plan {
            quick: options.quick,
            blocks: options.blocks.unwrap_or(if options.quick { 6 } else { 10 }),
            rounds: options.rounds.unwrap_or(1),
            trial_ms: pick(options.trial, 20, 100),
            wakeup_ms: pick(options.wakeup_trial, 200, 2000),
            cpus: shared_cpus(&options.cpus, &environments)?,
        };
        let externals = match &options.workloads {
            Some(path) => external::load(path)?,
            None => Vec::new(),
        };
        let mut jobs = all_jobs(&plan, &externals, options.cyclictest);
        let timeout = options.timeout;
        let profile = if plan.quick { Profile::Quick } else { Profile::Full };
        let mut network = NetworkPlan::new(
            profile,
            Duration::from_millis(plan.trial_ms),
            timeout,
            options.card.clone(),
            options.verify_payload,
        );
        jobs.extend(ticks::jobs(plan.quick));
        jobs.extend(kvm_costs::jobs());
        let specs: Vec<MetricSpec> = jobs.iter().map(|job| job.spec.clone()).chain(network.specs()).collect();
        selection::check(&specs, &options.only)?;
        jobs.retain(|job| selection::is_named(&options.only, &job.spec));
        // On request only: of the host alone, and nothing to compare it with; and with further guests of its own.
        if options.only.is_empty() {
            jobs.retain(|job| !matches!(job.spec.group, Group::Kvm | Group::Tti));
        }
        network.choose(&options.only);
        if environments.iter().all(|place| place.spec != Spec::Host) {
            network.clear();
        }
        let guest = environments.iter().find_map(|place| match &place.spec {
            Spec::Vm(settings) => Some(vm::Settings { partition: Vec::new(), ..settings.clone() }),
            _ => None,
        });
        network.guest = guest.unwrap_or_default();
        let only_kvm = jobs.iter().all(|job| job.spec.group == Group::Kvm);
        if only_kvm && !(jobs.is_empty() && network.flows.is_empty()) {
            // Paths begin on the host, whatever their near end is; and so do guests.
            environments.retain(|place| place.spec == Spec::Host);
        }
        Ok(RunPlan { environments, plan, jobs, network, timeout, externals })
    }

    /// The descriptions of the metrics that are measured.
    pub fn specs(&self) -> Vec<MetricSpec> {
        self.jobs.iter().map(|job| job.spec.clone()).chain(self.network.specs()).collect()
    }
}

fn all_jobs(plan: &Plan, externals: &[External], cyclictest: bool) -> Vec<Job> {
    let profile = if plan.quick { Profile::Quick } else { Profile::Full };
    let mut jobs = Vec::new();
    for entry in catalogue::catalogue(profile) {
        let budget_ms = match entry.budget {
            BudgetKind::Trial => plan.trial_ms,
            BudgetKind::Wakeup => plan.wakeup_ms,
        };
        let metric = entry.spec.id.clone();
        let request = Box::new(move |cpus, budget: Duration| Request::Run {
            metric: metric.clone(),
            budget_ms: budget.as_millis() as u64,
            cpus,
        });
        let cpus_used = entry.cpus_used(plan.cpus.len());
        let sees_quota = entry.budget == BudgetKind::Trial;
        let cross = (cyclictest && entry.spec.id.as_str() == cyclictest::METRIC).then(|| Job {
            spec: cyclictest::spec(&entry.spec),
            method: Method::Cyclictest(Duration::from_millis(budget_ms)),
            cpus_used,
        });
        jobs.push(Job {
            spec: entry.spec,
            method: Method::Agent { request, budget: Duration::from_millis(budget_ms), sees_quota },
            cpus_used,
        });
        jobs.extend(cross);
    }
    jobs.extend(externals.iter().map(|external| external.job(plan.cpus.len())));
    jobs
}

/// The CPUs of the environments without a partition: the CPUs of the run that no partition takes, and at most as many
/// as the smallest partition has, so that all environments work on the same number.
fn shared_cpus(cpus: &[usize], environments: &[PlannedEnvironment]) -> Result<Vec<usize>, PlanError> {
    let partitions: Vec<&[usize]> = environments.iter().filter_map(|place| place.spec.partition()).collect();
    let overlap = |one: &[usize], other: &[usize]| one != other && one.iter().any(|cpu| other.contains(cpu));
    if partitions.iter().any(|one| partitions.iter().any(|other| overlap(one, other))) {
        return Err(PlanError::Partitions(
            "two partitions share a CPU; name all of the same CPUs, or others",
        ));
    }
    let is_shared = |cpu: &&usize| !partitions.iter().any(|taken| taken.contains(cpu));
    let count = partitions.iter().map(|taken| taken.len()).min().unwrap_or(usize::MAX);
    let shared: Vec<usize> = cpus.iter().filter(is_shared).copied().take(count).collect();
    if shared.is_empty() {
        return Err(PlanError::Partitions(
            "no CPU of --cpus is left beside the partitions; name fewer CPUs for them",
        ));
    }
    Ok(shared)
}

/// Environments with unique names: a second host is `host-2`.
fn environments(list: &str) -> Result<Vec<PlannedEnvironment>, PlanError> {
    let mut found: Vec<PlannedEnvironment> = Vec::new();
    for text in split_list(list) {
        let spec: Spec = text.parse()?;
        let kind = text.split(':').next().unwrap_or(&text).to_owned();
        let earlier = found.iter().filter(|other| other.text.split(':').next() == Some(&kind)).count();
        let name = if earlier == 0 { kind } else { format!("{kind}-{}", earlier + 1) };
        found.push(PlannedEnvironment { name, text, spec });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_environment_of_a_kind_gets_a_number() {
        let names: Vec<String> = environments("host,host,container:cpus=0.5")
            .unwrap()
            .into_iter()
            .map(|place| place.name)
            .collect();
        assert_eq!(names, ["host", "host-2", "container"]);
    }

    #[test]
    fn all_environments_work_on_the_same_number_of_cpus() {
        let shared = |list| shared_cpus(&[0, 1, 2, 3], &environments(list).unwrap());
        assert_eq!(shared("host,container").unwrap(), [0, 1, 2, 3]);
        assert_eq!(shared("host,partition:2-3").unwrap(), [0, 1]);
        assert_eq!(shared("host,partition:1,vm:partition=1,vm:partition=2-3").unwrap(), [0]);
        assert_eq!(shared("host,partition:2-9").unwrap(), [0, 1]);
        assert!(shared("partition:0-3").unwrap_err().to_string().contains("fewer"));
        assert!(shared("partition:1-2,vm:partition=2").unwrap_err().to_string().contains("share"));
    }
}
