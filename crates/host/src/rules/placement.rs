//! Placement on memory nodes, and allocation of the cache.

use std::collections::BTreeSet;

use super::rule::*;
use crate::cpu_list::CpuList;
use crate::survey::Survey;
use crate::tree::Unread;

pub const RULES: &[Rule] = &[
    Rule {
        id: "numa-placement",
        title: "Guest, worker and NIC on one node",
        why: "a packet or page from another node crosses the interconnect each time",
        source: "DPDK vhost guide",
        risk: "memory and CPUs of other nodes lie idle. Who follows whom: the vhost or switch worker stays with \
               the guest's memory, whichever node the NIC is on",
        takes: Takes::Nothing,
        profiles: HOSTS,
        look: nodes,
    },
    Rule {
        id: "cache",
        title: "Shares of the last-level cache",
        why: "a busy neighbour evicts the guest's lines",
        source: "KubeVirt",
        risk: "ways given to one are taken from all others",
        takes: Takes::Nothing,
        profiles: HOST,
        look: cache,
    },
];

fn nodes(survey: &Survey) -> Verdict {
    if survey.nodes.iter().filter(|node| !node.cpus.is_empty()).count() < 2 {
        return Verdict::pass("one node", "one node");
    }
    let of = |cpus: &CpuList| -> BTreeSet<usize> {
        survey.nodes.iter().filter(|node| !node.cpus.and(cpus).is_empty()).map(|node| node.number).collect()
    };
    let list =
        |nodes: &BTreeSet<usize>| nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
    let targets = of(survey.targets());
    let mut found = vec![format!("CPUs {} on node {}", survey.targets(), list(&targets))];
    let mut holds = targets.len() == 1;
    for name in survey.tree.names("/sys/class/net") {
        let path = format!("/sys/class/net/{name}/device/numa_node");
        let Some(node) = survey.tree.read(&path).ok().and_then(|text| text.parse::<usize>().ok()) else {
            continue; // no device behind it, or -1: the firmware does not say
        };
        if !targets.contains(&node) {
            found.push(format!("{name} on node {node}"));
            // Other NICs may serve the host; that alone is no mistake.
        }
    }
    let wanted = "one node for a guest's CPUs, memory, workers and NIC";
    let threads = match survey.threads() {
        Ok(threads) => threads,
        Err(reason) => return Verdict::unknown(reason, wanted),
    };
    for thread in threads {
        let name = &thread.id.name;
        let part = name.starts_with("CPU ") || name.starts_with("vhost-") || name.starts_with("IO ");
        let on = of(&thread.cpus);
        if part && on.len() == 1 && !on.is_subset(&targets) {
            holds = false;
            found.push(format!("{name} of {} on node {}", thread.process, list(&on)));
        }
        if name.starts_with("qemu") && thread.id.id == thread.process {
            let memory = match memory_nodes(survey, thread.process) {
                Ok(memory) => memory,
                Err(unread) => return Verdict::unknown(unread, wanted),
            };
            if !memory.is_empty() && !memory.is_subset(&survey.memory_nodes(survey.targets())) {
                holds = false;
                found.push(format!("memory of {name} {} on node {}", thread.process, list(&memory)));
            }
        }
    }
    Verdict::judge(holds, found.join("; "), wanted).with([Change::by_hand(
        "give each guest CPUs, huge pages (numatune strict) and workers of one node, the NIC's if it can be",
    )])
}

/// The nodes that hold at least a tenth of a process's memory: numa(7), numa_maps.
fn memory_nodes(survey: &Survey, process: i32) -> Result<BTreeSet<usize>, Unread> {
    let text = survey.tree.read(&format!("/proc/{process}/numa_maps"))?;
    let mut pages = std::collections::BTreeMap::<usize, u64>::new();
    for line in text.lines() {
        let size_kib =
            line.split("kernelpagesize_kB=").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
        let size_kib: u64 = size_kib.unwrap_or(4);
        for word in line.split_whitespace() {
            let Some((node, count)) = word.strip_prefix('N').and_then(|rest| rest.split_once('=')) else {
                continue;
            };
            if let (Ok(node), Ok(count)) = (node.parse(), count.parse::<u64>()) {
                *pages.entry(node).or_default() += count.saturating_mul(size_kib);
            }
        }
    }
    let all: u64 = pages.values().sum();
    Ok(pages.into_iter().filter(|(_, kib)| *kib * 10 >= all && all > 0).map(|(node, _)| node).collect())
}

fn cache(survey: &Survey) -> Verdict {
    if survey.tree.has("/sys/fs/resctrl/info/L3") {
        let schemata = survey.tree.read("/sys/fs/resctrl/schemata").unwrap_or_default();
        return Verdict::information(format!(
            "resctrl is mounted: {}",
            schemata.lines().next().unwrap_or("L3")
        ));
    }
    match survey.tree.read("/proc/cpuinfo") {
        Ok(text) if text.contains(" cat_l3") => {
            Verdict::information("the processor can share its cache out; mount resctrl to do so")
        }
        Ok(_) => Verdict::not_applicable("the processor does not say that it can"),
        Err(unread) => Verdict::unknown(unread, "information"),
    }
}
