//! Work that the kernel does in the background on every CPU.

use super::rule::*;
use crate::survey::Survey;

pub const RULES: &[Rule] = &[
    Rule {
        id: "rt-throttling",
        title: "No throttling of real-time tasks",
        why: "by default a real-time task loses its CPU for 50 ms of every second",
        source: "tuned realtime-virtual-host",
        risk: "a runaway SCHED_FIFO task hangs its CPU for good",
        takes: Takes::RunTime,
        profiles: REAL_TIME,
        look: throttling,
    },
    Rule {
        id: "timer-migration",
        title: "Timers stay, or move",
        why: "static partitions want timers to stay where they were armed, dynamic pods want them moved off",
        source: "tuned realtime (0); OpenShift node tuning operator (1): they disagree, so --timer-migration says",
        risk: "with 1, timers of isolated CPUs are handled elsewhere, later; with 0, idle CPUs wake for their own",
        takes: Takes::RunTime,
        profiles: REAL_TIME,
        look: |survey| {
            let wanted = survey.wishes.timer_migration.to_string();
            sysctl(survey, "kernel/timer_migration", &wanted, "this kernel does not move timers")
        },
    },
    Rule {
        id: "nmi-watchdog",
        title: "No NMI watchdog",
        why: "its performance counter interrupts every CPU every few seconds",
        source: "tuned realtime, latency-performance",
        risk: "hard lockups are no longer noticed",
        takes: Takes::RunTime,
        profiles: QUICK_ALL,
        look: |survey| sysctl(survey, "kernel/nmi_watchdog", "0", "this kernel has no NMI watchdog"),
    },
    Rule {
        id: "soft-lockup",
        title: "No soft-lockup watchdog",
        why: "its thread wakes on every CPU every few seconds",
        source: "tuned realtime (nosoftlockup)",
        risk: "a CPU that hangs in the kernel is no longer reported",
        takes: Takes::RunTime,
        profiles: REAL_TIME,
        look: |survey| sysctl(survey, "kernel/soft_watchdog", "0", "this kernel has no soft-lockup watchdog"),
    },
    Rule {
        id: "vm-statistics",
        title: "Memory statistics gathered rarely",
        why: "each gathering runs a work item on every CPU, by default every second",
        source: "tuned realtime, network-latency",
        risk: "figures of vmstat lag by up to 10 s",
        takes: Takes::RunTime,
        profiles: QUICK_ALL,
        look: vm_statistics,
    },
    Rule {
        id: "tick-skew",
        title: "Ticks of CPUs apart",
        why: "ticks at the same instant contend for the same locks",
        source: "tuned realtime",
        risk: "slightly more power",
        takes: Takes::Reboot,
        profiles: REAL_TIME,
        look: tick_skew,
    },
    Rule {
        id: "corrected-errors",
        title: "No polling for corrected errors",
        why: "a timer polls the machine-check banks of every CPU",
        source: "tuned realtime (mce=ignore_ce)",
        risk: "corrected memory errors are no longer logged: failing modules go unnoticed",
        takes: Takes::RunTime,
        profiles: HOST,
        look: corrected_errors,
    },
];

const SYSCTL: &str = "/proc/sys";

fn sysctl(survey: &Survey, name: &str, wanted: &str, absent: &str) -> Verdict {
    one_value(survey, &format!("{SYSCTL}/{name}"), wanted, &format!("{SYSCTL}/kernel"), absent)
}

fn throttling(survey: &Survey) -> Verdict {
    let verdict =
        sysctl(survey, "kernel/sched_rt_runtime_us", "-1", "this kernel does not throttle real-time tasks");
    // With a spare CPU an administrator can still get in and end the task.
    if survey.isolated.is_empty() || survey.housekeeping().len() < 2 {
        return verdict.hazard("no CPU to spare: a runaway real-time task could hang the host");
    }
    verdict
}

fn vm_statistics(survey: &Survey) -> Verdict {
    const PATH: &str = "/proc/sys/vm/stat_interval";
    const WANTED_S: u32 = 10;
    match survey.tree.read(PATH) {
        Ok(text) => {
            let rare = text.parse::<u32>().is_ok_and(|seconds| seconds >= WANTED_S);
            Verdict::judge(rare, format!("{text} s"), format!("{WANTED_S} s or more"))
                .with([Change::file(PATH, WANTED_S.to_string())])
        }
        Err(unread) => absence(survey, &unread, "10 s or more", "/proc/sys/vm", "this kernel gathers none"),
    }
}

fn tick_skew(survey: &Survey) -> Verdict {
    let wanted = "skew_tick=1";
    let Some(line) = &survey.command_line else {
        return Verdict::unknown("/proc/cmdline could not be read", wanted);
    };
    let found = line.value("skew_tick");
    Verdict::judge(
        found == Some("1"),
        found.map_or("not set".into(), |value| format!("skew_tick={value}")),
        wanted,
    )
    .with([Change::boot(wanted)])
}

fn corrected_errors(survey: &Survey) -> Verdict {
    const FOLDER: &str = "/sys/devices/system/machinecheck";
    let wanted = "ignore_ce 1 on every CPU";
    if !survey.is_x86() {
        return Verdict::not_applicable("not an x86");
    }
    let banks: Vec<String> = survey
        .tree
        .names(FOLDER)
        .into_iter()
        .filter(|name| name.starts_with("machinecheck"))
        .map(|name| format!("{FOLDER}/{name}/ignore_ce"))
        .collect();
    if banks.is_empty() {
        return if survey.tree.has("/sys/devices/system") {
            Verdict::not_applicable("the kernel polls no machine-check banks here")
        } else {
            Verdict::unknown(format!("reading {FOLDER}: no such folder"), wanted)
        };
    }
    let mut polled = Vec::new();
    for path in &banks {
        match survey.tree.read(path) {
            Ok(text) if text == "1" => {}
            Ok(_) => polled.push(path),
            Err(unread) => return Verdict::unknown(unread, wanted),
        }
    }
    let found = format!("polled on {} of {} CPUs", polled.len(), banks.len());
    Verdict::judge(polled.is_empty(), found, wanted)
        .with(polled.into_iter().map(|path| Change::file(path, "1")))
}
