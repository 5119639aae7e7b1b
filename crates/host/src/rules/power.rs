//! Idle states, frequency, and siblings of one core.

use super::rule::*;
use crate::cpu_list::CpuList;
use crate::survey::Survey;

/// Idle states that take longer to leave are not wanted, µs: C1 is left in 1 or 2.
const LONGEST_EXIT_US: u32 = 3;
const CPU: &str = "/sys/devices/system/cpu";

pub const RULES: &[Rule] = &[
    Rule {
        id: "smt",
        title: "No busy sibling",
        why: "two threads of one core share its units and caches: either slows the other by chance",
        source: "kernel, admin-guide/cpu-isolation; libvirt kvm-realtime",
        risk: "half of the CPUs go offline, or siblings stay unused: capacity",
        takes: Takes::RunTime,
        profiles: REAL_TIME,
        look: siblings,
    },
    Rule {
        id: "c-states",
        title: "Shallow idle states",
        why: "leaving a deep idle state takes tens to hundreds of microseconds",
        source: "tuned latency-performance, network-latency",
        risk: "heat and power; other cores may lose their turbo frequencies",
        takes: Takes::RunTime,
        profiles: QUICK,
        look: idle_states,
    },
    Rule {
        id: "frequency",
        title: "Full frequency",
        why: "a governor that follows the load is late by its sampling period",
        source: "tuned latency-performance",
        risk: "heat and power",
        takes: Takes::RunTime,
        profiles: HOSTS,
        look: frequency,
    },
];

fn siblings(survey: &Survey) -> Verdict {
    if survey.isolated.is_empty() {
        return nothing_isolated();
    }
    let wanted = "no sibling of an isolated CPU in use by others";
    match survey.tree.read(&format!("{CPU}/smt/active")) {
        Ok(text) if text == "0" => return Verdict::pass("one thread a core", wanted),
        Ok(_) => {}
        Err(unread) => {
            return absence(survey, &unread, wanted, CPU, "this kernel knows no threads of a core");
        }
    }
    let mut shared = CpuList::default();
    let mut first_threads = CpuList::default();
    for cpu in survey.online.iter() {
        let path = format!("{CPU}/cpu{cpu}/topology/thread_siblings_list");
        let siblings: CpuList = match survey.tree.read(&path) {
            Ok(text) => text.parse().unwrap_or_default(),
            Err(unread) => return Verdict::unknown(unread, wanted),
        };
        if survey.isolated.contains(cpu) {
            shared = shared.or(&siblings.without(&survey.isolated).and(&survey.online));
        }
        if siblings.iter().next() == Some(cpu) {
            first_threads = first_threads.or(&CpuList::from_iter([cpu]));
        }
    }
    if shared.is_empty() {
        return Verdict::pass(
            "all siblings of isolated CPUs are isolated: leave one of each core unused",
            wanted,
        );
    }
    let found = format!("CPUs {shared} share cores with isolated ones");
    let together = survey.isolated.or(&shared);
    let left = first_threads.without(&survey.isolated);
    let control = format!("{CPU}/smt/control");
    let can_be_off = survey.tree.read(&control).is_ok_and(|text| text == "on");
    let stays = survey.isolated.within(&first_threads) && !left.is_empty();
    if can_be_off && stays {
        return Verdict::fail(found, wanted).with([Change::file(control, "off")]).hazard(
            "half of the CPUs go offline; what runs on them is moved, and their own settings are lost",
        );
    }
    Verdict::fail(found, wanted).with([Change::by_hand(format!(
        "isolate both threads of a core: --isolate {together}; or switch SMT off in firmware"
    ))])
}

fn idle_states(survey: &Survey) -> Verdict {
    let wanted = format!("no idle state that takes longer than {LONGEST_EXIT_US} µs to leave");
    let mut deep = Vec::new();
    let mut changes = Vec::new();
    let mut any = false;
    for cpu in survey.targets().iter() {
        let states = survey.tree.names(&format!("{CPU}/cpu{cpu}/cpuidle"));
        any |= !states.is_empty();
        let mut longest = None;
        for state in &states {
            let folder = format!("{CPU}/cpu{cpu}/cpuidle/{state}");
            let read = |name: &str| survey.tree.read(&format!("{folder}/{name}"));
            let (latency, disabled) = match (read("latency"), read("disable")) {
                (Ok(latency), Ok(disabled)) => (latency.parse::<u32>().unwrap_or(u32::MAX), disabled != "0"),
                (Err(unread), _) | (_, Err(unread)) => return Verdict::unknown(unread, wanted),
            };
            if !disabled && latency > LONGEST_EXIT_US {
                longest = longest.max(Some(latency));
            }
        }
        let Some(longest) = longest else { continue };
        let knob = format!("{CPU}/cpu{cpu}/power/pm_qos_resume_latency_us");
        // Documentation/ABI/testing/sysfs-devices-power: 0 is no limit, "n/a" no latency at all.
        match survey.tree.read(&knob) {
            Ok(limit) if limit == "n/a" => continue,
            Ok(limit) if limit.parse().is_ok_and(|limit: u32| (1..=LONGEST_EXIT_US).contains(&limit)) => {
                continue;
            }
            Ok(_) => changes.push(Change::file(knob, LONGEST_EXIT_US.to_string())),
            Err(unread) => return Verdict::unknown(unread, wanted),
        }
        deep.push(format!("CPU {cpu}: {longest} µs"));
    }
    if !any {
        return if survey.tree.has(CPU) {
            Verdict::not_applicable("no idle states to choose from (a guest, or a kernel without cpuidle)")
        } else {
            Verdict::unknown(format!("reading {CPU}: no such folder"), wanted)
        };
    }
    let found = if deep.is_empty() { "none".into() } else { some_of(&deep) };
    Verdict::judge(deep.is_empty(), found, wanted).with(changes)
}

fn frequency(survey: &Survey) -> Verdict {
    let wanted = "governor performance";
    let mut others = Vec::new();
    let mut changes = Vec::new();
    let mut any = false;
    let mut without = CpuList::default();
    for cpu in survey.targets().iter() {
        let path = format!("{CPU}/cpu{cpu}/cpufreq/scaling_governor");
        match survey.tree.read(&path) {
            Ok(governor) => {
                any = true;
                if governor != "performance" {
                    others.push(format!("CPU {cpu}: {governor}"));
                    changes.push(Change::file(path, "performance"));
                }
            }
            Err(unread) if unread.is_absent() && survey.tree.has(&format!("{CPU}/cpu{cpu}")) => {
                without = without.or(&CpuList::from_iter([cpu]));
            }
            Err(unread) => return Verdict::unknown(unread, wanted),
        }
    }
    if !any {
        return Verdict::not_applicable(
            "the kernel does not set frequencies here (firmware, a guest, or no driver)",
        );
    }
    if !without.is_empty() {
        return Verdict::unknown(format!("CPUs {without} have no governor, unlike others"), wanted);
    }
    let found = if others.is_empty() { "performance".into() } else { some_of(&others) };
    Verdict::judge(others.is_empty(), found, wanted).with(changes)
}
