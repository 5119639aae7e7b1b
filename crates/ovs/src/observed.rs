//! What the switch says of its ports, in the words of ovs-vswitchd's columns.

use std::collections::BTreeMap;

use ovsdb::{Atom, Datum};
use serde_json::Value;

/// A port of the switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Whether its peer is there.
    pub is_up: bool,
    /// Its counters since it was added, by the names of ovs-vswitchd.conf.db(5).
    pub statistics: BTreeMap<&'static str, u64>,
}

impl Observed {
    /// The ports by name, from the switch's answer to [`control::Request::Ports`].
    pub fn all(answer: &Value) -> BTreeMap<String, Self> {
        let ports = answer["ports"].as_array().into_iter().flatten();
        ports.filter_map(|port| Some((port["name"].as_str()?.to_owned(), Observed::of(port)))).collect()
    }

    fn of(port: &Value) -> Self {
        let mut observed = Observed { is_up: has_elements(&port["features"]), ..Observed::default() };
        for queue in port["queues"].as_array().into_iter().flatten() {
            // What comes from the guest the switch receives.
            let names = match queue["from_guest"].as_bool() {
                Some(true) => ["rx_packets", "rx_bytes", "rx_dropped"],
                _ => ["tx_packets", "tx_bytes", "tx_dropped"],
            };
            let drops = queue["drops"].as_object().into_iter().flat_map(|drops| drops.values());
            let dropped = drops.filter_map(Value::as_u64).sum();
            let counts = [queue["frames"].as_u64(), queue["bytes"].as_u64(), Some(dropped)];
            for (name, count) in names.into_iter().zip(counts) {
                *observed.statistics.entry(name).or_default() += count.unwrap_or(0);
            }
        }
        observed
    }

    /// The column `link_state`.
    pub fn link_state(&self) -> Datum {
        Datum::from(if self.is_up { "up" } else { "down" })
    }

    /// The column `statistics`.
    pub fn statistics(&self) -> Datum {
        let pair = |(name, count): (&&str, &u64)| {
            (Atom::String((*name).to_owned()), Atom::Integer(i64::try_from(*count).unwrap_or(i64::MAX)))
        };
        Datum::Map(self.statistics.iter().map(pair).collect())
    }
}

fn has_elements(value: &Value) -> bool {
    value.as_array().is_some_and(|elements| !elements.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counters_are_summed_over_queues_and_named_from_the_switch() {
        let queue = |from_guest, frames| {
            json!({"from_guest": from_guest, "frames": frames, "bytes": 60 * frames,
                "drops": {"too long": 1, "policed": 2}})
        };
        let queues = [queue(true, 5), queue(true, 2), queue(false, 1)];
        let answer =
            json!({"ports": [{"name": "a", "features": ["VERSION_1"], "queues": queues}, {"name": "b"}, 7]});
        let all = Observed::all(&answer);
        let statistics: Vec<(&str, u64)> =
            all["a"].statistics.iter().map(|(name, count)| (*name, *count)).collect();
        let expected = [("rx_bytes", 420), ("rx_dropped", 6), ("rx_packets", 7)];
        assert_eq!(statistics[..3], expected);
        assert_eq!(statistics[3..], [("tx_bytes", 60), ("tx_dropped", 3), ("tx_packets", 1)]);
        assert!(all["a"].is_up && !all["b"].is_up && all.len() == 2);
        assert_eq!(Observed::all(&json!({"ports": 3})).len(), 0);
    }
}
