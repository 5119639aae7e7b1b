//! Options of KVM's modules, and interrupts that reach the guest without an exit.

use super::rule::*;
use crate::survey::Processor;
use crate::survey::Survey;
use crate::tree::Unread;

pub const RULES: &[Rule] = &[
    Rule {
        id: "kvmclock-sync",
        title: "No periodic kvmclock update",
        why: "every 5 minutes all vCPUs are kicked out to update their clocks",
        source: "tuned realtime-virtual-host",
        risk: "guests' clocks follow a corrected host clock less closely",
        takes: Takes::ModuleReload,
        profiles: HOST,
        look: |survey| option(survey, "kvm", "kvmclock_periodic_sync", "N", "0"),
    },
    Rule {
        id: "pause-loop-exits",
        title: "No exits for spinning vCPUs",
        why: "a vCPU that spins on a lock exits after a few thousand cycles, although no other vCPU waits for the CPU",
        source: "tuned realtime-virtual-host (ple_gap=0)",
        risk: "bad where vCPUs are overcommitted: a spinning vCPU then keeps the lock's holder off",
        takes: Takes::ModuleReload,
        profiles: HOST,
        look: |survey| match survey.processor {
            Processor::Intel => option(survey, "kvm_intel", "ple_gap", "0", "0"),
            Processor::Amd => option(survey, "kvm_amd", "pause_filter_count", "0", "0"),
            _ => Verdict::not_applicable("not an x86"),
        },
    },
    Rule {
        id: "timer-advance",
        title: "Timer interrupts injected ahead",
        why: "the guest's timer is armed early by what the entry costs, so that it fires when it should",
        source: "kernel, arch/x86/kvm/lapic.c",
        risk: "the vCPU spins for the rest of the time: a little more CPU",
        takes: Takes::ModuleReload,
        profiles: HOST,
        look: timer_advance,
    },
    Rule {
        id: "posted-timers",
        title: "Timers without exits",
        why: "a housekeeping CPU runs the guest's timer and posts its interrupt: no exit",
        source: "kernel, arch/x86/kvm/lapic.c (pi_inject_timer)",
        risk: "needs nohz_full, APICv and a housekeeping CPU that has time",
        takes: Takes::RunTime,
        profiles: HOST,
        look: posted_timers,
    },
    Rule {
        id: "halt-polling",
        title: "Polling before a vCPU sleeps",
        why: "a vCPU that has just halted is woken quicker while the host still polls",
        source: "SEAPATH; contested",
        risk: "0 gives the CPU back at once, more burns it: measure both (tautline host verify)",
        takes: Takes::RunTime,
        profiles: HOSTS,
        look: halt_polling,
    },
    Rule {
        id: "posted-interrupts",
        title: "Interrupts without exits",
        why: "the processor delivers a device's interrupt into the running guest; the host sees nothing",
        source: "kernel, arch/x86/kvm; Intel VT-d section 5.2.5",
        risk: "nested guests and some old guests cannot use it",
        takes: Takes::ModuleReload,
        profiles: HOST,
        look: posted_interrupts,
    },
    Rule {
        id: "nx-huge-pages",
        title: "Huge pages that may be executed",
        why: "the iTLB multihit mitigation splits huge pages that a guest executes from",
        source: "tuned realtime-virtual-host",
        risk: "security (CVE-2018-12207): advice only, never applied",
        takes: Takes::Nothing,
        profiles: HOST,
        look: nx_huge_pages,
    },
];

/// A module's parameter that is set when it is loaded.
fn option(survey: &Survey, module: &str, name: &str, wanted: &str, value: &str) -> Verdict {
    let path = format!("/sys/module/{module}/parameters/{name}");
    match survey.tree.read(&path) {
        Ok(found) => Verdict::judge(found == wanted, &found, format!("{module} {name}={wanted}"))
            .with([Change::module(module, format!("{name}={value}"))]),
        Err(unread) => {
            let folder = format!("/sys/module/{module}");
            if unread.is_absent() && survey.tree.has(&folder) {
                Verdict::not_applicable(format!("this {module} has no {name}"))
            } else if unread.is_absent() && survey.tree.has("/sys/module") {
                // The module may be loaded later, with any option.
                Verdict::unknown(format!("{module} is not loaded; load it and audit again"), wanted)
            } else {
                Verdict::unknown(unread, wanted)
            }
        }
    }
}

/// A parameter of a module; none where there is no such parameter or module.
fn parameter(survey: &Survey, module: &str, name: &str) -> Result<Option<String>, Unread> {
    match survey.tree.read(&format!("/sys/module/{module}/parameters/{name}")) {
        Err(unread) if unread.is_absent() => Ok(None),
        read => read.map(Some),
    }
}

fn is_on(value: &str) -> bool {
    matches!(value, "Y" | "1")
}

fn not_loaded(wanted: &str) -> Verdict {
    Verdict::unknown("KVM is not loaded, or /sys/module cannot be read; load it and audit again", wanted)
}

