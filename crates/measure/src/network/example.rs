//! A made-up group `net`. No figure in it was measured.

use linux::cpu_time::CpuTime;

use super::{Copies, Cost, FlowRecord, GuestCounts, NetworkTrial, PathRecord, RoleCost};
use crate::{
    Direction, Failure, Group, MetricId, MetricSpec, Noise, Outcome, Results, Trial, Unit, Verdict, example,
};

const PACKETS: u64 = 10_000;

/// The example run with three paths: two that build on each other, one of them also with a guest's emulated CPU, and
/// one that could not be built.
pub fn with_network() -> Results {
    let mut results = example::results();
    let path = |name: &str, pieces: &[&str], adds_to: Option<&str>| PathRecord {
        name: name.into(),
        pieces: pieces.iter().map(|piece| piece.to_string()).collect(),
        adds_to: adds_to.map(str::to_owned),
        emulated: name.starts_with("vm"),
        copies: Some(Copies { from_near: u32::from(adds_to.is_none()), from_far: 1 }),
        failure: None,
    };
    let reason =
        Failure::new("opening /dev/vhost-net", "No such file or directory", "load vhost_net as root");
    results.network.paths = vec![
        path("veth", &["veth"], None),
        path("veth_bridge", &["veth", "bridge"], Some("veth")),
        path("vm_virtio", &["virtio", "tap"], None),
        PathRecord { failure: Some(reason), ..path("vm_vhost", &["virtio", "vhost-net", "tap"], None) },
    ];
    for (place, name) in ["veth", "veth_bridge", "vm_virtio"].into_iter().enumerate() {
        flow(&mut results, name, [1000, 1300, 90_000][place]);
    }
    results
}

fn flow(results: &mut Results, path: &str, cost_ns: u64) {
    let work = "udp_stream.64";
    let metric = MetricId::new(format!("net.{path}.{work}"));
    let cost = MetricId::new(format!("net.{path}.{work}.cpu"));
    let spec = |id: &MetricId, title: &str, unit, direction| MetricSpec {
        id: id.clone(),
        group: Group::Net,
        title: format!("{path}: {title}"),
        unit,
        direction,
        curve: None,
    };
    results.metrics.push(spec(
        &metric,
        "UDP stream, 64 bytes",
        Unit::BytesPerSecond,
        Direction::HigherIsBetter,
    ));
    results.metrics.push(spec(&cost, "CPU time a packet", Unit::Nanos, Direction::LowerIsBetter));
    results.network.flows.push(FlowRecord {
        metric: metric.clone(),
        cost: cost.clone(),
        path: path.into(),
        work: work.into(),
        title: "UDP stream, 64 bytes".into(),
        message_bytes: 64,
        datagrams: true,
    });
    for block in 0..results.plan.blocks {
        let cost_ns = cost_ns + u64::from(block) * 10 + if path == "veth" { 0 } else { u64::from(block % 2) };
        for (id, value) in [(&metric, 64e9 / cost_ns as f64), (&cost, cost_ns as f64)] {
            results.trials.push(Trial {
                metric: id.clone(),
                environment: "host".into(),
                block,
                round: 0,
                attempt: 0,
                outcome: Outcome {
                    value,
                    samples: Vec::new(),
                    histogram: None,
                    missed: 0,
                    elapsed_ns: PACKETS * cost_ns,
                    remarks: Vec::new(),
                    noise: Noise::default(),
                },
                host_noise: Noise::default(),
                verdict: Verdict::Accepted,
            });
        }
        let role = |role: &str, tenths: u64| RoleCost {
            role: role.into(),
            cpu_ns: PACKETS * cost_ns * tenths / 10,
            voluntary_switches: 7,
            involuntary_switches: 3,
        };
        results.network.trials.push(NetworkTrial {
            metric: metric.clone(),
            environment: "host".into(),
            block,
            round: 0,
            counts: true,
            sent: PACKETS + 100,
            received: PACKETS,
            lost: 100,
            refused: 0,
            received_bytes: PACKETS * 64,
            cost: Cost {
                cpu_ns: PACKETS * cost_ns,
                roles: vec![role("sender", 7), role("receiver", 3)],
                kinds: CpuTime {
                    user_ns: PACKETS * cost_ns / 10,
                    system_ns: PACKETS * cost_ns * 6 / 10,
                    softirq_ns: PACKETS * cost_ns * 3 / 10,
                    ..CpuTime::default()
                },
                calls: PACKETS * 2,
                interrupts: 100,
                softirqs: PACKETS / 10,
                guest: path.starts_with("vm").then_some(GuestCounts {
                    interrupts: Some(PACKETS / 4),
                    kicks: Some(PACKETS / 8),
                    kicks_suppressed: Some(PACKETS * 7 / 8),
                    ..GuestCounts::default()
                }),
            },
        });
    }
}
