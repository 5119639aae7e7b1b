//! The rules: settings that a host should have, each with its reason, its source and the things that changing it may
//! break.
//!
//! Sources are the profiles of tuned (realtime, realtime-virtual-host, network-latency, latency-performance),
//! OpenShift's node tuning operator, the kernel's admin-guide, libvirt's kvm-realtime guide, and SEAPATH.

mod arm;
mod clocks;
mod interrupts;
mod isolation;
mod kvm;
mod memory;
mod noise;
mod placement;
mod power;
mod rule;
mod threads;

pub use rule::{Change, Rule, State, Takes, Verdict};

/// All rules, in the order in which their changes are made.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    [
        isolation::RULES,
        power::RULES,
        interrupts::RULES,
        threads::RULES,
        noise::RULES,
        memory::RULES,
        clocks::RULES,
        kvm::RULES,
        arm::RULES,
        placement::RULES,
    ]
    .into_iter()
    .flatten()
}

/// The rule with this name.
pub fn find(id: &str) -> Option<&'static Rule> {
    all().find(|rule| rule.id == id)
}
