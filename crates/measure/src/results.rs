use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::host_facts::HostFacts;
use crate::load::{LoadError, load};
use crate::network::Network;
use crate::quota::CpuQuota;
use crate::{Failure, MetricId, MetricSpec, Trial};

/// The schema of this version's results files. A reader refuses any other major version.
pub const SCHEMA: &str = "tautline-compare/1";

/// What kind of place an environment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EnvironmentKind {
    /// The bare host.
    Host,
    /// An OCI or LXC container.
    Container,
    /// A virtual machine.
    Vm,
    /// Another machine.
    Remote,
}

/// One environment of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnvironmentRecord {
    /// Its name in this run, unique: `host`, `container`, `vm`, `host-2`.
    pub name: String,
    /// Its kind.
    pub kind: EnvironmentKind,
    /// How it was asked for on the command line.
    pub spec: String,
    /// What runs its instructions: `native`, `kvm-vmx`, `kvm-svm`, `kvm-pvm`, `kvm-arm` or `tcg`.
    pub accelerator: String,
    /// Whether its CPU is emulated: its figures show that a path works, never how fast it is.
    pub emulated: bool,
    /// Facts to show: versions, machine type, command line. Key and value.
    pub facts: Vec<(String, String)>,
    /// The CPU quota that limits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<QuotaRecord>,
    /// Why it could not be measured, or not to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// The CPU quota of an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaRecord {
    /// What it is.
    #[serde(flatten)]
    pub quota: CpuQuota,
    /// Whether this process inherited the quota from its parent. It then limits every environment.
    pub inherited: bool,
    /// How long trials of CPU time lasted at least, so that they saw its average, ms.
    pub trial_ms: u64,
}

/// A metric that one environment could not give.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Absence {
    /// The metric.
    pub metric: MetricId,
    /// The environment's name.
    pub environment: String,
    /// Why.
    pub reason: Failure,
}

/// How the run was laid out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Whether trials were shortened; every output of such a run says so.
    pub quick: bool,
    /// Starts of every environment.
    pub blocks: u32,
    /// Rounds within a block.
    pub rounds: u32,
    /// The time given to each trial of a throughput or latency metric, in ms.
    pub trial_ms: u64,
    /// The time given to each wake-up trial, in ms.
    pub wakeup_ms: u64,
    /// The CPUs the work was pinned to.
    pub cpus: Vec<usize>,
}

/// A results file: everything needed to redraw, and the raw samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of the program that wrote it.
    pub tautline: String,
    /// Start, UTC, RFC 3339.
    pub started: String,
    /// Seconds the run took so far.
    pub elapsed_s: f64,
    /// False where the run was interrupted: what is here was gathered before.
    pub complete: bool,
    /// The command to repeat it.
    pub command: Vec<String>,
    /// The machine.
    pub host: HostFacts,
    /// How the run was laid out.
    pub plan: Plan,
    /// The environments in the order of the command line; the first is the base of the ratios.
    pub environments: Vec<EnvironmentRecord>,
    /// What was measured.
    pub metrics: Vec<MetricSpec>,
    /// What could not be measured.
    pub absences: Vec<Absence>,
    /// Every trial, the discarded ones too.
    pub trials: Vec<Trial>,
    /// What the group `net` has besides.
    #[serde(default, skip_serializing_if = "Network::is_empty")]
    pub network: Network,
}

/// A results file that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("writing results to {path}: {source}; the earlier content, if any, is untouched")]
pub struct SaveError {
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

/// Writes any results as JSON, the file whole or not at all. An earlier file stays if this fails.
///
/// # Errors
/// The file cannot be created in the path's folder, written or renamed, or a value of `results` has no form in JSON.
pub fn save_json(results: &impl Serialize, path: &Path) -> Result<(), SaveError> {
    let written = linux::save::save(path, |file| {
        serde_json::to_writer(&mut *file, results)?;
        file.write_all(b"\n")
    });
    written.map_err(|source| SaveError { path: path.into(), source })
}

impl Results {
    /// Reads a results file.
    ///
    /// # Errors
    /// The file cannot be read, is not JSON, has another schema than [`SCHEMA`], or lacks a field.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        load(path, SCHEMA, "`tautline compare --output FILE.json`")
    }

    /// Writes the file whole or not at all. An earlier file stays on a full disk or when the process is killed.
    ///
    /// # Errors
    /// The causes of [`save_json`].
    pub fn save(&self, path: &Path) -> Result<(), SaveError> {
        save_json(self, path)
    }

    /// The description of a metric.
    pub fn metric(&self, id: &MetricId) -> Option<&MetricSpec> {
        self.metrics.iter().find(|spec| spec.id == *id)
    }

    /// The environment that ratios are taken to.
    pub fn base(&self) -> Option<&EnvironmentRecord> {
        self.environments.first()
    }
}
