//! The number of steps that published work counts for the same kind of path, and why ours differs.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Traffic;
use super::step::{Arrow, Mode};
use super::summary::Summary;

/// The kind of the guest's device, as its path shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Device {
    /// QEMU emulates the device.
    Qemu,
    /// The kernel or another process implements the device, with irqfd and ioeventfd.
    InKernel,
    /// A device of the host, assigned to the guest.
    Direct,
}

impl Device {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Qemu => "everything in QEMU",
            Self::InKernel => "in-kernel interrupt controller, vhost, irqfd and ioeventfd",
            Self::Direct => "direct assignment",
        }
    }

    /// The kind of device, derived from the places on the path.
    pub fn of(summary: Option<&Summary>, has_vfio: bool) -> Option<Self> {
        let Some(summary) = summary else { return has_vfio.then_some(Self::Direct) };
        let is_on = |found: &dyn Fn(&str) -> bool| {
            summary.steps.iter().any(|step| found(&step.from.who) || found(&step.to.who))
        };
        // A virtual CPU's own thread in user space is QEMU too.
        let in_user = |who: &str| {
            who.starts_with("vCPU")
                && summary.steps.iter().any(|step| step.to.who == who && step.to.mode == Mode::User)
        };
        Some(if is_on(&|who| who.contains("vfio")) {
            Self::Direct
        } else if is_on(&|who| who == "QEMU") || is_on(&in_user) {
            Self::Qemu
        } else {
            Self::InKernel
        })
    }
}

/// The software context switches of one packet, from "Native against KVM", QorIQ T4240, 2014.
pub fn published(traffic: Traffic, device: Device) -> Option<usize> {
    match (traffic, device) {
        (Traffic::NetRx, Device::Qemu) => Some(14),
        (Traffic::NetRx, Device::InKernel | Device::Direct) => Some(6),
        (Traffic::NetTx, Device::Qemu) => Some(5),
        (Traffic::NetTx, Device::InKernel) => Some(2),
        (Traffic::NetTx, Device::Direct) => Some(0),
        _ => None,
    }
}

/// Steps that the published path does not have, and why ours has them.
pub fn differences(summary: &Summary) -> Vec<String> {
    let mut found = Vec::new();
    let mut say = |count: usize, steps: &str, why: &str| {
        if count > 0 {
            found.push(format!("{count} × {steps}: {why}"));
        }
    };
    let steps = &summary.steps;
    let count = |is: &dyn Fn(&super::Arrows) -> bool| steps.iter().filter(|step| is(step)).count();
    say(
        count(&|step| step.arrow == Arrow::Exit && step.what.contains("end of interrupt")),
        "exit for end of interrupt",
        "the interrupt controller is emulated for each of them (no AVIC or APICv); the published CPU's ends it without an exit, or counts it otherwise",
    );
    say(
        count(&|step| step.arrow == Arrow::WakeUp && step.to.who.starts_with("vCPU")),
        "wake-up of a virtual CPU",
        "the guest was idle (halted) when the packet came; a busy guest has an exit by interrupt instead",
    );
    say(
        count(&|step| step.arrow == Arrow::WakeUp && step.to.who == "vhost"),
        "wake-up of the vhost worker",
        "the packet met an idle worker; under load the worker polls and packets share a wake-up",
    );
    say(
        count(&|step| step.arrow == Arrow::WakeUp && step.to.who == "QEMU"),
        "wake-up of QEMU",
        "QEMU's loop slept; an ioeventfd or a TAP wakes it, so the virtual CPU does not wait for it",
    );
    let callers = callers(steps);
    for (who, (calls, names)) in &callers {
        let is_qemu = *who == "QEMU" || who.starts_with("vCPU");
        say(
            *calls,
            &format!("entry to or return from a system call of {who}"),
            &format!(
                "{} asks, reads and signals by calls of their own ({}){}",
                if is_qemu { "QEMU" } else { "the process that is the device" },
                names.iter().copied().collect::<Vec<_>>().join(", "),
                if is_qemu { "" } else { "; while it polls it makes none" }
            ),
        );
    }
    say(
        count(&|step| {
            let who = step.to.who.as_str();
            step.arrow == Arrow::WakeUp
                && who != "QEMU"
                && !who.starts_with("vCPU")
                && callers.contains_key(who)
        }),
        "wake-up of the process that is the device",
        "it slept until an eventfd or a TAP woke it; under load it polls",
    );
    say(
        count(&|step| step.arrow == Arrow::Device),
        "time of a device of the host",
        "the host's own device has the request, and says by an interrupt that it is done",
    );
    say(
        count(&|step| {
            step.arrow == Arrow::Exit && (step.what.contains("MMIO") || step.what.contains("port"))
        }),
        "exit for a device's register",
        "the guest's driver reads or writes the device (status, kick, interrupt cause)",
    );
    say(
        count(&|step| step.arrow == Arrow::Preemption),
        "preemption",
        "another thread had the CPU: there are fewer CPUs than threads that want to run",
    );
    found
}

/// Whose system calls are steps, how many of them, and which; without `ioctl`, by which virtual CPUs run.
fn callers(steps: &[super::Arrows]) -> BTreeMap<&str, (usize, BTreeSet<&str>)> {
    let mut callers: BTreeMap<&str, (usize, BTreeSet<&str>)> = BTreeMap::new();
    for step in steps.iter().filter(|step| step.what != "ioctl") {
        let who = match step.arrow {
            Arrow::SystemCall => &step.from.who,
            Arrow::Return => &step.to.who,
            _ => continue,
        };
        let (count, names) = callers.entry(who).or_default();
        *count += 1;
        names.insert(&step.what);
    }
    callers
}

#[cfg(test)]
mod tests {
    use super::super::{Arrows, Place};
    use super::*;

    fn call(who: &str, arrow: Arrow, what: &str) -> Arrows {
        let place = |mode| Place { who: who.into(), mode, cpu: 0 };
        let (from, to) = match arrow {
            Arrow::SystemCall => (Mode::User, Mode::Kernel),
            _ => (Mode::Kernel, Mode::User),
        };
        Arrows { from: place(from), to: place(to), arrow, what: what.into(), median_ns: 1, max_ns: 1 }
    }

    #[test]
    fn a_back_end_is_not_called_qemu() {
        let steps = vec![
            call("tautline", Arrow::WakeUp, ""),
            call("tautline", Arrow::Return, "epoll_wait"),
            call("tautline", Arrow::SystemCall, "read"),
            call("vCPU 0", Arrow::Return, "ioctl"),
        ];
        let summary = Summary {
            packets: 1,
            alike: 1,
            began: None,
            steps,
            median_ns: 1,
            max_ns: 1,
            context_switches: 1,
            variants: vec![],
        };
        let found = differences(&summary);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|line| !line.contains("QEMU")), "{found:?}");
        assert!(
            found[0].starts_with("2 × ")
                && found[0].contains("of tautline: ")
                && found[0].contains("(epoll_wait, read)")
        );
        assert!(found[1].contains("wake-up of the process that is the device"), "{found:?}");
    }
}
