//! The lines that are written into tracefs, in this order, so that the kernel sums by itself. They are undone in
//! reverse order.
//!
//! A vCPU's thread is in the guest from `kvm_entry` to `kvm_exit`, outside of it from `kvm_exit` to `kvm_entry`, and
//! in user space from `kvm_userspace_exit` to the next entry, or to a halt before that. A variable that another event
//! has read is unset, so that each interval counts once.

use std::path::{Path, PathBuf};

use super::format::Extension;

/// One line for one file of tracefs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The file. The line is appended; the file's content stays.
    pub file: PathBuf,
    /// The line.
    pub line: String,
    /// The line that undoes it.
    pub undo: String,
    /// Whether the times are complete without this step.
    pub optional: bool,
}

/// The names of the events that are defined for one trace.
#[derive(Clone, Debug)]
pub struct Events {
    /// The prefix of the names, and their group: unique for the process.
    prefix: String,
}

impl Events {
    /// The names for the tracing process `tracer`.
    pub fn of(tracer: u32) -> Self {
        Self { prefix: format!("tautline_{tracer}") }
    }

    /// The `hist` file of one of the intervals.
    pub fn interval(&self, instance: &Path, name: &str) -> PathBuf {
        instance.join(format!("events/synthetic/{}_{name}/hist", self.prefix))
    }

    /// The `hist` file of one of the probed functions.
    pub fn probe(&self, instance: &Path, name: &str) -> PathBuf {
        instance.join(format!("events/{}/{name}/hist", self.prefix))
    }

    /// All steps, for a tracing instance in `tracefs`. The fields of an exit's reason have four bytes.
    pub fn steps(&self, extension: Extension, tracefs: &Path, instance: &Path) -> Vec<Step> {
        let Self { prefix } = self;
        let dynamic = |line: String, event: String| Step {
            file: tracefs.join("dynamic_events"),
            line,
            undo: format!("-:{event}"),
            optional: false,
        };
        let synthetic = |name: &str, fields: &str| {
            let event = format!("{prefix}_{name}");
            dynamic(format!("s:{event} {fields}"), format!("synthetic/{event}"))
        };
        let trigger = |event: &str, line: String| Step {
            file: instance.join("events").join(event).join("trigger"),
            undo: format!("!{line}"),
            line,
            optional: false,
        };
        // Intervals cross CPUs: the clock must be the same on all.
        let times = |event: &str, what: &str| {
            trigger(event, format!("hist:keys=common_pid:{}:clock=mono", what.replace("OWN", prefix)))
        };
        let sums = |name: &str, keys: &str| {
            let line = format!("hist:keys={keys}:vals=ns:size=4096");
            trigger(&format!("synthetic/{prefix}_{name}"), line)
        };
        let exits = format!("hist:keys=common_pid,{}:size=16384", extension.fields());
        let number = extension.number();
        // Built into the kernel of an Arm host.
        let module = if extension == Extension::Arm { "" } else { "kvm:" };
        let mut steps = vec![
            synthetic("outside", "u32 reason; u64 ns"),
            synthetic("guest", "u64 ns"),
            synthetic("user", "u32 reason; u64 ns"),
            sums("outside", "common_pid,reason"),
            sums("guest", "common_pid"),
            sums("user", "common_pid,reason"),
            times("kvm/kvm_exit", &format!("left=common_timestamp,reason={number},cause={number}")),
            times("kvm/kvm_userspace_exit", "returned=common_timestamp"),
            times("kvm/kvm_entry", "entered=common_timestamp"),
            times(
                "kvm/kvm_exit",
                "inside=common_timestamp-$entered:onmatch(kvm.kvm_entry).OWN_guest($inside)",
            ),
            times(
                "kvm/kvm_entry",
                "away=common_timestamp-$left,why=$reason:onmatch(kvm.kvm_exit).OWN_outside($why,$away)",
            ),
            times(
                "kvm/kvm_entry",
                "user=common_timestamp-$returned,for=$cause:onmatch(kvm.kvm_userspace_exit).OWN_user($for,$user)",
            ),
            times(
                "kvm/kvm_vcpu_wakeup",
                "before=common_timestamp-$returned-ns,by=$cause:onmatch(kvm.kvm_userspace_exit).OWN_user($by,$before)",
            ),
            trigger("kvm/kvm_vcpu_wakeup", "hist:keys=common_pid:vals=ns".into()),
            trigger("kvm/kvm_exit", exits),
        ];
        let lengths = "hist:keys=common_pid,reason,ns.log2:size=16384";
        let optional = [
            trigger(&format!("synthetic/{prefix}_outside"), lengths.into()),
            dynamic(
                format!("r:{prefix}/ioeventfd {module}ioeventfd_write answer=$retval:s32"),
                format!("{prefix}/ioeventfd"),
            ),
            trigger(&format!("{prefix}/ioeventfd"), "hist:keys=common_pid if answer==0".into()),
            dynamic(format!("p:{prefix}/irqfd {module}irqfd_wakeup"), format!("{prefix}/irqfd")),
            trigger(&format!("{prefix}/irqfd"), "hist:keys=common_pid".into()),
            trigger("kvm/kvm_inj_virq", "hist:keys=common_pid".into()),
        ];
        steps.extend(optional.map(|step| Step { optional: true, ..step }));
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_can_be_undone_and_variables_come_before_their_readers() {
        let steps = Events::of(7).steps(Extension::Svm, Path::new("/t"), Path::new("/t/instances/i"));
        for (number, step) in steps.iter().enumerate() {
            assert!(step.undo.starts_with(['!', '-']), "{step:?}");
            // `$name` that no earlier line defines, nor the line itself; `$retval` is the probe's.
            for name in step.line.split('$').skip(1).map(|rest| rest.split(|c: char| !c.is_alphanumeric())) {
                let name = name.into_iter().next().unwrap();
                let defined = steps[..=number].iter().any(|s| s.line.contains(&format!("{name}=")));
                assert!(defined || name == "retval", "{name} in {}", step.line);
            }
        }
        assert!(steps.iter().all(|step| step.file.starts_with("/t")));
    }
}
