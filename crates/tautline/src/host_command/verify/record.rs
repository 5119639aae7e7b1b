//! One sample, as it is kept.

use host::tuning::CpuEvents;
use measure::{Noise, Outcome};
use serde::{Deserialize, Serialize};

use super::states::State;

/// One sample.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sample {
    pub block: u32,
    pub state: State,
    /// The CPU of the wake-ups.
    pub cpu: usize,
    pub outcome: Outcome,
    /// How long events were counted.
    pub counted_ns: u64,
    pub events: Events,
    pub host_noise: Noise,
}

/// Counts on the isolated CPUs; null where the kernel does not tell, for a reason in `unknown`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Events {
    pub interrupts: Option<u64>,
    pub timer: Option<u64>,
    pub softirqs: Option<u64>,
    pub switches: Option<u64>,
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
