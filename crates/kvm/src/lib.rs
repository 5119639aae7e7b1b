//! Costs of exits, and how often a guest causes them: a micro-VMM with a tiny guest of its own, without QEMU and
//! kernel image.
//!
//! [`costs::measure`] times the costs of a virtual machine on this host: exits, interrupts, wake-ups, faults on fresh
//! memory. `micro_vm` is the virtual machine for these measurements on x86-64; `costs/arm` is a
//! smaller one for arm64, with some of the rows. [`trace`] counts and times the exits of a running guest. [`events`] is a
//! trace of everything on a packet's path, [`path`] finds the packet's steps, and [`worst`] explains the longest
//! latency. [`interrupts`] finds which interrupts of a guest the host's software delivered.
//! [`runs_unmodified_guests`] finds in seconds whether a guest would boot.
//!
//! # Where to change what
//!
//! - To add a unit cost of KVM: `costs/catalogue.rs` and a program in `micro_vm/guest.s`.
//! - To add an event to traces of paths: `events/` (record it, give it a type).
//! - To change how a packet's steps are found or named: `path/walk.rs` and `follow.rs`. The published steps, and why
//!   ours differ, are in `known.rs`.
//! - To add a cause of long latencies: `cause.rs` and `state.rs` in `worst/`, with a constructed trace in
//!   `tests/planted.rs`. The cause is produced on a real guest in `crates/tautline/tests/nested/kvm_worst.rs` and
//!   `kvm_worst_causes.rs`.
//! - To change what is recorded about a latency, on either side: `events/selection.rs`; the host's side:
//!   `crates/lab/src/traced/worst/follow.rs`; the guest's side: `worst/recorder.rs`, which `inside.rs` queries.
//! - To change how the path of a guest's interrupts is determined: `interrupts/judge.rs`.

pub mod costs;
mod doorbell;
pub mod events;
mod failed;
pub mod interrupts;
mod known_guest;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "huge pages are for x86-64"))]
mod memory;
#[cfg(target_arch = "x86_64")]
mod micro_vm;
pub mod path;
pub mod trace;
mod trial;
pub mod worst;

pub use known_guest::KnownGuest;
pub use trial::runs_unmodified_guests;

/// Whether the CPU is emulated by QEMU. Its figures show that a path works, never how fast it is.
pub fn is_emulated() -> bool {
    #[cfg(target_arch = "x86_64")]
    return micro_vm::tsc::is_emulated();
    #[cfg(not(target_arch = "x86_64"))]
    return has_emulated_arm(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default());
}

/// Whether `/proc/cpuinfo` names the implementer 0, which Arm reserves for software (MIDR_EL1): QEMU's CPU `max`.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn has_emulated_arm(cpuinfo: &str) -> bool {
    let implementer = cpuinfo.lines().find_map(|line| line.strip_prefix("CPU implementer")?.split_once(": "));
    implementer.is_some_and(|(_, code)| code.trim() == "0x00")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_implementer_of_an_emulated_arm_cpu_is_software() {
        let cpu = |code| format!("processor\t: 0\nCPU implementer\t: {code}\nCPU part\t: 0x051\n");
        assert!(super::has_emulated_arm(&cpu("0x00")));
        assert!(!super::has_emulated_arm(&cpu("0x41")) && !super::has_emulated_arm(""));
    }
}
