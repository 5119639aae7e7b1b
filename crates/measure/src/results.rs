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

/// The kind of an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EnvironmentKind {
    /// The host itself.
    Host,
    /// An OCI or LXC container.
    Container,
    /// CPUs of the host that are taken from everything else.
    Partition,
    /// A virtual machine.
    Vm,
    /// Another machine.
    Remote,
}

/// One environment of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnvironmentRecord {
    /// The environment's name in this run, unique: `host`, `container`, `vm`, `host-2`.
    pub name: String,
    /// Its kind.
    pub kind: EnvironmentKind,
    /// The environment's text on the command line.
    pub spec: String,
    /// The name of what executes the environment's instructions: `native`, `kvm-vmx`, `kvm-svm`, `kvm-pvm`, `kvm-arm`
    /// or `tcg`.
    pub accelerator: String,
    /// Whether the environment's CPU is emulated: its figures show that a path works, and say nothing about speed.
    pub emulated: bool,
    /// Facts to show: versions, machine type, command line. Each fact is a key and a value.
    pub facts: Vec<(String, String)>,
    /// The CPU quota that limits the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<QuotaRecord>,
    /// The reason why the environment could not be measured, or not until the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// The CPU quota of an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaRecord {
    /// The quota.
    #[serde(flatten)]
    pub quota: CpuQuota,
    /// Whether this process inherited the quota from its parent. An inherited quota limits every environment.
    pub inherited: bool,
    /// The shortest duration of trials of CPU time in ms, chosen so that they show the average speed.
    pub trial_ms: u64,
}

/// A metric that one environment could not measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Absence {
    /// The metric.
    pub metric: MetricId,
    /// The environment's name.
    pub environment: String,
    /// Why.
    pub reason: Failure,
}

/// The plan of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Whether trials were shortened; every output of such a run says so.
    pub quick: bool,
    /// The number of starts of every environment.
    pub blocks: u32,
    /// The number of rounds within a block.
    pub rounds: u32,
    /// The time given to each trial of a throughput or latency metric, in ms.
    pub trial_ms: u64,
    /// The time given to each wake-up trial, in ms.
    pub wakeup_ms: u64,
    /// The CPUs to which the work was pinned.
    pub cpus: Vec<usize>,
}

/// A results file: all that is needed to print the results again, including the raw samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: String,
    /// The version of the program that wrote the file.
    pub tautline: String,
    /// The start time, UTC, RFC 3339.
    pub started: String,
    /// The duration of the run so far, in s.
    pub elapsed_s: f64,
    /// False if the run was interrupted: the file then has the data from before the interruption.
    pub complete: bool,
    /// The command that repeats the run.
    pub command: Vec<String>,
    /// The machine.
    pub host: HostFacts,
    /// The plan of the run.
    pub plan: Plan,
    /// The environments in the order of the command line; the first is the base of the ratios.
    pub environments: Vec<EnvironmentRecord>,
    /// The metrics that were measured.
    pub metrics: Vec<MetricSpec>,
    /// The metrics that could not be measured.
    pub absences: Vec<Absence>,
    /// Every trial, including the discarded ones.
    pub trials: Vec<Trial>,
    /// The additional data of the group `net`.
    #[serde(default, skip_serializing_if = "Network::is_empty")]
    pub network: Network,
}

/// The error for a results file that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("writing results to {path}: {source}; the earlier content, if any, is untouched")]
pub struct SaveError {
    /// The file.
    pub path: PathBuf,
    /// The system's error.
    #[source]
    pub source: io::Error,
}

/// Writes results of any kind as JSON; the file is written either completely or not at all. If this fails, an earlier
/// file stays.
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

    /// Writes the file either completely or not at all. An earlier file stays if the disk is full or the process is
    /// killed.
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

    /// The environment to which ratios are computed.
    pub fn base(&self) -> Option<&EnvironmentRecord> {
        self.environments.first()
    }
}
