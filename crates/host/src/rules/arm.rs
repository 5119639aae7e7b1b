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
    match kvm_mode(&log) {
        Some(words) => Verdict::information(words),
        None => Verdict::unknown("the kernel's log does not say how KVM was started", "information"),
    }
}

/// What the kernel's log says of KVM's mode, as arch/arm64/kvm/arm.c prints it: "VHE", "Hyp" (older kernels), "Hyp nVHE",
/// "Hyp hVHE", "Protected nVHE" and the like.
fn kvm_mode(log: &str) -> Option<&'static str> {
    let said =
        log.lines().find_map(|line| line.split_once(" mode initialized successfully")?.0.split_once("]: "));
    // Nested virtualization is named behind the mode.
    match said?.1.split('+').next()? {
        "VHE" => Some("VHE: the host kernel runs at EL2"),
        "Hyp" | "Hyp nVHE" => Some("nVHE: the host kernel runs at EL1"),
        "Hyp hVHE" => Some("hVHE: the host kernel runs at EL1, KVM's part at EL2 with VHE"),
        protected if protected.starts_with("Protected") => {
            Some("protected nVHE: the host kernel runs at EL1 and cannot read guests' memory")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kernels_of_all_ages_print_is_understood() {
        for (said, mode) in [
            ("6,212,1002,-;kvm [1]: VHE mode initialized successfully", "VHE: "),
            ("kvm [1]: VHE+NV2 mode initialized successfully", "VHE: "),
            ("kvm [1]: Hyp mode initialized successfully", "nVHE: "),
            ("kvm [1]: IPA Size Limit: 48 bits\nkvm [1]: Hyp nVHE mode initialized successfully", "nVHE: "),
            ("kvm [1]: Hyp hVHE mode initialized successfully", "hVHE: "),
            ("kvm [1]: Protected nVHE mode initialized successfully", "protected nVHE: "),
        ] {
            assert!(kvm_mode(said).is_some_and(|words| words.starts_with(mode)), "{said}");
        }
        for said in ["", "kvm [1]: HYP mode not available", "kvm [1]: new mode initialized successfully"] {
            assert_eq!(kvm_mode(said), None);
        }
    }
}
