//! Unit costs of a virtual machine on this machine, as distributions.

pub mod alignment;
#[cfg(target_arch = "aarch64")]
mod arm;
#[cfg(target_arch = "x86_64")]
mod bench;
pub mod catalogue;
#[cfg(target_arch = "x86_64")]
mod exits;
#[cfg(target_arch = "x86_64")]
mod faults;
#[cfg(target_arch = "x86_64")]
mod interrupts;
pub mod results;
#[cfg(target_arch = "x86_64")]
mod run;
mod settings;
mod turns;

#[cfg(target_arch = "aarch64")]
pub(crate) use arm::KnownMachine;
#[cfg(target_arch = "aarch64")]
pub use arm::measure;
pub use catalogue::{ROWS, Row};
pub use results::{Cost, Costs, SCHEMA};
#[cfg(target_arch = "x86_64")]
pub use run::measure;
pub use settings::{MOST_SAMPLES, Prepared, Settings};

/// Settings of the kernel's KVM that affect the rows, as far as they exist.
pub fn kvm_settings() -> Vec<(String, String)> {
    const NAMES: &[&str] = &[
        "kvm/halt_poll_ns",
        "kvm/tdp_mmu",
        "kvm/enable_vmware_backdoor",
        "kvm_amd/avic",
        "kvm_amd/npt",
        "kvm_amd/vgif",
        "kvm_intel/enable_apicv",
        "kvm_intel/ept",
        "kvm_intel/pml",
        "kvm_intel/ple_gap",
        "kvm_intel/unrestricted_guest",
    ];
    let read = |name: &&str| {
        let (module, parameter) = name.split_once('/')?;
        let value = std::fs::read_to_string(format!("/sys/module/{module}/parameters/{parameter}")).ok()?;
        Some((name.replace('/', "."), value.trim().to_owned()))
    };
    NAMES.iter().filter_map(read).collect()
}
