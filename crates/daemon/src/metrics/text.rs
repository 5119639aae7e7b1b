//! A snapshot in the text format of OpenMetrics, which Prometheus reads.
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use switch::{RingReport, Snapshot};

/// The labels of a sample: names and values.
type Labels = Vec<(&'static str, String)>;
type Seconds = Counter<f64, AtomicU64>;

/// All counters of a switch.
pub fn text(snapshot: &Snapshot, rings: &[RingReport]) -> String {
    let mut registry = Registry::with_prefix("tautline_switch");
    ports(snapshot, &mut registry);
    self::rings(rings, &mut registry);
    table(snapshot, &mut registry);
    workers(snapshot, &mut registry);
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    gauge(&mut registry, "build", "The version that runs").get_or_create(&version).set(1);
    let mut text = String::new();
    // A string takes all that is written.
    let _ = encode(&mut text, &registry);
    text
}

fn counter(registry: &mut Registry, name: &str, help: &str) -> Family<Labels, Counter> {
    let family = Family::<Labels, Counter>::default();
    registry.register(name, help, family.clone());
    family
}

fn seconds(registry: &mut Registry, name: &str, help: &str) -> Family<Labels, Seconds> {
    let family = Family::<Labels, Seconds>::default();
    registry.register_with_unit(name, help, Unit::Seconds, family.clone());
    family
}

fn gauge(registry: &mut Registry, name: &str, help: &str) -> Family<Labels, Gauge> {
    let family = Family::<Labels, Gauge>::default();
    registry.register(name, help, family.clone());
    family
}

/// A label's value as it stands between quotes: what a name may hold is not escaped by the encoder.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn queue(port: &str, pair: u16, from_guest: bool) -> Labels {
    let direction = if from_guest { "from_guest" } else { "to_guest" };
    vec![("port", escaped(port)), ("pair", pair.to_string()), ("direction", direction.to_owned())]
}

fn ports(snapshot: &Snapshot, registry: &mut Registry) {
    let frames = counter(registry, "port_frames", "Frames passed on");
    let bytes = counter(registry, "port_bytes", "Bytes of these frames");
    let notifications = counter(registry, "port_notifications", "Kicks or calls sent to the peer");
    let drops = counter(registry, "port_dropped_frames", "Frames dropped, by reason");
    let addresses = gauge(registry, "port_addresses", "Addresses learned behind the port");
    for port in &snapshot.ports {
        addresses.get_or_create(&vec![("port", escaped(&port.name))]).set(port.addresses.into());
        for one in &port.queues {
            let labels = queue(&port.name, one.pair, one.from_guest);
            frames.get_or_create(&labels).inc_by(one.frames);
            bytes.get_or_create(&labels).inc_by(one.bytes);
            notifications.get_or_create(&labels).inc_by(one.notifications);
            for (reason, count) in &one.drops {
                let mut labels = labels.clone();
                labels.push(("reason", (*reason).to_owned()));
                drops.get_or_create(&labels).inc_by(*count);
            }
        }
    }
}

fn rings(rings: &[RingReport], registry: &mut Registry) {
    let runs = gauge(registry, "ring_runs", "1 where the queue runs");
    let available = gauge(registry, "ring_available", "Chains made available and not yet taken");
    for ring in rings {
        let labels = queue(&ring.port, ring.pair, ring.from_guest);
        runs.get_or_create(&labels).set(ring.runs.into());
        if let Some(ring) = &ring.ring {
            available.get_or_create(&labels).set(ring.available.into());
        }
    }
}

fn table(snapshot: &Snapshot, registry: &mut Registry) {
    let table = &snapshot.table;
    let known = Gauge::<i64>::default();
    known.set(table.addresses as i64);
    registry.register("addresses", "Addresses in the table", known);
    for (name, help, count) in [
        ("addresses_learned", "Addresses that were new", table.learned),
        ("addresses_moved", "Stations seen from another port than before", table.moved),
        ("addresses_moves_refused", "Moves refused, for they came too often", table.moves_refused),
        ("addresses_expired", "Stations not seen for too long", table.expired),
        ("addresses_evicted", "Stations pushed out of a full bucket", table.evicted),
        ("addresses_over_limit", "Frames whose sender was over its port's limit", table.over_limit),
    ] {
        let counter = Counter::<u64>::default();
        counter.inc_by(count);
        registry.register(name, help, counter);
    }
}

fn workers(snapshot: &Snapshot, registry: &mut Registry) {
    let time = seconds(registry, "worker_time", "Time by state: busy, polling without frames, asleep");
    let frames = counter(registry, "worker_frames", "Frames taken from sources");
    let flooded =
        counter(registry, "worker_flooded_frames", "Of these, frames that went to every other port");
    let sleeps = counter(registry, "worker_sleeps", "Times that it went to sleep");
    for (index, worker) in snapshot.workers.iter().enumerate() {
        let labels = vec![("worker", index.to_string())];
        for (state, ns) in
            [("busy", worker.busy_ns), ("polling", worker.spinning_ns), ("asleep", worker.asleep_ns)]
        {
            let mut labels = labels.clone();
            labels.push(("state", state.to_owned()));
            time.get_or_create(&labels).inc_by(ns as f64 / 1e9);
        }
        frames.get_or_create(&labels).inc_by(worker.frames);
        flooded.get_or_create(&labels).inc_by(worker.flooded);
        sleeps.get_or_create(&labels).inc_by(worker.sleeps);
    }
    let up = Seconds::default();
    up.inc_by(snapshot.seconds);
    registry.register_with_unit("up", "Since the start", Unit::Seconds, up);
}

#[cfg(test)]
mod tests {
    use super::*;
    use switch::{Link, PortSnapshot, QueueSnapshot};

    #[test]
    fn each_counter_has_a_line_and_names_are_quoted() {
        let one = QueueSnapshot {
            pair: 0,
            from_guest: false,
            frames: 5,
            bytes: 300,
            notifications: 2,
            suppressed: 0,
            kicks: 0,
            drops: vec![("receiver full", 7)],
            cut_short: None,
        };
        let port = PortSnapshot {
            name: "a\"b\n".to_owned(),
            description: String::new(),
            link: Link::default(),
            features: Vec::new(),
            feature_bits: None,
            interface: None,
            egress: None,
            bfd: std::collections::BTreeMap::new(),
            bond: None,
            addresses: 3,
            queues: vec![one],
        };
        let snapshot = Snapshot { ports: vec![port], seconds: 1.5, ..Snapshot::default() };
        let text = text(&snapshot, &[]);
        for line in [
            r#"tautline_switch_port_frames_total{port="a\"b\n",pair="0",direction="to_guest"} 5"#,
            r#"tautline_switch_port_dropped_frames_total{port="a\"b\n",pair="0",direction="to_guest",reason="receiver full"} 7"#,
            r#"tautline_switch_port_addresses{port="a\"b\n"} 3"#,
            "tautline_switch_up_seconds_total 1.5",
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
