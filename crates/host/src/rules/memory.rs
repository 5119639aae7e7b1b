//! Memory that is not moved or paged out.

use super::rule::*;
use crate::knob::Knob;
use crate::knob::chosen;
use crate::survey::Survey;

pub const RULES: &[Rule] = &[
    Rule {
        id: "transparent-huge-pages",
        title: "No transparent huge pages",
        why: "khugepaged and compaction move pages under a running guest",
        source: "tuned realtime-virtual-host, network-latency",
        risk: "programs without huge pages of their own miss the TLB more often; the kernel calculates \
               vm.min_free_kbytes anew, also when it is put back",
        takes: Takes::RunTime,
        profiles: QUICK_ALL,
        look: transparent,
    },
    Rule {
        id: "page-merging",
        title: "No page merging (KSM)",
        why: "a write to a merged page faults and copies; ksmd scans all the while",
        source: "tuned realtime-virtual-host",
        risk: "2 unmerges everything in one burst, and memory in use grows",
        takes: Takes::RunTime,
        profiles: QUICK,
        look: merging,
    },
    Rule {
        id: "numa-balancing",
        title: "No automatic NUMA balancing",
        why: "it unmaps pages to see who touches them: page faults in a pinned guest for nothing",
        source: "tuned realtime-virtual-host, network-latency",
        risk: "unpinned work stays on the node where it started",
        takes: Takes::RunTime,
        profiles: QUICK,
        look: |survey| {
            let path = "/proc/sys/kernel/numa_balancing";
            one_value(survey, path, "0", "/proc/sys/kernel", "one node, or a kernel that does not balance")
        },
    },
    Rule {
        id: "huge-pages",
        title: "Huge pages on the guests' nodes",
        why: "guest memory in huge pages takes fewer TLB entries and shorter walks, twice over under virtualization",
        source: "tuned realtime-virtual-host; libvirt kvm-realtime",
        risk: "memory reserved for them is lost for everything else; 1 GiB pages need a boot to be sure of",
        takes: Takes::RunTime,
        profiles: HOSTS,
        look: huge_pages,
    },
    Rule {
        id: "locked-memory",
        title: "Guests may lock their memory",
        why: "QEMU's mem-lock=on fails where RLIMIT_MEMLOCK is lower than the guest",
        source: "libvirt kvm-realtime",
        risk: "a user who may lock all memory can exhaust the host",
        takes: Takes::RunTime,
        profiles: HOST,
        look: locked,
    },
];

fn transparent(survey: &Survey) -> Verdict {
    const PATH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    match survey.tree.read(PATH) {
        Ok(text) => {
            let now = chosen(&text).unwrap_or(&text);
            Verdict::judge(now == "never", now, "never")
                .with([Change::Set { knob: Knob::Choice { path: PATH.into() }, value: "never".into() }])
        }
        Err(unread) => absence(survey, &unread, "never", "/sys/kernel/mm", "this kernel has none"),
    }
}

fn merging(survey: &Survey) -> Verdict {
    const FOLDER: &str = "/sys/kernel/mm/ksm";
    let wanted = "2, or 0 with nothing merged";
    let read = |name: &str| survey.tree.read(&format!("{FOLDER}/{name}"));
    match (read("run"), read("pages_shared")) {
        (Ok(run), Ok(shared)) => {
            let holds = run == "2" || run == "0" && shared == "0";
            Verdict::judge(holds, format!("{run}, {shared} pages merged"), wanted)
                .with([Change::file(format!("{FOLDER}/run"), "2")])
        }
        (Err(unread), _) | (_, Err(unread)) => {
            absence(survey, &unread, wanted, "/sys/kernel/mm", "this kernel merges no pages")
        }
    }
}

