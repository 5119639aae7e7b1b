//! The group `kvm`: what exits, interrupts and faults of a guest cost, measured by `tautline kvm costs` on the host,
//! once for each start.

use std::process::{Command, Stdio};

use kvm::costs::{Cost, Costs, ROWS};
use measure::{Direction, Failure, Group, MetricId, MetricSpec, Noise, Outcome, Unit};

use super::job::{Job, Method};

/// The samples in quick mode: few enough to take some seconds in all. The command has a limit of its own for each row.
const QUICK_SAMPLES: usize = 500;
const FULL_SAMPLES: usize = 5000;
/// The number of CPUs: one for the guest, and one for the thread that signals.
const CPUS: usize = 2;

/// A job for each row.
pub fn jobs() -> impl Iterator<Item = Job> {
    ROWS.iter().map(|row| Job {
        spec: MetricSpec {
            id: MetricId::new(format!("{}.{}", Group::Kvm, row.id)),
            group: Group::Kvm,
            // The names of kvm-unit-tests' vmexit stand beside ours, so that tables can be laid side by side.
            title: match row.vmexit {
                Some(name) => format!("{} (vmexit: {name})", row.title),
                None => row.title.to_owned(),
            },
            unit: Unit::Nanos,
            direction: Direction::LowerIsBetter,
            curve: None,
        },
        method: Method::KvmCost(row.id),
        cpus_used: CPUS,
    })
}

/// The rows of the latest start.
pub struct KvmCosts {
    samples: usize,
    block: Option<u32>,
    rows: Result<Costs, Failure>,
}

impl KvmCosts {
    /// A group without measured rows.
    pub fn new(quick: bool) -> Self {
        let samples = if quick { QUICK_SAMPLES } else { FULL_SAMPLES };
        let rows = Err(Failure::new("measuring the costs of KVM", "not yet", "wait for the first start"));
        KvmCosts { samples, block: None, rows }
    }

    /// The figure of a row in this start. If `/dev/kvm` cannot run a guest, this is tried only once.
    ///
    /// # Errors
    /// The row has no figure; the error says why.
    pub fn row(&mut self, id: &str, block: u32, cpus: &[usize]) -> Result<Outcome, Failure> {
        let is_hopeless = self.block.is_some() && self.rows.is_err();
        if self.block != Some(block) && !is_hopeless {
            self.rows = run(self.samples, cpus);
            self.block = Some(block);
        }
        let costs = self.rows.as_ref().map_err(Failure::clone)?;
        let row = costs.rows.iter().find(|row| row.id == id);
        let row = row.ok_or_else(|| {
            Failure::new(
                format!("measuring {id}"),
                "this version has no such row",
                "take a row that `tautline kvm costs` prints",
            )
        })?;
        outcome(row, costs.emulated)
    }
}

fn outcome(row: &Cost, is_emulated: bool) -> Result<Outcome, Failure> {
    let nothing = || Failure::new(format!("measuring {}", row.id), "no samples", "repeat with --only kvm");
    let latency = match (&row.latency, &row.failure) {
        (Some(latency), _) => latency.clone(),
        (None, Some(failure)) => return Err(failure.clone()),
        (None, None) => return Err(nothing()),
    };
    // A row of no time at all has no ratio.
    let value = latency.median_ns() as f64;
    if value <= 0.0 {
        return Err(nothing());
    }
    let emulated = "the CPU is emulated: the figure shows that the path works, never how fast it is";
    Ok(Outcome {
        value,
        samples: Vec::new(),
        histogram: Some(latency),
        missed: 0,
        elapsed_ns: 0,
        remarks: is_emulated.then(|| emulated.to_owned()).into_iter().collect(),
        noise: Noise::default(),
    })
}

/// Measures in a separate process, because a guest that hangs blocks a thread.
fn run(samples: usize, cpus: &[usize]) -> Result<Costs, Failure> {
    let remedy = "run `tautline kvm costs` by itself";
    let failed = |answer: String| Failure::new("measuring the costs of KVM", answer, remedy);
    let [first, second, ..] = cpus else {
        return Err(failed(format!("two CPUs are needed, not {}; name them with --cpus", cpus.len())));
    };
    let binary = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let mut command = Command::new(binary);
    command.args(["kvm", "costs", "--quiet", "--format", "json", "--samples", &samples.to_string()]);
    command.args(["--cpus", &format!("{first},{second}")]).stdin(Stdio::null());
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::Histogram;

    fn cost(latency: Option<Histogram>) -> Cost {
        let failure = latency.is_none().then(|| Failure::new("a", "b", "c"));
        let none = Cost::new(&ROWS[1], Err(Failure::new("a", "b", "c")), 1);
        Cost { latency, failure, ..none }
    }

    #[test]
    fn a_row_is_a_figure_or_a_reason() {
        let mut latency = Histogram::new();
        latency.record_ns(1000);
        let found = outcome(&cost(Some(latency)), true).unwrap();
        assert!((found.value - 1000.0).abs() < 2.0 && found.remarks.len() == 1);
        assert!(outcome(&cost(Some(Histogram::new())), false).is_err());
        assert_eq!(outcome(&cost(None), false).unwrap_err().tried, "a");
    }

    #[test]
    fn each_row_is_a_metric_of_the_group() {
        let jobs: Vec<Job> = jobs().collect();
        assert_eq!(jobs.len(), ROWS.len());
        assert!(jobs.iter().all(|job| job.spec.id.as_str().starts_with("kvm.")));
    }
}
