//! Interrupts and deferred work of the kernel, which are kept away from isolated CPUs.

use super::rule::*;
use crate::cpu_list::CpuList;
use crate::irqbalance;
use crate::knob::Knob;
use crate::survey::Survey;

pub const RULES: &[Rule] = &[
    Rule {
        id: "irqbalance",
        title: "irqbalance leaves isolated CPUs alone",
        why: "irqbalance moves interrupts every 10 s, also back to where they were taken from",
        source: "SEAPATH",
        risk: "restarting it redistributes all interrupts for about a second: choose the moment yourself",
        takes: Takes::RunTime,
        profiles: REAL_TIME,
        look: irqbalance_bans,
    },
    Rule {
        id: "interrupts",
        title: "No interrupt aimed at isolated CPUs",
        why: "each interrupt takes the CPU from the guest: an exit, a handler, an entry",
        source: "SEAPATH",
        risk: "housekeeping CPUs get more of them",
        takes: Takes::RunTime,
        profiles: REAL_TIME,
        look: affinity,
    },
    Rule {
        id: "interrupt-counts",
        title: "No interrupt taken by isolated CPUs",
        why: "counts tell what affinities promise",
        source: "SEAPATH",
        risk: "nothing is changed",
        takes: Takes::Nothing,
        profiles: REAL_TIME,
        look: counts,
    },
    Rule {
        id: "workqueues",
        title: "Work queues off isolated CPUs",
        why: "unbound work of drivers, file systems and RCU runs on any CPU of the mask",
        source: "tuned realtime; SEAPATH",
        risk: "froze a network in the field: needs --accept workqueues",
        takes: Takes::RunTime,
        profiles: REAL_TIME,
        look: workqueues,
    },
];

fn irqbalance_bans(survey: &Survey) -> Verdict {
    if survey.isolated.is_empty() {
        return nothing_isolated();
    }
    let wanted = format!("not running, or IRQBALANCE_BANNED_CPULIST={}", survey.isolated);
    let threads = match survey.threads() {
        Ok(threads) => threads,
        Err(reason) => return Verdict::unknown(reason, wanted),
    };
    let mut running = threads.iter().filter(|thread| thread.id.name == "irqbalance").peekable();
    if running.peek().is_none() {
        return Verdict::pass("not running", wanted);
    }
    let mut found = Vec::new();
    let mut holds = true;
    let mut by_mask = false;
    for thread in running {
        let banned = match irqbalance::banned(survey.tree, thread.id.id) {
            Ok(banned) => banned,
            Err(unread) => return Verdict::unknown(unread, wanted),
        };
        holds &= survey.isolated.within(&banned.cpus);
        by_mask |= banned.by_mask;
        let cpus = if banned.cpus.is_empty() { "none".into() } else { banned.cpus.to_string() };
        found.push(format!("running; leaves alone: {cpus} ({})", banned.source));
    }
    let instead =
        if by_mask { " instead of IRQBALANCE_BANNED_CPUS, which would count before it" } else { "" };
    Verdict::judge(holds, found.join("; "), wanted).with([Change::by_hand(format!(
        "write IRQBALANCE_BANNED_CPULIST={} to {}{instead}; restart irqbalance when a second of moved interrupts is fine",
        survey.isolated,
        irqbalance::file(survey.tree)
    ))])
}

