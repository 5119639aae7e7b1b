//! What will be measured, where and how often: everything decided before anything is started.

use std::time::Duration;

use environment::Spec;
use environment::spec::split_list;
use measure::{Group, MetricSpec, Plan};
use workload::catalogue::{self, BudgetKind, Profile};
use workload::protocol::Request;

use super::external::External;
use super::job::{Job, Method};
use super::network::NetworkPlan;
use super::{cyclictest, external, kvm_costs, selection, ticks};
use crate::exit::Usage;
use crate::{cli, cpu_list};

/// Everything decided.
pub struct RunPlan {
    /// As the results file has it.
    pub plan: Plan,
    /// Names and kinds of the environments, in order.
    pub environments: Vec<(String, String, Spec)>,
    /// What is measured, in order.
    pub jobs: Vec<Job>,
    /// The group `net`, which has paths of its own.
    pub network: NetworkPlan,
    /// How long beyond its trial an agent may take to answer.
    pub timeout: Duration,
    /// The user's programs.
    pub externals: Vec<External>,
}

impl RunPlan {
    /// Reads and checks the arguments; changes nothing.
    pub fn from_arguments(arguments: &cli::Compare) -> anyhow::Result<Self> {
        let cpus = cpu_list::read("--cpus", arguments.cpus.as_deref())?;
        let pick = |given: Option<Duration>, quick_ms: u64, full_ms: u64| {
            given.map_or(if arguments.quick { quick_ms } else { full_ms }, |given| given.as_millis() as u64)
        };
        let plan = Plan {
            quick: arguments.quick,
            blocks: arguments.blocks.unwrap_or(if arguments.quick { 6 } else { 10 }),
            rounds: arguments.rounds.unwrap_or(1),
            trial_ms: pick(arguments.trial, 20, 100),
            wakeup_ms: pick(arguments.wakeup_trial, 200, 2000),
            cpus,
        };
        let externals = match &arguments.workloads {
            Some(path) => external::load(path)?,
            None => Vec::new(),
        };
        let mut jobs = all_jobs(&plan, &externals, arguments.cyclictest);
        let timeout = arguments.timeout;
        let profile = if plan.quick { Profile::Quick } else { Profile::Full };
        let mut network = NetworkPlan::new(
            profile,
            Duration::from_millis(plan.trial_ms),
            timeout,
            arguments.card(),
            arguments.verify_payload,
        );
        jobs.extend(ticks::jobs(plan.quick));
        jobs.extend(kvm_costs::jobs());
        let specs: Vec<MetricSpec> = jobs.iter().map(|job| job.spec.clone()).chain(network.specs()).collect();
        selection::check(&specs, &arguments.only)?;
        jobs.retain(|job| selection::is_named(&arguments.only, &job.spec));
        // On request only: of the host alone, and nothing to compare it with; and with further guests of its own.
        if arguments.only.is_empty() {
            jobs.retain(|job| !matches!(job.spec.group, Group::Kvm | Group::Tti));
        }
        network.choose(&arguments.only);
        let mut environments = environments(&arguments.environments)?;
        if environments.iter().all(|(.., spec)| *spec != Spec::Host) {
            network.clear();
        }
        let guest = environments.iter().find_map(|(.., spec)| match spec {
            Spec::Vm(settings) => Some(settings.clone()),
            _ => None,
        });
        network.guest = guest.unwrap_or_default();
        let only_kvm = jobs.iter().all(|job| job.spec.group == Group::Kvm);
        if only_kvm && !(jobs.is_empty() && network.flows.is_empty()) {
            // Paths begin on the host, whatever their near end is; and so do guests.
            environments.retain(|(.., spec)| *spec == Spec::Host);
        }
        Ok(RunPlan { environments, plan, jobs, network, timeout, externals })
    }

    /// The descriptions of what is measured.
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

/// Environments with unique names: a second host is `host-2`.
fn environments(list: &str) -> anyhow::Result<Vec<(String, String, Spec)>> {
    let mut found: Vec<(String, String, Spec)> = Vec::new();
    for text in split_list(list) {
        let spec: Spec =
            text.parse().map_err(|error: environment::spec::SpecError| Usage(error.to_string()))?;
        let kind = text.split(':').next().unwrap_or(&text).to_owned();
        let earlier = found.iter().filter(|(_, other, _)| other.split(':').next() == Some(&kind)).count();
        let name = if earlier == 0 { kind } else { format!("{kind}-{}", earlier + 1) };
        found.push((name, text, spec));
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
            .map(|(name, ..)| name)
            .collect();
        assert_eq!(names, ["host", "host-2", "container"]);
    }
}
