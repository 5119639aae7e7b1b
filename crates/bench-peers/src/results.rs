//! The results file, which contains all raw measurements. Tables and gates use no other data.
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

/// The name and version of the file format.
pub const SCHEMA: &str = "tautline-bench-peers/3";

/// One trial of one system.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trial {
    pub cell: Cell,
    pub system: System,
    /// The number of the systems' start on this ring path; the placement of memory is the same in all rounds of a
    /// start.
    pub start: u32,
    /// The number of the round. In each round every system of a cell has its turn; the next round has the reverse
    /// order.
    pub round: u32,
    /// The number of the attempt, 0 for the first.
    pub attempt: u32,
    #[serde(flatten)]
    pub measured: Measured,
    /// The rate in frames per second at which the two cores can pass the same cache lines to each other; measured
    /// after the round. The value is 0 if the round was discarded.
    pub transfer_limit_fps: f64,
    /// The state of the machine before the trial and after it.
    pub machine: [State; 2],
    pub verdict: Verdict,
}

/// The result of a trial.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    pub frames_per_second: f64,
    pub window_ns: u64,
    /// The disturbances of the trial.
    pub noise: Noise,
    /// The switch's side.
    pub device: Usage,
    /// The guest's side.
    pub driver: Usage,
}

/// The complete result of `tautline rfc2544`, including every trial.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ZeroLoss {
    pub cell: Cell,
    pub system: System,
    pub found: SizeResult,
}

impl ZeroLoss {
    /// The throughput in frames per second over all directions, and whether the true value may be higher, because the
    /// generator was not faster or the search was cut short.
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

/// The code that DPDK's driver reports to use with some systems.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CodePath {
    pub path: RingPath,
    pub systems: Vec<System>,
    /// The functions that send and receive, as the driver names them.
    pub words: Vec<String>,
    /// The negotiated features, by VIRTIO's names.
    pub features: String,
}

/// The file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    pub schema: String,
    /// UTC, RFC 3339.
    pub started: String,
    /// The commit of the sources, with `-dirty` if the sources differ from it; `None` in files from before
    /// 2026-11-26, and if git knows no commit.
    #[serde(default)]
    pub commit: Option<String>,
    pub elapsed_s: f64,
    pub host: HostFacts,
    pub programs: Vec<Program>,
    pub plan: RunPlan,
    pub code_paths: Vec<CodePath>,
    pub trials: Vec<Trial>,
    pub zero_loss: Vec<ZeroLoss>,
    /// The measurements that were left out, each with its reason.
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
    /// The file cannot be read, is not JSON, has another schema, or has other fields.
    pub fn load(file: &Path) -> Result<Self, LoadError> {
        measure::load::load(file, SCHEMA, "`bench-peers`")
    }
}
