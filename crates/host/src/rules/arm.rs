//! Rules for hosts with Arm processors.

use super::rule::*;
use crate::survey::Processor;
use crate::survey::Survey;

pub const RULES: &[Rule] = &[
    Rule {
        id: "gicv4",
        title: "Interrupts without exits (GICv4)",
        why: "the interrupt controller delivers a device's messages into the running guest",
        source: "kernel, arch/arm64/kvm/vgic",
        risk: "needs a GICv4 and firmware that describes it; resets of the device's messages cost more",
        takes: Takes::Reboot,
        profiles: HOST,
        look: gicv4,
    },
    Rule {
        id: "vhe",
        title: "The host runs at EL2 (VHE)",
        why: "without it, each exit saves and loads the whole host context",
        source: "kernel, arch/arm64/kvm",
        risk: "a property of the processor and of how firmware starts the kernel",
        takes: Takes::Nothing,
        profiles: HOST,
        look: vhe,
    },
];

fn gicv4(survey: &Survey) -> Verdict {
    if survey.processor != Processor::Arm {
        return Verdict::not_applicable("not an Arm");
    }
    let wanted = "\"GICv4 support enabled\" in the kernel's log";
    let log = match survey.tree.kernel_log() {
        Ok(log) => log,
        Err(unread) => return Verdict::unknown(unread, wanted),
    };
    let said = |words: &str| log.lines().any(|line| line.contains("GICv4") && line.contains(words));
    if said("support enabled") {
        Verdict::pass("support enabled", wanted)
    } else if said("support disabled") {
        Verdict::fail("support disabled", wanted).with([Change::boot("kvm-arm.vgic_v4_enable=1")])
    } else {
        Verdict::unknown(
            "the kernel's log says nothing of GICv4: no such controller, or overwritten since",
            wanted,
        )
    }
}

fn vhe(survey: &Survey) -> Verdict {
    if survey.processor != Processor::Arm {
        return Verdict::not_applicable("not an Arm");
    }
    let log = match survey.tree.kernel_log() {
        Ok(log) => log,
        Err(unread) => return Verdict::unknown(unread, "information"),
    };
    if log.contains("VHE mode initialized successfully") {
        Verdict::information("VHE: the host kernel runs at EL2")
    } else if log.contains("Hyp mode initialized successfully") {
        Verdict::information("nVHE: the host kernel runs at EL1")
    } else {
        Verdict::unknown("the kernel's log does not say how KVM was started", "information")
    }
}
