//! Compares each path with the path that has one part less, and divides the CPU time by its use.

use std::collections::BTreeMap;

use linux::cpu_time::CpuTime;

use super::{FlowRecord, Network, NetworkTrial, PathRecord};
use crate::statistics::median;
use crate::{MetricId, Results, median_interval};

/// The cost of one path, and the cost that its last part adds.
#[derive(Clone, Debug, PartialEq)]
pub struct Rung<'a> {
    /// The path.
    pub path: &'a PathRecord,
    /// The CPU time for each packet or transaction, in ns: the median over the starts.
    pub cost_ns: f64,
    /// The additional cost compared with the path that has one part less, in ns: the median over the starts that have
    /// both.
    pub own_ns: Option<f64>,
    /// The interval of `own_ns`; covers at least 95 %.
    pub own_interval: Option<(f64, f64)>,
}

/// The costs of one work in one environment, in the order of the paths.
pub fn rungs<'a>(results: &'a Results, environment: &str, work: &str) -> Vec<Rung<'a>> {
    let network = &results.network;
    let costs: BTreeMap<&str, BTreeMap<u32, f64>> = flows(network, work)
        .map(|flow| (flow.path.as_str(), by_block(results, environment, &flow.cost)))
        .collect();
    let rungs = network.paths.iter().filter_map(|path| {
        let own = costs.get(path.name.as_str())?;
        let cost_ns = median(&own.values().copied().collect::<Vec<_>>())?;
        let below = path.adds_to.as_ref().and_then(|below| costs.get(below.as_str()));
        let added: Vec<f64> = below
            .into_iter()
            .flat_map(|below| own.iter().filter_map(|(block, cost)| Some(cost - below.get(block)?)))
            .collect();
        Some(Rung { path, cost_ns, own_ns: median(&added), own_interval: median_interval::interval(&added) })
    });
    rungs.collect()
}

fn flows<'a>(network: &'a Network, work: &str) -> impl Iterator<Item = &'a FlowRecord> {
    let work = work.to_owned();
    network.flows.iter().filter(move |flow| flow.work == work)
}

/// The level of each block: the median of its trials that count.
fn by_block(results: &Results, environment: &str, metric: &MetricId) -> BTreeMap<u32, f64> {
    let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for trial in &results.trials {
        let is_one = trial.metric == *metric && trial.environment == environment;
        if is_one && trial.verdict.counts() && trial.outcome.value.is_finite() {
            blocks.entry(trial.block).or_default().push(trial.outcome.value);
        }
    }
    blocks.into_iter().filter_map(|(block, values)| Some((block, median(&values)?))).collect()
}

