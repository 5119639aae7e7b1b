//! The group `net`: every path is built anew for each start, and every flow goes over every path in turn.

mod cost;
mod ends;
mod plan;

use environment::Start;
use environment::container::{self, Container};
use environment::network::{NearEnd, OpenPath, PathDescription, Places};
use environment::vm::{self, Accelerator, Vm};
use linux::interrupt;
use linux::progress::Progress;
use measure::network::NetworkTrial;
use measure::noise::{NoiseProbe, Preemption};
use measure::{Absence, EnvironmentKind, Failure, MetricId, Noise, Outcome, Results, Trial, Verdict};

use super::cores::Cores;
use super::disturbed::{ATTEMPTS, disturbed, over_limit};
use ends::{Ends, Flowed};
pub use plan::NetworkPlan;
use plan::PlannedFlow;

/// Both ends work, on two CPUs where there are two.
const CPUS_USED: usize = 2;

/// What lives longer than a block.
pub struct Paths<'a> {
    plan: &'a NetworkPlan,
    start: Start<'a>,
    /// What starts near ends in containers, or why nothing does. Found out when it is needed first.
    container: Option<Result<Container, Failure>>,
    /// The same of guests.
    guest: Option<Result<vm::Settings, Failure>>,
}

/// One path in one environment, open for a block.
struct Slot {
    environment: String,
    path: PathDescription,
    ends: Ends,
}

/// Where a trial stands.
#[derive(Clone, Copy)]
pub struct At {
    pub block: u32,
    pub round: u32,
}

impl<'a> Paths<'a> {
    pub fn new(plan: &'a NetworkPlan, start: Start<'a>) -> Self {
        Paths { plan, start, container: None, guest: None }
    }

    /// Trials of a run in so many environments of the host's kind.
    pub fn trials(&self, environments: usize) -> u64 {
        (self.plan.flows.len() * environments) as u64
    }

    /// One block: all paths are built, every flow goes over each in turn, all are gone.
    pub fn block(
        &mut self,
        at: At,
        rounds: u32,
        cores: &mut Cores,
        results: &mut Results,
        progress: &Progress,
    ) {
        let hosts: Vec<String> = results
            .environments
            .iter()
            .filter(|environment| environment.kind == EnvironmentKind::Host && environment.failure.is_none())
            .map(|environment| environment.name.clone())
            .collect();
        let mut wanted = Vec::new();
        for path in self.plan.paths() {
            // What there is one of, the first has.
            let several = if path.is_exclusive() { 1 } else { hosts.len() };
            wanted.extend(hosts.iter().take(several).map(|environment| (path.clone(), environment.clone())));
        }
        // The kernel gives the same memory again to what is built in the same order: nobody is to have the better part
        // of it in each block.
        let is_odd = at.block % 2 == 1;
        if is_odd {
            wanted.reverse();
        }
        let mut slots = Vec::new();
        for (path, environment) in wanted {
            if interrupt::is_set() {
                return;
            }
            if has_failed(results, &path) {
                continue;
            }
            progress.doing(format!("start {}  building {path}", at.block + 1));
            match self.open(&path, at, results) {
                Ok(None) => {}
                Ok(Some(ends)) => slots.push(Slot { environment, path, ends }),
                Err(failure) => lose(&path, failure, results, progress),
            }
        }
        if is_odd {
            slots.reverse();
        }
        for round in 0..rounds {
            let at = At { round, ..at };
            for work in self.plan.works() {
                let backwards = (at.block + at.round) % 2 == 1;
                let order: Vec<usize> =
                    if backwards { (0..slots.len()).rev().collect() } else { (0..slots.len()).collect() };
                for index in order {
                    if interrupt::is_set() {
                        return;
                    }
                    let slot = &mut slots[index];
                    let Some(flow) = self.plan.flow(&slot.path, work) else { continue };
                    progress.doing(format!("start {}  {}: {}", at.block + 1, slot.path, flow.record.title));
                    self.trial(flow, slot, at, cores, results, progress);
                    progress.step();
                }
            }
        }
    }

    /// None where one start of it is enough.
    fn open(
        &mut self,
        path: &PathDescription,
        at: At,
        results: &mut Results,
    ) -> Result<Option<Ends>, Failure> {
        let start = &self.start;
        let mut places = Places::default();
        match path.near {
            NearEnd::Host => {}
            NearEnd::Container => {
                let proven = self
                    .container
                    .get_or_insert_with(|| Container::prove(container::Settings::default(), start));
                places.container = Some(proven.as_ref().map_err(Clone::clone)?);
            }
            NearEnd::Guest(_) => {
                let proven = self.guest.get_or_insert_with(|| guest(&self.plan.guest, results, start));
                let settings = proven.as_ref().map_err(Clone::clone)?;
                if settings.accelerator == Some(Accelerator::Tcg) || kvm::is_emulated() {
                    // That it works is seen once. How fast it is, is not seen by booting it again.
                    if results.plan.quick && at.block > 0 {
                        return Ok(None);
                    }
                    let paths = &mut results.network.paths;
                    if let Some(record) = paths.iter_mut().find(|record| record.name == path.name()) {
                        record.emulated = true;
                    }
                }
                places.guest = Some(settings);
                places.card = self.plan.card.as_ref();
            }
        }
        let path = OpenPath::open(path, start, places)?;
        Ends::greeted(path, start.limit, start.cpus).map(Some)
    }

