//! The user's programs as workloads: a command, a pattern that finds the figure, its unit and direction.

use std::path::{Path, PathBuf};
use std::time::Duration;

use measure::{Direction, Group, MetricId, MetricSpec, Unit};
use serde::Deserialize;
use workload::protocol::{ExternalJob, Request};

use super::job::{Job, Method};
use super::options::PlanError;

/// One program.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct External {
    /// The program's name: a word of letters, digits, `_` and `-`.
    pub name: String,
    /// The command and its arguments; the command by its full path.
    pub command: Vec<String>,
    /// A regular expression whose first group is the figure.
    pub pattern: String,
    /// The figure's unit.
    pub unit: String,
    /// `lower_is_better` or `higher_is_better`.
    pub direction: Direction,
    /// Files to carry into the container and the guest, the program first of all; statically linked.
    #[serde(default)]
    pub files: Vec<PathBuf>,
    /// The longest time that the command may take, in seconds.
    #[serde(default = "default_limit_s")]
    pub limit_s: u64,
}

fn default_limit_s() -> u64 {
    60
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    workload: Vec<External>,
}

/// Reads a file of `[[workload]]` tables.
///
/// # Errors
/// The file cannot be read, or is no such file.
pub fn load(path: &Path) -> Result<Vec<External>, PlanError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| PlanError::Read { path: path.to_owned(), source })?;
    parse(&text).map_err(|reason| PlanError::Workloads { path: path.to_owned(), reason })
}

fn parse(text: &str) -> Result<Vec<External>, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    for external in &file.workload {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if external.name.is_empty() || !external.name.chars().all(word) {
            return Err(format!("name {:?} is not a word of letters, digits, _ and -", external.name));
        }
        if external.command.is_empty() {
            return Err(format!("{}: the command is empty", external.name));
        }
    }
    Ok(file.workload)
}

impl External {
    /// The job that runs the program on `cpus` CPUs.
    pub fn job(&self, cpus: usize) -> Job {
        let limit = Duration::from_secs(self.limit_s);
        let (command, pattern) = (self.command.clone(), self.pattern.clone());
        let timeout_ms = self.limit_s.saturating_mul(1000);
        Job {
            spec: MetricSpec {
                id: MetricId::new(format!("external.{}", self.name)),
                group: Group::External,
                title: self.name.clone(),
                unit: Unit::from(self.unit.clone()),
                direction: self.direction,
                curve: None,
            },
            method: Method::Agent {
                request: Box::new(move |cpus, _| {
                    Request::External(ExternalJob {
                        command: command.clone(),
                        pattern: pattern.clone(),
                        timeout_ms,
                        cpus,
                    })
                }),
                budget: limit,
                sees_quota: false,
            },
            cpus_used: cpus,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_workloads() {
        let text = r#"
            [[workload]]
            name = "coremark"
            command = ["/opt/coremark.exe", "0x0", "0x0", "0x66", "0"]
            pattern = 'Iterations/Sec\s*:\s*([0-9.]+)'
            unit = "iterations/s"
            direction = "higher_is_better"
        "#;
        let found = parse(text).unwrap();
        assert_eq!((found[0].name.as_str(), found[0].limit_s), ("coremark", 60));
        assert!(parse(&text.replace("coremark\"", "core mark\"")).unwrap_err().contains("not a word"));
        assert!(parse(&text.replace("unit", "units")).unwrap_err().contains("units"));
    }
}
