//! The results file of a run.

use measure::host_facts::HostFacts;
use measure::{Failure, Histogram};
use serde::{Deserialize, Serialize};

use super::alignment::Alignment;
use super::catalogue::Row;

/// The schema of this version's files.
pub const SCHEMA: &str = "tautline-kvm-costs/1";

/// The unit costs of one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of the program.
    pub tautline: String,
    /// Start, UTC, RFC 3339.
    pub started: String,
    /// The machine.
    pub host: HostFacts,
    /// The kind of KVM, and whether it is nested.
    pub accelerator: String,
    /// Whether the CPU is emulated. Its figures show that a path works, never how fast it is.
    pub emulated: bool,
    /// Settings of KVM that affect the rows: name and value.
    pub settings: Vec<(String, String)>,
    /// Frequency of the time-stamp counter.
    pub tsc_khz: u32,
    /// The alignment of the clocks of host and guest.
    pub alignment: Option<Alignment>,
    /// The rows, in the catalogue's order.
    pub rows: Vec<Cost>,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Its name.
    pub id: String,
    /// The begin and end of the measured interval.
    pub title: String,
    /// The row's name in kvm-unit-tests' `vmexit`.
    pub vmexit: Option<String>,
    /// The row's name in "ARM Virtualization: Performance and Architectural Implications".
    pub arm: Option<String>,
    /// The distribution. TSC stamps are converted to ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Histogram>,
    /// The median in ticks of the TSC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_ticks: Option<u64>,
    /// Why the row could not be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

impl Cost {
    /// A row with these samples, or with the reason why there are none.
    pub fn new(row: &Row, samples: Result<Vec<u64>, Failure>, tsc_khz: u32) -> Self {
        let mut cost = Self {
            id: row.id.into(),
            title: row.title.into(),
            vmexit: row.vmexit.map(str::to_owned),
            arm: row.arm.map(str::to_owned),
            latency: None,
            median_ticks: None,
            failure: None,
        };
        match samples {
            Ok(mut ticks) => {
                let mut latency = Histogram::new();
                for tick in &ticks {
                    latency.record_ns(nanoseconds(*tick, tsc_khz));
                }
                ticks.sort_unstable();
                cost.median_ticks = ticks.get(ticks.len() / 2).copied();
                cost.latency = Some(latency);
            }
            Err(failure) => cost.failure = Some(failure),
        }
        cost
    }
}

/// The duration of `ticks` ticks, ns.
pub fn nanoseconds(ticks: u64, tsc_khz: u32) -> u64 {
    (u128::from(ticks) * 1_000_000 / u128::from(tsc_khz.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::catalogue::ROWS;

    #[test]
    fn ticks_become_nanoseconds() {
        assert_eq!(nanoseconds(2_500, 2_500_000), 1000);
        assert_eq!(nanoseconds(u64::MAX, 1_000_000), u64::MAX);
        assert_eq!(nanoseconds(1, 0), 1_000_000);
    }

    #[test]
    fn a_row_has_a_distribution_or_a_reason() {
        let cost = Cost::new(&ROWS[0], Ok(vec![3000, 1000, 2000]), 1_000_000);
        assert_eq!((cost.median_ticks, cost.latency.unwrap().max_ns()), (Some(2000), 3000));
        let cost = Cost::new(&ROWS[0], Err(Failure::new("a", "b", "c")), 1_000_000);
        assert!(cost.latency.is_none() && cost.failure.is_some());
    }
}