fn affinity(survey: &Survey) -> Verdict {
    if survey.isolated.is_empty() {
        return nothing_isolated();
    }
    const FOLDER: &str = "/proc/irq";
    let wanted = format!("none on {}", survey.isolated);
    let names = survey.tree.names(FOLDER);
    if names.is_empty() {
        return Verdict::unknown(format!("reading {FOLDER}: no interrupt found"), wanted);
    }
    let mut aimed = Vec::new();
    let mut changes = Vec::new();
    for number in names.iter().filter(|name| name.parse::<u32>().is_ok()) {
        let read = |name: &str| survey.tree.read(&format!("{FOLDER}/{number}/{name}"));
        let allowed = read("smp_affinity_list");
        // The kernel may be built without the effective affinity.
        let effective = match read("effective_affinity_list") {
            Err(unread) if unread.is_absent() => allowed.as_deref().map(str::to_owned).map_err(|_| unread),
            other => other,
        };
        let effective: CpuList = match effective {
            Ok(text) => text.parse().unwrap_or_default(),
            Err(unread) => return Verdict::unknown(unread, wanted),
        };
        if effective.and(&survey.isolated).is_empty() {
            continue;
        }
        aimed.push(format!("{number} on {}", effective.and(&survey.isolated)));
        let allowed: CpuList = allowed.ok().and_then(|text| text.parse().ok()).unwrap_or_default();
        let rest = allowed.and(&survey.housekeeping());
        let to = if rest.is_empty() { survey.housekeeping() } else { rest };
        changes.push(Change::file(format!("{FOLDER}/{number}/smp_affinity_list"), to.to_string()));
    }
    let default = format!("{FOLDER}/default_smp_affinity");
    match survey.tree.read(&default).map(|mask| CpuList::from_mask(&mask)) {
        Ok(Ok(cpus)) if cpus.and(&survey.isolated).is_empty() => {}
        Ok(Ok(_)) => {
            aimed.push("new ones anywhere (default_smp_affinity)".into());
            changes.push(Change::Set {
                knob: Knob::Mask { path: default },
                value: survey.housekeeping().to_mask(),
            });
        }
        Ok(Err(error)) => return Verdict::unknown(format!("reading {default}: {error}"), wanted),
        Err(unread) => return Verdict::unknown(unread, wanted),
    }
    let found = if aimed.is_empty() { "none".into() } else { format!("interrupts {}", some_of(&aimed)) };
    Verdict::judge(aimed.is_empty(), found, wanted).with(changes)
}

fn counts(survey: &Survey) -> Verdict {
    if survey.isolated.is_empty() {
        return nothing_isolated();
    }
    let wanted = "0 while they are watched";
    let Some(watched) = &survey.watched else {
        return Verdict::unknown("not watched (give --watch 1s on the host itself)", wanted);
    };
    match &watched.interrupts {
        Err(error) => Verdict::unknown(error, wanted),
        Ok(counts) => {
            let mut all: Vec<(&String, &u64)> = counts.iter().collect();
            all.sort_by(|one, other| other.1.cmp(one.1));
            let all: Vec<String> =
                all.into_iter().map(|(name, count)| format!("{count} of {name}")).collect();
            let found = if all.is_empty() { "none".into() } else { some_of(&all) };
            let found = format!("{found} in {:.1} s", watched.time.as_secs_f64());
            Verdict::judge(all.is_empty(), found, wanted).with([Change::by_hand(
                "follow the rules above; LOC is the tick, RES and CAL come from other CPUs",
            )])
        }
    }
}

fn workqueues(survey: &Survey) -> Verdict {
    if survey.isolated.is_empty() {
        return nothing_isolated();
    }
    const FOLDER: &str = "/sys/devices/virtual/workqueue";
    let wanted = format!("masks without {}", survey.isolated);
    let mut paths = vec![format!("{FOLDER}/cpumask")];
    let queues = survey.tree.names(FOLDER).into_iter().map(|name| format!("{FOLDER}/{name}/cpumask"));
    paths.extend(queues.filter(|path| survey.tree.has(path)));
    let mut over = Vec::new();
    let mut changes = Vec::new();
    for path in paths {
        let cpus = match survey.tree.read(&path).map(|mask| CpuList::from_mask(&mask)) {
            Ok(Ok(cpus)) => cpus,
            Ok(Err(error)) => return Verdict::unknown(format!("reading {path}: {error}"), wanted),
            Err(unread) => return Verdict::unknown(unread, wanted),
        };
        if cpus.and(&survey.isolated).is_empty() {
            continue;
        }
        let rest = cpus.and(&survey.housekeeping());
        let to = if rest.is_empty() { survey.housekeeping() } else { rest };
        let name = path.trim_start_matches(FOLDER).trim_matches('/').trim_end_matches("/cpumask").to_owned();
        over.push(if name == "cpumask" { "all unbound ones".into() } else { name });
        changes.push(Change::Set { knob: Knob::Mask { path }, value: to.to_mask() });
    }
    let found = if over.is_empty() { "none".into() } else { format!("on isolated CPUs: {}", some_of(&over)) };
    Verdict::judge(over.is_empty(), found, wanted)
        .with(changes)
        .hazard("work of network drivers moves to other CPUs: this has frozen a network in the field")
}
