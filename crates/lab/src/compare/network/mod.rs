//! The group `net`: every path is built anew for each start, and every flow goes over every path in turn.

mod cost;
mod ends;
mod plan;

use std::time::Duration;

use environment::container::{self, Container, Runtime};
use environment::network::{NearEnd, OpenPath, PathDescription, Places};
use environment::vm::{self, Vm};
use environment::{Spec, Start};
use linux::interrupt;
use measure::network::NetworkTrial;
use measure::quota::Throttling;
use measure::{EnvironmentKind, Failure, Noise, Outcome, Results};

use super::session::{At, Session, recorded};
use crate::asking::NoAnswer;
use crate::runner::{Attempt, Subject};
use ends::{Ends, Flowed};
pub use plan::NetworkPlan;
use plan::PlannedFlow;

/// State that lasts for all blocks.
pub struct Paths<'a> {
    plan: &'a NetworkPlan,
    start: Start<'a>,
    /// The environments that the run has proven.
    proven: Vec<Spec>,
    /// The container that near ends start in, or why there is none. Found at first use.
    container: Option<Result<Container, Failure>>,
    /// The settings of guests that near ends start in, or why there are none. Found at first use.
    guest: Option<Result<vm::Settings, Failure>>,
}

/// One path in one environment, open for a block.
struct Slot {
    environment: String,
    path: PathDescription,
    ends: Ends,
}

impl<'a> Paths<'a> {
    /// All paths of the plan. A near end starts as the environment of its kind among `proven`.
    pub fn new(plan: &'a NetworkPlan, start: Start<'a>, proven: Vec<Spec>) -> Self {
        Paths { plan, start, proven, container: None, guest: None }
    }

    /// The number of trials of a run with `environments` environments of the host's kind.
    pub fn trials(&self, environments: usize) -> u64 {
        (self.plan.flows.len() * environments) as u64
    }

    /// Measures one block: builds all paths, runs every flow over each in turn, and removes the paths.
    pub fn block(&mut self, block: u32, rounds: u32, session: &mut Session<'_>) {
        let mut slots = self.built(block, session);
        for round in 0..rounds {
            let at = At { block, round };
            for work in self.plan.works() {
                let mut order: Vec<usize> = (0..slots.len()).collect();
                if at.is_backwards() {
                    order.reverse();
                }
                for index in order {
                    if interrupt::is_set() {
                        return;
                    }
                    let slot = &mut slots[index];
                    let Some(flow) = self.plan.flow(&slot.path, work) else { continue };
                    session.progress.doing(format!(
                        "start {}  {}: {}",
                        block + 1,
                        slot.path,
                        flow.record.title
                    ));
                    self.trial(flow, slot, at, session);
                    session.progress.step();
                }
            }
        }
    }

    /// All paths that can be, in the plan's order.
    fn built(&mut self, block: u32, session: &mut Session<'_>) -> Vec<Slot> {
        let environments = session.results.environments.iter();
        let hosts: Vec<String> = environments
            .filter(|environment| environment.kind == EnvironmentKind::Host && environment.failure.is_none())
            .map(|environment| environment.name.clone())
            .collect();
        let mut wanted = Vec::new();
        for path in self.plan.paths() {
            // If only one exists, the first environment has it.
            let several = if path.is_exclusive() { 1 } else { hosts.len() };
            wanted.extend(hosts.iter().take(several).map(|environment| (path.clone(), environment.clone())));
        }
        // The kernel gives the same memory again if things are built in the same order: no environment must have the
        // better memory in each block.
        let is_odd = block % 2 == 1;
        if is_odd {
            wanted.reverse();
        }
        let mut slots = Vec::new();
        for (path, environment) in wanted {
            if interrupt::is_set() {
                break;
            }
            if session.path(&path.name()).is_some_and(|record| record.failure.is_some()) {
                continue;
            }
            session.progress.doing(format!("start {}  building {path}", block + 1));
            match self.open(&path, block, session) {
                Ok(None) => {}
                Ok(Some(ends)) => slots.push(Slot { environment, path, ends }),
                // A path that cannot be built is reported once, and not tried again.
                Err(failure) => {
                    session.progress.note(&format!("{path}: {failure}"));
                    if let Some(record) = session.path(&path.name()) {
                        record.failure = Some(failure);
                    }
                }
            }
        }
        if is_odd {
            slots.reverse();
        }
        slots
    }

