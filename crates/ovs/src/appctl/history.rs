//! What the workers have done in the last minute.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;

/// Samples that are kept: the last minute, one each 5 s.
const SAMPLES: usize = 13;
/// Times of a worker, in nanoseconds, and frames of its queues.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sample {
    pub busy: Vec<u64>,
    pub all: Vec<u64>,
    /// Frames from each queue, by port and pair.
    pub frames: BTreeMap<(String, u64), u64>,
}

impl Sample {
    /// A sample of the switch's counters.
    pub fn of(counters: &Value) -> Self {
        let number = |value: &Value, field: &str| value[field].as_u64().unwrap_or(0);
        let mut sample = Sample::default();
        for worker in list(counters, "workers") {
            sample.busy.push(number(worker, "busy_ns"));
            sample.all.push(
                ["busy_ns", "spinning_ns", "asleep_ns"].map(|field| number(worker, field)).iter().sum(),
            );
        }
        for port in list(counters, "ports") {
            let name = port["name"].as_str().unwrap_or_default();
            for queue in list(port, "queues").filter(|queue| queue["from_guest"] == true) {
                let place = (name.to_owned(), number(queue, "pair"));
                sample.frames.insert(place, number(queue, "frames"));
            }
        }
        sample
    }
}

/// The elements of a list in an answer.
pub(super) fn list<'a>(of: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    of[name].as_array().into_iter().flatten()
}

/// Samples of the last minute, the newest first.
#[derive(Clone, Debug, Default)]
pub struct History(VecDeque<Sample>);

impl History {
    /// Takes a sample.
    pub fn add(&mut self, counters: &Value) {
        self.0.push_front(Sample::of(counters));
        self.0.truncate(SAMPLES);
    }

    /// The first sample of the last minute, or the first one since the start.
    pub(super) fn oldest(&self) -> Sample {
        self.0.back().cloned().unwrap_or_default()
    }
}
