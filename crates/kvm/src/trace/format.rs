//! The names of exit reasons, read from the kernel's own description of the tracepoint, which fits its version.

use std::collections::HashMap;
use std::path::Path;

use super::histogram::Row;

/// The virtualization extension that defines the reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    /// Intel's VMX.
    Vmx,
    /// AMD's SVM.
    Svm,
    /// Arm's virtualization extension: classes of exceptions (ESR_EL2.EC).
    Arm,
}

impl Extension {
    /// The extension of this machine, of which only one exists.
    pub fn of_host() -> Self {
        match () {
            () if cfg!(target_arch = "aarch64") => Self::Arm,
            () if Path::new("/sys/module/kvm_intel").exists() => Self::Vmx,
            () => Self::Svm,
        }
    }

    /// The number of an exit's reason, as an expression of histogram triggers. On Arm it is the exception's class plus
    /// twice the kernel's code of the exception (0: interrupt, 1: SError, 2: trap, 3: illegal state). The class is 0 if
    /// the code is no trap, and Arm has no class 2, so each pair has its own number.
    pub(super) fn number(self) -> &'static str {
        if self == Self::Arm { "esr_ec+ret+ret" } else { "exit_reason" }
    }

    /// The fields of the event by which exits are counted.
    pub(super) fn fields(self) -> &'static str {
        if self == Self::Arm { "ret,esr_ec" } else { "vcpu_id,exit_reason" }
    }

    /// The number of the reason of a row with these fields.
    pub(super) fn number_in(self, row: &Row) -> Option<u64> {
        match self {
            Self::Vmx | Self::Svm => row.get("exit_reason"),
            Self::Arm => Some(row.get("esr_ec")? + 2 * row.get("ret")?),
        }
    }
}

/// The kernel's code of a trap (`ARM_EXCEPTION_TRAP`).
const TRAP: u64 = 2;

/// Names of exit reasons by number.
#[derive(Debug)]
pub struct Reasons {
    pub(super) extension: Extension,
    names: HashMap<u64, String>,
}

impl Reasons {
    /// The names in a `format` file. `None` if the event lacks the extension's fields.
    pub fn parse(text: &str, extension: Extension) -> Option<Self> {
        let has = |field: &str| {
            text.lines().any(|line| line.contains("field:") && line.contains(&format!(" {field};")))
        };
        let needed: &[&str] = match extension {
            Extension::Vmx | Extension::Svm => &["exit_reason", "vcpu_id"],
            Extension::Arm => &["ret", "esr_ec"],
        };
        if !needed.iter().copied().all(has) {
            return None;
        }
        let print = text.split("print fmt:").nth(1).unwrap_or_default();
        // `(REC->isa == 1) ? __print_symbolic(…VMX…) : __print_symbolic(…SVM…)`, then flags of VMX.
        // A list ends at the end of its call; no name contains a brace.
        let list = |number: usize| {
            let list = print.split("__print_symbolic(").nth(number);
            pairs(list.unwrap_or_default().split("})").next().unwrap_or_default())
        };
        let names = match extension {
            Extension::Vmx => list(1).collect(),
            Extension::Svm => list(2).collect(),
            // The kernel's codes, then the classes of traps.
            Extension::Arm => {
                let codes = list(1).filter_map(|(code, name)| Some((code.checked_mul(2)?, name)));
                codes.chain(list(2).map(|(class, name)| (class + 2 * TRAP, name))).collect()
            }
        };
        Some(Self { extension, names })
    }

    /// The name of a reason, or its number if it has no name.
    pub fn name(&self, reason: u64) -> String {
        // VMX has flags above (Intel SDM volume 3, 25.9.1).
        let basic = if self.extension == Extension::Vmx { reason & 0xFFFF } else { reason };
        let class = if self.extension == Extension::Arm { basic.saturating_sub(2 * TRAP) } else { basic };
        self.names.get(&basic).cloned().unwrap_or_else(|| format!("{class:#x}"))
    }

