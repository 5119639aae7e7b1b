//! The options of `compare`.

use std::path::PathBuf;
use std::time::Duration;

use environment::network::Card;
use environment::spec::SpecError;

/// The options of a run.
pub struct Options {
    /// Fewer metrics and shorter trials.
    pub quick: bool,
    /// Groups, or metrics by the beginning of their names; if empty, all groups except `kvm`.
    pub only: Vec<String>,
    /// The environments, in the syntax of the command line.
    pub environments: String,
    /// The CPUs to work on.
    pub cpus: Vec<usize>,
    /// Whether every byte that arrives over a path is checked.
    pub verify_payload: bool,
    /// The card that a guest is given.
    pub card: Option<Card>,
    /// Fresh starts of every environment.
    pub blocks: Option<u32>,
    /// Rounds over all metrics in each start.
    pub rounds: Option<u32>,
    /// Time for each trial.
    pub trial: Option<Duration>,
    /// Time for each wake-up trial.
    pub wakeup_trial: Option<Duration>,
    /// How long an agent may take to answer, in addition to the length of the trial.
    pub timeout: Duration,
    /// A file of the user's programs.
    pub workloads: Option<PathBuf>,
    /// Whether cyclictest runs on the host in turns with the wake-up work.
    pub cyclictest: bool,
}

/// Why a run cannot be planned.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// An environment that does not exist.
    #[error(transparent)]
    Environment(#[from] SpecError),
    /// Partitions that no run can have.
    #[error("--environments: {0}")]
    Partitions(&'static str),
    /// A word of `--only` that matches no group and no metric.
    #[error("{0}")]
    Selection(String),
    /// A file of workloads with a wrong content.
    #[error("{}: {reason}", path.display())]
    Workloads {
        /// The file.
        path: PathBuf,
        /// What is wrong with the file.
        reason: String,
    },
    /// A file of workloads that could not be read.
    #[error("reading {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system answered.
        source: std::io::Error,
    },
}

impl PlanError {
    /// Whether the user's input is wrong.
    pub fn is_usage(&self) -> bool {
        !matches!(self, PlanError::Read { .. })
    }
}
