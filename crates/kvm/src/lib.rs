//! What exits cost, and how often a guest makes them: a micro-VMM with a tiny guest of its own, no QEMU and no kernel image.
//!
//! [`costs::measure`] times what a virtual machine pays on this very machine: exits, interrupts, wake-ups, faults on
//! fresh memory. `micro_vm` is the virtual machine that it does this with. x86-64 only; elsewhere [`costs::measure`]
//! says so. [`trace`] counts and times the exits of a running guest; [`events`] is a trace of all that a packet
//! passes, [`path`] its steps, and [`worst`] what took the time of the longest latency. [`interrupts`] tells which
//! of its interrupts the host's software delivered. [`runs_unmodified_guests`] finds out in seconds what booting a guest
//! would find out in a minute.
//!
//! # Where to change what
//!
//! - To add a unit cost of KVM: `costs/catalogue.rs` and a program in `micro_vm/guest.s`.
//! - To add an event to traces of paths: `events/` (record it, give it a type).
//! - To change how a packet's steps are found, or named: `path/walk.rs` and `follow.rs`; `known.rs` says what is
//!   published and why ours differ.
//! - To add a cause of long latencies: `cause.rs` and `state.rs` in `worst/`, with a planted trace in `planted.rs`;
//!   planted for real in `crates/tautline/tests/nested/kvm_worst.rs` and `kvm_worst_causes.rs`.
//! - To change what is recorded of a latency, on either side: `events/selection.rs`; the host's watch:
//!   `crates/lab/src/traced/worst/follow.rs`; the guest's: `worst/recorder.rs`, asked by `inside.rs`.
//! - To change how it is proved that interrupts reach a guest: `interrupts/judge.rs`.

pub mod costs;
pub mod events;
pub mod interrupts;
#[cfg(target_arch = "x86_64")]
mod micro_vm;
pub mod path;
#[cfg(target_arch = "x86_64")]
mod port_writes;
pub mod trace;
mod trial;
pub mod worst;

#[cfg(target_arch = "x86_64")]
pub use port_writes::PortWrites;
pub use trial::runs_unmodified_guests;

/// Whether the CPU is QEMU's emulation: its figures show that a path works, never how fast it is.
pub fn is_emulated() -> bool {
    #[cfg(target_arch = "x86_64")]
    return micro_vm::tsc::is_emulated();
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}