/// All counting trials of a flow, for each packet (or transaction): the sender's figures are divided by the sent
/// packets, all others by the received packets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// The number of packets on which the figures are based.
    pub received: u64,
    /// Messages that were sent.
    pub sent: u64,
    /// Messages that were lost.
    pub lost: u64,
    /// Messages that the sender's system refused.
    pub refused: u64,
    /// The CPU time in ns for each packet.
    pub cpu_ns: f64,
    /// The CPU time in s for each gigabit of payload.
    pub cpu_s_per_gigabit: f64,
    /// For each role: the CPU time in ns, the voluntary and the involuntary switches, for each packet.
    pub roles: Vec<(String, f64, f64, f64)>,
    /// The CPU time by kind, in ns for each packet: all time of the trial's CPUs, including other processes.
    pub kinds: Vec<(&'static str, f64)>,
    /// System calls of both ends for each packet.
    pub calls: f64,
    /// Hardware interrupts of the machine for each packet.
    pub interrupts: f64,
    /// Software interrupts of the machine for each packet.
    pub softirqs: f64,
    /// The transitions between a guest and its host for each packet, by name; empty if there is no guest. A value is
    /// `None` if a trial did not count it.
    pub guest: Vec<(&'static str, Option<f64>)>,
}

/// The figures of a flow over all its trials. Returns `None` if no packet arrived.
pub fn figures(network: &Network, environment: &str, metric: &MetricId) -> Option<Figures> {
    let is_one =
        |trial: &&NetworkTrial| trial.metric == *metric && trial.environment == environment && trial.counts;
    let trials: Vec<&NetworkTrial> = network.trials.iter().filter(is_one).collect();
    // A file can hold any number: sums must not overflow.
    let sum =
        |of: fn(&NetworkTrial) -> u64| trials.iter().fold(0u64, |sum, trial| sum.saturating_add(of(trial)));
    let received = sum(|trial| trial.received);
    if received == 0 {
        return None;
    }
    let per_packet = |amount: u64| amount as f64 / received as f64;
    let mut roles: Vec<(String, [u64; 3])> = Vec::new();
    for role in trials.iter().flat_map(|trial| &trial.cost.roles) {
        let place = roles.iter().position(|(name, _)| *name == role.role).unwrap_or_else(|| {
            roles.push((role.role.clone(), [0; 3]));
            roles.len() - 1
        });
        let amounts = [role.cpu_ns, role.voluntary_switches, role.involuntary_switches];
        for (to, amount) in roles[place].1.iter_mut().zip(amounts) {
            *to = to.saturating_add(amount);
        }
    }
    let kinds = (0..6).map(|kind| {
        let parts = trials.iter().map(|trial| super::kinds(&trial.cost.kinds)[kind]);
        let name = super::kinds(&CpuTime::default())[kind].0;
        (name, per_packet(parts.fold(0u64, |sum, (_, ns)| sum.saturating_add(ns))))
    });
    let sent = sum(|trial| trial.sent).max(1);
    let roles: Vec<(String, f64, f64, f64)> = roles
        .into_iter()
        .map(|(name, amounts)| {
            let divisor = if super::is_sending(&name) { sent } else { received };
            let [cpu, voluntary, involuntary] = amounts.map(|amount| amount as f64 / divisor as f64);
            (name, cpu, voluntary, involuntary)
        })
        .collect();
    let cpu_ns: f64 = roles.iter().map(|(_, cpu_ns, ..)| cpu_ns).sum();
    let gigabits = sum(|trial| trial.received_bytes) as f64 * 8.0 / 1e9;
    Some(Figures {
        received,
        sent,
        lost: sum(|trial| trial.lost),
        refused: sum(|trial| trial.refused),
        cpu_ns,
        cpu_s_per_gigabit: if gigabits > 0.0 { cpu_ns * received as f64 / 1e9 / gigabits } else { f64::NAN },
        roles,
        kinds: kinds.collect(),
        calls: per_packet(sum(|trial| trial.cost.calls)),
        interrupts: per_packet(sum(|trial| trial.cost.interrupts)),
        softirqs: per_packet(sum(|trial| trial.cost.softirqs)),
        guest: guest(&trials).into_iter().map(|(name, sum)| (name, sum.map(per_packet))).collect(),
    })
}

/// Sums over the trials of a path into a guest.
fn guest(trials: &[&NetworkTrial]) -> Vec<(&'static str, Option<u64>)> {
    let mut sums: Vec<(&'static str, Option<u64>)> = Vec::new();
    for each in trials.iter().filter_map(|trial| trial.cost.guest).map(|counts| counts.each()) {
        if sums.is_empty() {
            sums = each.to_vec();
            continue;
        }
        for (sum, (_, more)) in sums.iter_mut().zip(each) {
            sum.1 = sum.1.zip(more).map(|(sum, more)| sum.saturating_add(more));
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::example;
    use crate::network::{Cost, GuestCounts, RoleCost};

    #[test]
    fn a_rung_costs_what_it_adds_within_each_start() {
        let results = example::with_network();
        let found = rungs(&results, "host", "udp_stream.64");
        let names: Vec<&str> = found.iter().map(|rung| rung.path.name.as_str()).collect();
        assert_eq!(names, ["veth", "veth_bridge", "vm_virtio"]);
        assert_eq!((found[0].own_ns, found[0].own_interval), (None, None));
        // Each start is 10 ns slower than the one before, and both paths share that: it leaves the difference.
        assert_eq!(found[1].own_ns, Some(300.5));
        assert_eq!(found[1].own_interval, Some((300.0, 301.0)));
        assert!(rungs(&results, "nowhere", "udp_stream.64").is_empty());
    }

    #[test]
    fn sums_are_for_each_packet_that_arrived() {
        let metric = MetricId::new("net.veth.udp_stream.64");
        let trial = |counts, received| NetworkTrial {
            metric: metric.clone(),
            environment: "host".into(),
            block: 0,
            round: 0,
            counts,
            sent: received + 10,
            received,
            lost: 10,
            refused: 0,
            received_bytes: received * 125,
            cost: Cost {
                cpu_ns: received * 1000,
                roles: vec![
                    RoleCost { role: "sender".into(), cpu_ns: (received + 10) * 600, ..RoleCost::default() },
                    RoleCost {
                        role: "receiver".into(),
                        cpu_ns: received * 400,
                        voluntary_switches: received,
                        ..RoleCost::default()
                    },
                ],
                kinds: CpuTime { softirq_ns: received * 250, ..CpuTime::default() },
                calls: received * 2,
                interrupts: 1,
                softirqs: u64::MAX,
                guest: Some(GuestCounts {
                    exits: Some(received / 2),
                    kicks: counts.then_some(received),
                    ..GuestCounts::default()
                }),
            },
        };
        let mut network = Network {
            trials: vec![trial(true, 100), trial(true, 300), trial(false, 7)],
            ..Network::default()
        };
        let found = figures(&network, "host", &metric).unwrap();
        assert_eq!((found.received, found.sent, found.lost), (400, 420, 20));
        assert_eq!(found.cpu_ns, 1000.0);
        let roles = [("sender".to_owned(), 600.0, 0.0, 0.0), ("receiver".to_owned(), 400.0, 1.0, 0.0)];
        assert_eq!(found.roles, roles);
        assert_eq!(network.trials[0].ns_per_packet(), 1000.0);
        assert!(found.kinds.contains(&("softirq", 250.0)));
        assert_eq!(found.calls, 2.0);
        let guest = |name| found.guest.iter().find(|(one, _)| *one == name).unwrap().1;
        assert_eq!((guest("exits"), guest("kicks"), guest("calls")), (Some(0.5), Some(1.0), None));
        // 1,000 bits a packet: a million packets a gigabit, 1,000 ns each.
        assert!((found.cpu_s_per_gigabit - 1.0).abs() < 1e-9);
        network.trials.retain(|trial| !trial.counts);
        assert_eq!(figures(&network, "host", &metric), None);
    }
}
