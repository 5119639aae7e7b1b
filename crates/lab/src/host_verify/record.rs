//! The record of one sample.

use host::CpuEvents;
use measure::Outcome;
use serde::{Deserialize, Serialize};

use super::states::State;

/// One sample: what one attempt measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// Its block.
    pub block: u32,
    /// The state of the host.
    pub state: State,
    /// The CPU on which wake-ups were measured.
    pub cpu: usize,
    /// The wake-up latencies.
    pub outcome: Outcome,
    /// How long events were counted, ns.
    pub counted_ns: u64,
    /// Events of the isolated CPUs.
    pub events: Events,
}

/// Counts on the isolated CPUs. A count that the kernel does not provide is null, with a reason in `unknown`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Events {
    /// Interrupts other than those of the CPU's timer.
    pub interrupts: Option<u64>,
    /// Interrupts of the CPU's timer.
    pub timer: Option<u64>,
    /// Soft interrupts.
    pub softirqs: Option<u64>,
    /// Context switches.
    pub switches: Option<u64>,
    /// Why the kernel does not provide a count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

impl From<CpuEvents> for Events {
    fn from(events: CpuEvents) -> Self {
        let mut unknown = Vec::new();
        let mut count = |result: Result<u64, String>| match result {
            Ok(count) => Some(count),
            Err(reason) => {
                if !unknown.contains(&reason) {
                    unknown.push(reason);
                }
                None
            }
        };
        let [interrupts, timer, softirqs, switches] =
            [events.interrupts, events.timer, events.softirqs, events.switches].map(&mut count);
        Events { interrupts, timer, softirqs, switches, unknown }
    }
}

#[cfg(any(test, feature = "example"))]
pub(super) mod example {
    use measure::{Histogram, Noise};

    use super::*;
    use crate::runner::Attempt;

    fn sample(block: u32, state: State, latency_ns: u64, interrupts: Option<u64>) -> Attempt<Sample> {
        let mut histogram = Histogram::new();
        histogram.record_many_ns(latency_ns, 1000);
        let outcome = Outcome {
            value: latency_ns as f64,
            samples: vec![latency_ns as f64],
            histogram: Some(histogram),
            missed: 0,
            elapsed_ns: 1_000_000_000,
            remarks: Vec::new(),
            noise: Noise::default(),
        };
        let events = Events { interrupts, ..Events::default() };
        Attempt::from(Sample { block, state, cpu: 2, outcome, counted_ns: 2_000_000_000, events })
    }

    /// Simulated samples. Each block has its own common factor; the state as found takes twice as long as applied,
    /// the state without `good` three times.
    pub fn samples(blocks: u32) -> Vec<Attempt<Sample>> {
        let of_block = |block: u32| {
            let weather = 1000 * u64::from(block + 1);
            [
                sample(block, State::AsFound, 2 * weather, Some(40)),
                sample(block, State::Applied, weather, Some(0)),
                sample(block, State::Without("good".into()), 3 * weather, Some(0)),
                sample(block, State::Without("idle".into()), weather + u64::from(block % 2), None),
            ]
        };
        (0..blocks).flat_map(of_block).collect()
    }
}
