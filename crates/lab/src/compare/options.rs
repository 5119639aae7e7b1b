//! What a user may ask of `compare`.

use std::path::PathBuf;
use std::time::Duration;

use environment::network::Card;
use environment::spec::SpecError;

/// What is asked for.
pub struct Options {
    /// Fewer metrics and shorter trials.
    pub quick: bool,
    /// Groups, or metrics by the beginning of their names; all of the usual ones where it is empty.
    pub only: Vec<String>,
    /// Where to measure, as the command line has it.
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
    /// How long beyond its trial an agent may take to answer.
    pub timeout: Duration,
    /// A file of the user's programs.
    pub workloads: Option<PathBuf>,
    /// Whether cyclictest runs on the host beside the wake-up work.
    pub cyclictest: bool,
}

/// Why nothing can be planned.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// An environment that does not exist.
    #[error(transparent)]
    Environment(#[from] SpecError),
    /// A word of `--only` that names nothing.
    #[error("{0}")]
    Selection(String),
    /// A file of programs that does not say what is to be run.
    #[error("{}: {reason}", path.display())]
    Workloads {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file of programs that could not be read.
    #[error("reading {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl PlanError {
    /// Whether what the user wrote is to be changed.
    pub fn is_usage(&self) -> bool {
        !matches!(self, PlanError::Read { .. })
    }
}
