//! The names of exit reasons, from the kernel's own description of the tracepoint: they are those of its version.

use std::collections::HashMap;
use std::path::Path;

/// Whose reasons they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    /// Intel's.
    Vmx,
    /// AMD's.
    Svm,
}

impl Extension {
    /// That of this machine: only one of the modules works.
    pub fn of_host() -> Self {
        if Path::new("/sys/module/kvm_intel").exists() { Self::Vmx } else { Self::Svm }
    }
}

/// Names by number.
#[derive(Debug)]
pub struct Reasons {
    extension: Extension,
    names: HashMap<u64, String>,
}

impl Reasons {
    /// The names in a `format` file. None where the event has other fields than on x86.
    pub fn parse(text: &str, extension: Extension) -> Option<Self> {
        let has = |field: &str| {
            text.lines().any(|line| line.contains("field:") && line.contains(&format!(" {field};")))
        };
        if !["exit_reason", "vcpu_id"].into_iter().all(has) {
            return None;
        }
        let print = text.split("print fmt:").nth(1).unwrap_or_default();
        // `(REC->isa == 1) ? __print_symbolic(…VMX…) : __print_symbolic(…SVM…)`, then flags of VMX.
        let list = print.split("__print_symbolic(").nth(match extension {
            Extension::Vmx => 1,
            Extension::Svm => 2,
        });
        // It ends where its call does; no name has a brace.
        let list = list.unwrap_or_default().split("})").next().unwrap_or_default();
        Some(Self { extension, names: pairs(list).collect() })
    }

    /// A name, or the number.
    pub fn name(&self, reason: u64) -> String {
        // VMX has flags above (Intel SDM volume 3, 25.9.1).
        let basic = if self.extension == Extension::Vmx { reason & 0xFFFF } else { reason };
        self.names.get(&basic).cloned().unwrap_or_else(|| format!("{basic:#x}"))
    }

    /// Whether the guest had nothing to do: the CPU is halted until something comes.
    pub fn is_halt(name: &str) -> bool {
        name.eq_ignore_ascii_case("hlt")
    }
}

/// The pairs of `{ 0x07b, "IO" }, …`.
fn pairs(list: &str) -> impl Iterator<Item = (u64, String)> + '_ {
    list.split('{').skip(1).filter_map(|pair| {
        let (number, rest) = pair.split_once(',')?;
        let number = number.trim();
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
    fn an_event_with_other_fields_is_not_taken_for_one_of_x86() {
        assert!(Reasons::parse("field:unsigned int esr_ec; offset:8;", Extension::Svm).is_none());
        assert!(Reasons::parse("", Extension::Vmx).is_none());
    }
}
