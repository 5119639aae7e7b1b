//! Which flows go over which paths.

use std::time::Duration;

use environment::network::{Card, PathDescription, absent_paths, no_vduse};
use environment::vm;
use measure::network::{FlowRecord, Network, PathRecord};
use measure::{Direction, Group, MetricId, MetricSpec, Unit};
use workload::Profile;
use workload::network::{Flow, works};

use super::super::selection;

/// One flow over one path.
#[derive(Clone, Debug)]
pub struct PlannedFlow {
    pub path: PathDescription,
    pub flow: Flow,
    /// The flow that runs as a load at the same time.
    pub beside: Option<Flow>,
    pub record: FlowRecord,
}

/// The paths and flows that were chosen.
#[derive(Clone, Debug)]
pub struct NetworkPlan {
    pub flows: Vec<PlannedFlow>,
    /// How long an end may take to answer, in addition to the length of the flow.
    pub timeout: Duration,
    /// The settings of guests at near ends: those of the run's first VM.
    pub guest: vm::Settings,
    /// The network card that one of the guests is given.
    pub card: Option<Card>,
    /// Whether all paths were chosen.
    is_whole: bool,
}

/// A trial is no shorter: the kernel counts interrupts' time in ticks of 10 ms.
const LEAST_TRIAL: Duration = Duration::from_millis(60);

impl NetworkPlan {
    /// All flows of the profile over every path; with a card, also over the path of that card. With `verify` every
    /// payload byte is checked.
    pub fn new(
        profile: Profile,
        trial: Duration,
        timeout: Duration,
        card: Option<Card>,
        verify: bool,
    ) -> Self {
        let mut flows = Vec::new();
        let over_card = card.iter().map(|_| PathDescription::over_card());
        let over_vduse = PathDescription::over_vduse().into_iter().filter(|_| no_vduse().is_none());
        for path in PathDescription::all().into_iter().chain(over_vduse).chain(over_card) {
            for work in works(profile) {
                let metric = format!("{}.{}.{}", Group::Net, path.name(), work.name);
                flows.push(PlannedFlow {
                    path: path.clone(),
                    flow: Flow { duration: trial.max(LEAST_TRIAL), verify, ..work.flow.clone() },
                    beside: work.beside,
                    record: FlowRecord {
                        cost: MetricId::new(format!("{metric}.cpu")),
                        metric: MetricId::new(metric),
                        path: path.name(),
                        work: work.name,
                        title: work.title,
                        message_bytes: work.flow.message_bytes as u64,
                        datagrams: work.flow.class == workload::network::Class::UdpStream,
                    },
                });
            }
        }
        NetworkPlan { flows, timeout, guest: vm::Settings::default(), card, is_whole: true }
    }

    /// Keeps the flows that a word of `--only` names, by either of their metrics; keeps all if there is no word.
    pub fn choose(&mut self, words: &[String]) {
        if !words.is_empty() {
            let all = self.flows.len();
            self.flows.retain(|flow| flow.specs().iter().any(|spec| selection::is_named(words, spec)));
            self.is_whole = self.flows.len() == all;
        }
    }

    /// Removes all flows.
    pub fn clear(&mut self) {
        self.flows.clear();
        self.is_whole = false;
    }

    /// The paths, each once.
    pub fn paths(&self) -> Vec<PathDescription> {
        let mut paths: Vec<PathDescription> = Vec::new();
        for flow in &self.flows {
            if !paths.contains(&flow.path) {
                paths.push(flow.path.clone());
            }
        }
        paths
    }

    /// The works, each once.
    pub fn works(&self) -> Vec<&str> {
        let mut works: Vec<&str> = Vec::new();
        for flow in &self.flows {
            if !works.contains(&flow.record.work.as_str()) {
                works.push(&flow.record.work);
            }
        }
        works
    }

    /// The flow of a work over a path.
    pub fn flow(&self, path: &PathDescription, work: &str) -> Option<&PlannedFlow> {
        self.flows.iter().find(|flow| flow.path == *path && flow.record.work == work)
    }

    /// The descriptions of the metrics that are measured.
    pub fn specs(&self) -> Vec<MetricSpec> {
        self.flows.iter().flat_map(PlannedFlow::specs).collect()
    }

    /// The group's part of a results file, before anything is measured.
    pub fn network(&self) -> Network {
        let paths = self.paths();
        let record = |path: &PathDescription| PathRecord {
            name: path.name(),
            pieces: path.pieces(),
            adds_to: path.adds_to().filter(|below| paths.contains(below)).map(|below| below.name()),
            emulated: false,
            copies: Some(path.copies()),
            failure: None,
        };
        // Absent paths are named only if the whole group was chosen: a user who chose some paths asked for no others.
        let absent = if self.is_whole { absent_paths(self.card.is_some()) } else { Vec::new() };
        let absent = absent.into_iter().map(|path| PathRecord {
            name: path.pieces.join("_"),
            pieces: path.pieces,
            adds_to: None,
            emulated: false,
            copies: None,
            failure: Some(path.reason),
        });
        Network {
            paths: paths.iter().map(record).chain(absent).collect(),
            flows: self.flows.iter().map(|flow| flow.record.clone()).collect(),
            trials: Vec::new(),
        }
    }
}

impl PlannedFlow {
    fn specs(&self) -> [MetricSpec; 2] {
        let is_stream = self.flow.class.is_stream();
        let spec = |id: &MetricId, title: String, unit, direction| MetricSpec {
            id: id.clone(),
            group: Group::Net,
            title: format!("{}: {title}", self.path),
            unit,
            direction,
            curve: None,
        };
        let (unit, direction) = match is_stream {
            true => (Unit::BytesPerSecond, Direction::HigherIsBetter),
            false => (Unit::Nanos, Direction::LowerIsBetter),
        };
        let of = if is_stream { "message" } else { "transaction" };
        let cost = format!("{}, CPU time a {of}", self.record.title);
        [
            spec(&self.record.metric, self.record.title.clone(), unit, direction),
            spec(&self.record.cost, cost, Unit::Nanos, Direction::LowerIsBetter),
        ]
    }
}