    /// Whether the reason is a halt: the guest waits for the next event.
    pub fn is_halt(name: &str) -> bool {
        name.eq_ignore_ascii_case("hlt") || name == "WFx"
    }
}

/// The pairs of `{ 0x07b, "IO" }, …`.
fn pairs(list: &str) -> impl Iterator<Item = (u64, String)> + '_ {
    list.split('{').skip(1).filter_map(|pair| {
        let (number, rest) = pair.split_once(',')?;
        // Arm's are C expressions such as `(0x24UL)`.
        let number = number.trim().trim_matches(['(', ')']).trim_end_matches(['U', 'L']);
        let number = match number.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok()?,
            None => number.parse().ok()?,
        };
        Some((number, rest.split('"').nth(1)?.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::histogram::Histograms;

    /// Shortened from Linux 6.1.
    const FORMAT: &str = r#"name: kvm_exit
format:
	field:unsigned int exit_reason;	offset:8;	size:4;	signed:0;
	field:u32 isa;	offset:24;	size:4;	signed:0;
	field:unsigned int vcpu_id;	offset:56;	size:4;	signed:0;

print fmt: "vcpu %u reason %s%s%s rip 0x%lx", REC->vcpu_id, (REC->isa == 1) ? __print_symbolic(REC->exit_reason & 0xffff, { 0, "EXCEPTION_NMI" }, { 30, "IO_INSTRUCTION" }) : __print_symbolic(REC->exit_reason, { 0x000, "read_cr0" }, { 0x07b, "io" }), (REC->isa == 1 && REC->exit_reason & ~0xffff) ? " " : "", (REC->isa == 1) ? __print_flags(REC->exit_reason & ~0xffff, " ", { 0x80000000, "FAILED_VMENTRY" }) : "", REC->guest_rip
"#;

    #[test]
    fn names_are_those_of_the_instruction_set() {
        let of = |extension| Reasons::parse(FORMAT, extension).unwrap();
        let vmx = [30, 0x8000_001E, 0x7b].map(|number| of(Extension::Vmx).name(number));
        assert_eq!(vmx, ["IO_INSTRUCTION", "IO_INSTRUCTION", "0x7b"]);
        assert_eq!([0x7b, 30].map(|number| of(Extension::Svm).name(number)), ["io", "0x1e"]);
    }

    #[test]
    fn arm_has_classes_of_exceptions() {
        let format = "field:unsigned int ret;\toffset:8;\nfield:unsigned int esr_ec;\toffset:12;\n\
            print fmt: \"%s: HSR_EC: 0x%04x (%s), PC: 0x%016lx\", __print_symbolic(REC->ret, { 0, \"IRQ\" }, \
            { 2, \"TRAP\" }, { 3, \"IL\" }), REC->esr_ec, __print_symbolic(REC->esr_ec, { (0x00), \"UNKNOWN\" }, { (0x01), \"WFx\" }, { (0x24UL), \"DABT_LOW\" }), REC->vcpu_pc";
        let reasons = Reasons::parse(format, Extension::Arm).unwrap();
        let rows = [(0, 0), (2, 0), (2, 1), (2, 0x24), (2, 0x3f), (3, 0)].map(|(code, class)| {
            let line = format!("{{ common_pid: 1, ret: {code}, esr_ec: {class} }} hitcount: 1");
            let rows = Histograms::parse(&line).rows;
            reasons.name(Extension::Arm.number_in(&rows[0]).unwrap())
        });
        assert_eq!(rows, ["IRQ", "UNKNOWN", "WFx", "DABT_LOW", "0x3f", "IL"]);
        assert!(Reasons::is_halt("WFx") && Reasons::parse(format, Extension::Svm).is_none());
    }

    #[test]
    fn an_event_with_other_fields_is_not_taken_for_one_of_x86() {
        assert!(Reasons::parse("field:unsigned int esr_ec; offset:8;", Extension::Svm).is_none());
        assert!(Reasons::parse("", Extension::Vmx).is_none());
    }
}