fn huge_pages(survey: &Survey) -> Verdict {
    const SIZES: [(&str, u64, &str); 3] = [
        ("hugepages-1048576kB", 1024, "1 GiB"),
        ("hugepages-524288kB", 512, "512 MiB"),
        ("hugepages-2048kB", 2, "2 MiB"),
    ];
    let nodes = survey.memory_nodes(survey.targets());
    let wish = survey.wishes.guest_memory_mib;
    let share_mib = wish.map(|all| all.div_ceil(nodes.len().max(1) as u64));
    let bare: Vec<String> = survey
        .nodes
        .iter()
        .filter(|node| !node.has_memory && !node.cpus.and(survey.targets()).is_empty())
        .map(|node| node.number.to_string())
        .collect();
    let mut places = "each node of the CPUs".to_owned();
    if !bare.is_empty() {
        let list: Vec<String> = nodes.iter().map(ToString::to_string).collect();
        places = format!("node {} (node {} has no memory)", list.join(" and "), bare.join(" and "));
    }
    let wanted = match share_mib {
        Some(mib) => format!("{mib} MiB free on {places}"),
        None => format!("some on {places} (--guest-memory says how much)"),
    };
    if nodes.is_empty() {
        return Verdict::unknown("no node with memory found", wanted);
    }
    let mut found = Vec::new();
    let mut changes = Vec::new();
    let mut enough = true;
    for node in nodes {
        let base =
            [format!("/sys/devices/system/node/node{node}/hugepages"), "/sys/kernel/mm/hugepages".to_owned()];
        let Some(base) = base.iter().find(|folder| survey.tree.has(folder)) else {
            return if survey.tree.has("/sys/kernel/mm") {
                Verdict::fail("this kernel has no huge pages", wanted)
            } else {
                Verdict::unknown("reading /sys/kernel/mm: no such folder", wanted)
            };
        };
        let mut free_mib = 0;
        for (folder, mib, name) in SIZES {
            let read =
                |file: &str| survey.tree.read(&format!("{base}/{folder}/{file}")).ok()?.parse::<u64>().ok();
            let (Some(all), Some(free)) = (read("nr_hugepages"), read("free_hugepages")) else { continue };
            free_mib += free * mib;
            if all > 0 {
                found.push(format!("node {node}: {free} of {all} of {name} free"));
            }
        }
        if free_mib >= share_mib.unwrap_or(1) {
            continue;
        }
        enough = false;
        let path = format!("{base}/hugepages-2048kB/nr_hugepages");
        let now = survey.tree.read(&path).ok().and_then(|text| text.parse::<u64>().ok());
        if let (Some(share), Some(now)) = (share_mib, now) {
            let more = (share - free_mib).div_ceil(2);
            changes.push(Change::file(path, (now + more).to_string()));
        }
    }
    if changes.is_empty() {
        changes.push(Change::by_hand("say how much memory guests take: --guest-memory 4G"));
    }
    let found = if found.is_empty() { "none".into() } else { found.join("; ") };
    Verdict::judge(enough, found, wanted).with(changes)
}

fn locked(survey: &Survey) -> Verdict {
    let wanted = "unlimited, or QEMU started with CAP_IPC_LOCK";
    let limit = |text: String| {
        text.lines()
            .find_map(|line| line.strip_prefix("Max locked memory"))
            .and_then(|line| line.split_whitespace().next().map(str::to_owned))
    };
    let threads = match survey.threads() {
        Ok(threads) => threads,
        Err(reason) => return Verdict::unknown(reason, wanted),
    };
    let guests: Vec<i32> = threads
        .iter()
        .filter(|thread| thread.id.id == thread.process && thread.id.name.starts_with("qemu"))
        .map(|thread| thread.process)
        .collect();
    // Without a guest, the limit of this process stands for the limit of a guest.
    let (who, path) = match guests.first() {
        Some(guest) => (format!("QEMU {guest}"), format!("/proc/{guest}/limits")),
        None => ("this user".to_owned(), "/proc/self/limits".to_owned()),
    };
    match survey.tree.read(&path).map(limit) {
        Ok(Some(limit)) => {
            Verdict::judge(limit == "unlimited", format!("{who}: {limit}"), wanted).with([Change::by_hand(
                "LimitMEMLOCK=infinity in QEMU's systemd unit, or memlock in /etc/security/limits.d",
            )])
        }
        Ok(None) => Verdict::unknown(format!("reading {path}: no line \"Max locked memory\""), wanted),
        Err(unread) => Verdict::unknown(unread, wanted),
    }
}
