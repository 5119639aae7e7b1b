//! Counts of events: `coverage/show`.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::Value;

/// The time between two samples.
const PERIOD: Duration = Duration::from_secs(5);
/// Samples in a minute.
const MINUTE: usize = 12;
/// Samples in an hour, and as many are kept.
const HOUR: usize = 720;

/// How often each event has happened.
pub type Totals = BTreeMap<String, u64>;

/// Totals of the last hour, the newest first.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    samples: VecDeque<Totals>,
    taken: Option<Instant>,
}

impl Coverage {
    /// Whether a sample is due.
    pub fn is_due(&mut self, now: Instant) -> bool {
        if self.taken.is_some_and(|taken| now.duration_since(taken) < PERIOD) {
            return false;
        }
        self.taken = Some(now);
        true
    }

    /// Takes a sample.
    pub fn add(&mut self, totals: Totals) {
        self.samples.push_front(totals);
        self.samples.truncate(HOUR + 1);
    }

    /// The text: one line for each event that has happened.
    pub fn show(&self, totals: Totals) -> String {
        let mut said = "Event coverage, avg rate over last: 5 seconds, last minute, last hour:\n".to_owned();
        let never = totals.values().filter(|total| **total == 0).count();
        for (name, total) in totals.into_iter().filter(|(_, total)| *total > 0) {
            let [seconds, minute, hour] = [1, MINUTE, HOUR].map(|samples| self.rate(&name, samples));
            let _ = writeln!(
                said,
                "{name:<24} {seconds:>5.1}/sec {minute:>9.3}/sec {hour:>13.4}/sec   total: {total}"
            );
        }
        let _ = writeln!(said, "{never} events never hit");
        said
    }

    /// Events a second over the latest `samples` samples.
    fn rate(&self, name: &str, samples: usize) -> f64 {
        let at =
            |place: usize| self.samples.get(place).and_then(|totals| totals.get(name)).copied().unwrap_or(0);
        at(0).saturating_sub(at(samples)) as f64 / (PERIOD.as_secs() * samples as u64) as f64
    }
}

/// Totals by the names of ovs-vswitchd, for events that it counts in the same way.
pub fn totals(counters: &Value) -> Totals {
    let mut totals = Totals::new();
    let mut add = |name: &str, count: &Value| {
        *totals.entry(name.to_owned()).or_default() += count.as_u64().unwrap_or(0);
    };
    for queue in list(counters, "ports").flat_map(|port| list(port, "queues")) {
        let is_from_guest = queue["from_guest"] == true;
        add(if is_from_guest { "netdev_received" } else { "netdev_sent" }, &queue["frames"]);
        for (reason, frames) in queue["drops"].as_object().into_iter().flatten() {
            add(&format!("drop_{}", reason.replace(' ', "_")), frames);
        }
    }
    for (name, count) in [
        ("mac_learning_learned", "learned"),
        ("mac_learning_expired", "expired"),
        ("mac_learning_evicted", "evicted"),
        ("mac_learning_moved", "moved"),
    ] {
        add(name, &counters["table"][count]);
    }
    for worker in list(counters, "workers") {
        add("worker_sleep", &worker["sleeps"]);
        add("worker_wake", &worker["wakes"]);
        add("flooded_frames", &worker["flooded"]);
    }
    totals
}

fn list<'a>(of: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    of[name].as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn totals_are_those_of_all_queues_and_rates_of_their_time() {
        let counters = |frames: u64| {
            json!({"ports": [
                {"queues": [{"from_guest": true, "frames": frames, "drops": {"too long": 2}},
                            {"from_guest": false, "frames": 1}]},
                {"queues": [{"from_guest": true, "frames": frames}]}, {}],
                "table": {"learned": 3}, "workers": [{"sleeps": 4}, {"sleeps": 5}]})
        };
        let newest = totals(&counters(60));
        let of = |name: &str| newest[name];
        assert_eq!([of("netdev_received"), of("netdev_sent"), of("drop_too_long")], [120, 1, 2]);
        assert_eq!([of("mac_learning_learned"), of("worker_sleep"), of("flooded_frames")], [3, 9, 0]);
        let samples = [60, 50, 30].map(|frames| totals(&counters(frames)));
        let coverage = Coverage { samples: samples.into(), taken: None };
        assert_eq!(coverage.rate("netdev_received", 1), 4.0);
        // Before the first sample nothing had happened.
        assert_eq!(coverage.rate("netdev_received", MINUTE), 2.0);
        assert_eq!(coverage.rate("drop_too_long", 1), 0.0);
    }
}
