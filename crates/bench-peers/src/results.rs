//! The results file: everything that was measured, raw. Tables and gates are made of nothing else.
use std::path::Path;
use std::process::Command;

use measure::host_facts::HostFacts;
use measure::{LoadError, Noise, Verdict};
use peers::build::Program;
use peers::usage::Usage;
use serde::{Deserialize, Serialize};
use traffic::results::{SearchResult, SizeResult};
use traffic::search::Finding;

use crate::cell::{Cell, RingPath, System};
use crate::machine::State;
use crate::plan::RunPlan;

/// Name and version of the file.
pub const SCHEMA: &str = "tautline-bench-peers/3";

/// One trial of one system.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trial {
    pub cell: Cell,
    pub system: System,
    /// Of the systems of its ring path: the placement of memory is the same in all of its rounds.
    pub start: u32,
    /// In each round every system of a cell has its turn; the next round goes the other way round.
    pub round: u32,
    /// 0 for the first try.
    pub attempt: u32,
    #[serde(flatten)]
    pub measured: Measured,
    /// What moving the same lines between the two cores allows, frames per second; measured after the round. 0 where the
    /// round was discarded.
    pub transfer_limit_fps: f64,
    /// The machine before the trial and after it.
    pub machine: [State; 2],
    pub verdict: Verdict,
}

/// What a trial shows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    pub frames_per_second: f64,
    pub window_ns: u64,
    /// What disturbed the trial.
    pub noise: Noise,
    /// The switch's side.
    pub device: Usage,
    /// The guest's side.
    pub driver: Usage,
}

/// What `tautline rfc2544` found: all of it, every trial included.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ZeroLoss {
    pub cell: Cell,
    pub system: System,
    pub found: SizeResult,
}

impl ZeroLoss {
    /// Throughput, frames per second over all directions; and whether it may be more, for the generator went no
    /// higher, or the search was cut short.
    pub fn throughput(&self) -> (Option<f64>, bool) {
        let (lower, at_least) = match &self.found.search {
            SearchResult::Tst009 { finding: Finding::Bracketed { lower, .. }, .. } => (Some(lower), false),
            SearchResult::Tst009 { finding: Finding::AtMaximum { lower }, .. } => (Some(lower), true),
            SearchResult::Tst009 { finding: Finding::Undecided { lower, .. }, .. } => (lower.as_ref(), true),
            _ => (None, false),
        };
        (lower.map(|load| load.frames_per_second() as f64), at_least)
    }

    pub fn of_maximum(&self) -> Option<f64> {
        let maximum = Some(self.found.maximum.received_fps).filter(|fps| *fps > 0.0)?;
        Some(self.throughput().0? / maximum)
    }
}

/// What DPDK's driver says that it uses with some systems.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CodePath {
    pub path: RingPath,
    pub systems: Vec<System>,
    /// The functions that send and receive, as it words them.
    pub words: Vec<String>,
    /// What both agreed on, by VIRTIO's names.
    pub features: String,
}

/// The file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    pub schema: String,
    /// UTC, RFC 3339.
    pub started: String,
    /// The commit of the sources, with `-dirty` where they differ from it; none in files of before 2026-11-26, and where
    /// git knows none.
    #[serde(default)]
    pub commit: Option<String>,
    pub elapsed_s: f64,
    pub host: HostFacts,
    pub programs: Vec<Program>,
    pub plan: RunPlan,
    pub code_paths: Vec<CodePath>,
    pub trials: Vec<Trial>,
    pub zero_loss: Vec<ZeroLoss>,
    /// What was not measured, and why.
    pub left_out: Vec<String>,
}

/// The commit of the sources that this program was built from, as git describes it.
fn commit() -> Option<String> {
    let git = Command::new("git")
        .args([
            "-C",
            env!("CARGO_MANIFEST_DIR"),
            "describe",
            "--always",
            "--dirty",
            "--abbrev=12",
            "--exclude=*",
        ])
        .output();
    let said = git.ok().filter(|output| output.status.success())?.stdout;
    Some(String::from_utf8(said).ok()?.trim().to_owned())
}

/// Names a program of this repository relative to the repository's root, because the results file is published.
fn relative(mut program: Program) -> Program {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/bench-peers");
    if let Ok(file) = program.file.strip_prefix(root) {
        program.file = file.to_owned();
    }
    program
}

impl Results {
    pub fn new(started: String, programs: Vec<Program>, plan: RunPlan) -> Self {
        Results {
            schema: SCHEMA.to_owned(),
            started,
            commit: commit(),
            elapsed_s: 0.0,
            host: HostFacts::gather(),
            programs: programs.into_iter().map(relative).collect(),
            plan,
            code_paths: Vec::new(),
            trials: Vec::new(),
            zero_loss: Vec::new(),
            left_out: Vec::new(),
        }
    }

    /// Reads a results file.
    ///
    /// # Errors
    /// The file cannot be read, is no JSON, is of another schema, or has other fields.
    pub fn load(file: &Path) -> Result<Self, LoadError> {
        measure::load::load(file, SCHEMA, "`bench-peers`")
    }
}