    /// `None` if one start of the path is enough.
    fn open(
        &mut self,
        path: &PathDescription,
        block: u32,
        session: &mut Session<'_>,
    ) -> Result<Option<Ends>, Failure> {
        let start = &self.start;
        let mut places = Places::default();
        match path.near {
            NearEnd::Host => {}
            NearEnd::Container => {
                let proven = self.container.get_or_insert_with(|| container(&self.proven, start));
                places.container = Some(proven.as_ref().map_err(Clone::clone)?);
            }
            NearEnd::Guest(_) => {
                let (settings, results) = (&self.plan.guest, &session.results);
                let proven = self.guest.get_or_insert_with(|| guest(settings, &self.proven, results, start));
                let settings = proven.as_ref().map_err(Clone::clone)?;
                if settings.accelerator.is_some_and(vm::is_emulated) {
                    // One start shows that the path works. How fast it is, is not seen by booting it again.
                    if session.plan.plan.quick && block > 0 {
                        return Ok(None);
                    }
                    if let Some(record) = session.path(&path.name()) {
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

    fn trial(&self, flow: &PlannedFlow, slot: &mut Slot, at: At, session: &mut Session<'_>) {
        // Built anew for the next start.
        if slot.ends.is_lost() || session.is_absent(&flow.record.metric, &slot.environment) {
            return;
        }
        let mut subject = FlowTrial { flow, ends: &mut slot.ends, timeout: self.plan.timeout };
        let tried = session.runner.trial(&mut subject);
        for attempt in tried.attempts() {
            record(flow, &slot.environment, at, attempt, &mut session.results);
        }
        if let Err(reason) = tried.counted
            && !interrupt::is_set()
        {
            let failure = Failure::from(reason);
            session.progress.note(&format!("{}, {}: {failure}", slot.path, flow.record.title));
            for metric in [&flow.record.metric, &flow.record.cost] {
                session.absent(metric, &slot.environment, failure.clone());
            }
        }
    }
}

/// A flow over one path.
struct FlowTrial<'a> {
    flow: &'a PlannedFlow,
    ends: &'a mut Ends,
    timeout: Duration,
}

impl Subject for FlowTrial<'_> {
    type Measured = Flowed;
    type Failed = NoAnswer;

    fn cpus(&self) -> &[usize] {
        self.ends.cpus()
    }

    fn throttling(&self) -> Throttling {
        self.ends.throttling()
    }

    fn measure(&mut self) -> Result<Flowed, NoAnswer> {
        self.ends.run(&self.flow.flow, self.flow.beside.as_ref(), self.timeout)
    }

    fn elapsed_ns(&self, measured: &Flowed) -> u64 {
        measured.elapsed_ns
    }
}

/// The container with the runtime that the run has proven; otherwise a runtime is proven now. LXC joins no network.
fn container(proven: &[Spec], start: &Start<'_>) -> Result<Container, Failure> {
    let runtime = proven.iter().find_map(|spec| match spec {
        Spec::Container(settings) => settings.runtime.filter(|runtime| *runtime != Runtime::Lxc),
        _ => None,
    });
    Container::trusted(container::Settings { runtime, ..container::Settings::default() }, start)
}

/// The settings with the accelerator that the run has proven; otherwise one is proven now, unless it is named.
fn guest(
    settings: &vm::Settings,
    proven: &[Spec],
    results: &Results,
    start: &Start<'_>,
) -> Result<vm::Settings, Failure> {
    let accelerator = proven.iter().find_map(|spec| match spec {
        Spec::Vm(settings) => settings.accelerator,
        _ => None,
    });
    let failed = results.environments.iter().find(|place| place.kind == EnvironmentKind::Vm);
    let accelerator = match (accelerator, failed.and_then(|record| record.failure.as_ref())) {
        (Some(accelerator), _) => accelerator,
        (None, Some(failure)) => return Err(failure.clone()),
        // An accelerator that the user named is proved by the first path's start.
        (None, None) => match settings.accelerator {
            Some(named) => named,
            None => Vm::prove(settings.clone(), start)?.accelerator_kind(),
        },
    };
    Ok(vm::Settings { accelerator: Some(accelerator), ..settings.clone() })
}

/// Records an attempt: its rate or round trip, its cost, and what the group has besides.
fn record(flow: &PlannedFlow, environment: &str, at: At, attempt: &Attempt<Flowed>, results: &mut Results) {
    let (record, flowed) = (&flow.record, &attempt.measured);
    let rate = Outcome { histogram: flowed.latency.clone(), ..outcome(flowed.value, flowed) };
    results.trials.push(recorded(&record.metric, environment, at, attempt, rate));
    let trial = NetworkTrial {
        metric: record.metric.clone(),
        environment: environment.to_owned(),
        block: at.block,
        round: at.round,
        counts: attempt.verdict.counts(),
        sent: flowed.sent,
        received: flowed.received,
        lost: flowed.sent.saturating_sub(flowed.received),
        refused: flowed.refused,
        received_bytes: flowed.received_bytes,
        cost: flowed.cost.clone(),
    };
    let cost = outcome(trial.ns_per_packet(), flowed);
    results.trials.push(recorded(&record.cost, environment, at, attempt, cost));
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