fn timer_advance(survey: &Survey) -> Verdict {
    let wanted = "on (-1: found by KVM itself)";
    if !survey.is_x86() {
        return Verdict::not_applicable("not an x86");
    }
    let switch = parameter(survey, "kvm", "lapic_timer_advance");
    match (switch, parameter(survey, "kvm", "lapic_timer_advance_ns")) {
        (Ok(Some(found)), _) => Verdict::judge(is_on(&found), found, wanted)
            .with([Change::module("kvm", "lapic_timer_advance=1")]),
        (Ok(None), Ok(Some(found))) => Verdict::judge(found != "0", found, wanted)
            .with([Change::module("kvm", "lapic_timer_advance_ns=-1")]),
        (Ok(None), Ok(None)) => no_parameter(survey, wanted),
        (Err(unread), _) | (_, Err(unread)) => Verdict::unknown(unread, wanted),
    }
}

fn posted_timers(survey: &Survey) -> Verdict {
    let wanted = "Y";
    if !survey.is_x86() {
        return Verdict::not_applicable("not an x86");
    }
    match parameter(survey, "kvm", "pi_inject_timer") {
        Ok(Some(found)) => {
            let verdict = Verdict::judge(is_on(&found), found, wanted)
                .with([Change::file("/sys/module/kvm/parameters/pi_inject_timer", "1")]);
            if survey.housekeeping().len() < 2 {
                verdict.hazard("one housekeeping CPU would run all guests' timers")
            } else {
                verdict
            }
        }
        Ok(None) => no_parameter(survey, wanted),
        Err(unread) => Verdict::unknown(unread, wanted),
    }
}

fn halt_polling(survey: &Survey) -> Verdict {
    match parameter(survey, "kvm", "halt_poll_ns") {
        Ok(Some(found)) => Verdict::information(format!("{found} ns at most")),
        Ok(None) => no_parameter(survey, "any; measured"),
        Err(unread) => Verdict::unknown(unread, "any; measured"),
    }
}

fn no_parameter(survey: &Survey, wanted: &str) -> Verdict {
    if survey.tree.has("/sys/module/kvm") {
        Verdict::not_applicable("this KVM has no such parameter")
    } else {
        not_loaded(wanted)
    }
}

fn posted_interrupts(survey: &Survey) -> Verdict {
    let (module, flag, also) = match survey.processor {
        Processor::Intel => ("kvm_intel", "enable_apicv", Some("enable_ipiv")),
        Processor::Amd => ("kvm_amd", "avic", None),
        _ => return Verdict::not_applicable("not an x86; see gicv4 for Arm"),
    };
    let wanted = format!("{module} {flag}=Y, and an IOMMU that posts");
    let found = match parameter(survey, module, flag) {
        Ok(Some(found)) => found,
        Ok(None) => return not_loaded(&wanted),
        Err(unread) => return Verdict::unknown(unread, wanted),
    };
    let ipi = match also.map_or(Ok(None), |name| parameter(survey, module, name)) {
        Ok(value) => value.map_or(String::new(), |value| format!(", IPI virtualization {value}")),
        Err(unread) => return Verdict::unknown(unread, wanted),
    };
    let iommu = iommu_posts(survey);
    let words = match iommu {
        Some(true) => "the IOMMU posts",
        Some(false) => "the IOMMU does not post",
        None => "the IOMMU does not say",
    };
    let found_text =
        format!("{flag} {found}{ipi}; {words}. Whether a device uses it only counted exits prove");
    if !is_on(&found) {
        return Verdict::fail(found_text, wanted).with([Change::module(module, format!("{flag}=1"))]);
    }
    match iommu {
        Some(true) => Verdict::pass(found_text, wanted),
        Some(false) => Verdict::fail(found_text, wanted).with([Change::by_hand(
            "switch the IOMMU's interrupt posting on in the firmware, if it can do it",
        )]),
        None => Verdict::unknown(found_text, wanted),
    }
}

/// Intel VT-d, capability register, bit 59; AMD's is in the extended features, GASup, bit 7 of `features`, which since
/// Linux 5.12 stands behind a colon.
fn iommu_posts(survey: &Survey) -> Option<bool> {
    const FOLDER: &str = "/sys/class/iommu";
    let bit = |path: String, bit: u32| {
        let text = survey.tree.read(&path).ok()?;
        let register = text.rsplit(':').next()?.trim().trim_start_matches("0x");
        u64::from_str_radix(register, 16).ok().map(|value| value >> bit & 1 == 1)
    };
    // A unit without this setting leaves the question open.
    let of = |unit: &String| {
        bit(format!("{FOLDER}/{unit}/intel-iommu/cap"), 59)
            .or_else(|| bit(format!("{FOLDER}/{unit}/amd-iommu/features"), 7))
    };
    let answers: Option<Vec<bool>> = survey.tree.names(FOLDER).iter().map(of).collect();
    answers.filter(|answers| !answers.is_empty()).map(|answers| answers.iter().all(|posts| *posts))
}

fn nx_huge_pages(survey: &Survey) -> Verdict {
    match parameter(survey, "kvm", "nx_huge_pages") {
        Ok(Some(found)) => {
            Verdict::information(format!("{found}; the vulnerability is the processor's: see lscpu"))
        }
        Ok(None) => no_parameter(survey, "information"),
        Err(unread) => Verdict::unknown(unread, "information"),
    }
}