    fn trial(
        &self,
        flow: &PlannedFlow,
        slot: &mut Slot,
        at: At,
        cores: &mut Cores,
        results: &mut Results,
        progress: &Progress,
    ) {
        // Built anew for the next start.
        if slot.ends.is_lost() || absent(results, &flow.record.metric, &slot.environment) {
            return;
        }
        let cpus = self.start.cpus;
        for attempt in 0..ATTEMPTS {
            let disturbed_before = cores.wait(CPUS_USED);
            let probe = NoiseProbe::start(Preemption::NotCounted);
            let flowed = slot.ends.run(&flow.flow, flow.beside.as_ref(), self.plan.timeout);
            let mut host_noise = probe.finish();
            let flowed = match flowed {
                Ok(flowed) => flowed,
                Err(_) if interrupt::is_set() => return,
                Err(failure) => {
                    progress.note(&format!("{}, {}: {failure}", slot.path, flow.record.title));
                    for metric in [&flow.record.metric, &flow.record.cost] {
                        results.absences.push(Absence {
                            metric: metric.clone(),
                            environment: slot.environment.clone(),
                            reason: failure.clone(),
                        });
                    }
                    return;
                }
            };
            host_noise.disturbed_cpus = cores.disturbed_since(disturbed_before, CPUS_USED);
            let outcome = outcome(flowed.value, &flowed);
            let reason = over_limit(&outcome, &host_noise, cpus.len());
            let siblings = disturbed(&host_noise);
            let last = attempt + 1 == ATTEMPTS || reason.is_none();
            let verdict = match (reason.or(siblings), last) {
                (None, _) => Verdict::Accepted,
                (Some(reason), false) => Verdict::Discarded(reason),
                (Some(reason), true) => Verdict::KeptNoisy(reason),
            };
            let counts = verdict.counts();
            record(flow, slot, at, attempt, flowed, (host_noise, verdict), results);
            if counts {
                return;
            }
        }
    }
}

fn has_failed(results: &Results, path: &PathDescription) -> bool {
    let mut records = results.network.paths.iter();
    records.any(|record| record.name == path.name() && record.failure.is_some())
}

/// The settings with an accelerator that boots: the one that the run has proven, else it is proven now.
fn guest(settings: &vm::Settings, results: &Results, start: &Start<'_>) -> Result<vm::Settings, Failure> {
    let accelerator = match results.environments.iter().find(|place| place.kind == EnvironmentKind::Vm) {
        Some(record) => match &record.failure {
            Some(failure) => return Err(failure.clone()),
            None if record.accelerator == "tcg" => Accelerator::Tcg,
            None => Accelerator::Kvm,
        },
        // One that was named is proven by the first path's start.
        None => match settings.accelerator {
            Some(named) => named,
            None => Vm::prove(settings.clone(), start)?.accelerator_kind(),
        },
    };
    Ok(vm::Settings { accelerator: Some(accelerator), ..settings.clone() })
}

/// Puts a trial down: its rate or round trip, its cost, and what the group has besides.
fn record(
    flow: &PlannedFlow,
    slot: &Slot,
    at: At,
    attempt: u32,
    flowed: Flowed,
    (host_noise, verdict): (Noise, Verdict),
    results: &mut Results,
) {
    let mut push = |metric: &MetricId, outcome: Outcome| {
        results.trials.push(Trial {
            metric: metric.clone(),
            environment: slot.environment.clone(),
            block: at.block,
            round: at.round,
            attempt,
            outcome,
            host_noise: host_noise.clone(),
            verdict: verdict.clone(),
        });
    };
    push(
        &flow.record.metric,
        Outcome { histogram: flowed.latency.clone(), ..outcome(flowed.value, &flowed) },
    );
    let trial = NetworkTrial {
        metric: flow.record.metric.clone(),
        environment: slot.environment.clone(),
        block: at.block,
        round: at.round,
        counts: verdict.counts(),
        sent: flowed.sent,
        received: flowed.received,
        lost: flowed.sent.saturating_sub(flowed.received),
        refused: flowed.refused,
        received_bytes: flowed.received_bytes,
        cost: flowed.cost.clone(),
    };
    push(&flow.record.cost, outcome(trial.ns_per_packet(), &flowed));
    results.network.trials.push(trial);
}

fn outcome(value: f64, flowed: &Flowed) -> Outcome {
    Outcome {
        value,
        samples: Vec::new(),
        histogram: None,
        missed: flowed.missed,
        elapsed_ns: flowed.elapsed_ns,
        remarks: Vec::new(),
        noise: Noise::default(),
    }
}

fn absent(results: &Results, metric: &MetricId, environment: &str) -> bool {
    results.absences.iter().any(|absence| absence.metric == *metric && absence.environment == environment)
}

/// A path that cannot be is told once, and not tried again.
fn lose(path: &PathDescription, failure: Failure, results: &mut Results, progress: &Progress) {
    progress.note(&format!("{path}: {failure}"));
    if let Some(record) = results.network.paths.iter_mut().find(|record| record.name == path.name()) {
        record.failure = Some(failure);
    }
}
