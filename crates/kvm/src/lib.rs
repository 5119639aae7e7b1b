//! What exits cost, and how often a guest makes them: a micro-VMM with a tiny guest of its own, no QEMU and no kernel image.
//!
//! [`costs::measure`] times what a virtual machine pays on this very machine: exits, interrupts, wake-ups, faults on
//! fresh memory. `micro_vm` is the virtual machine that it does this with. x86-64 only; elsewhere [`costs::measure`]
//! says so. [`trace`] counts and times the exits of a running guest;
//! [`interrupts`] tells which of its interrupts the host's software delivered.

pub mod costs;
pub mod interrupts;
#[cfg(target_arch = "x86_64")]
mod micro_vm;
#[cfg(target_arch = "x86_64")]
mod port_writes;
pub mod trace;

#[cfg(target_arch = "x86_64")]
pub use port_writes::PortWrites;
