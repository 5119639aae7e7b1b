//! What exits cost: a micro-VMM with a tiny guest of its own, no QEMU and no kernel image.
//!
//! [`costs::measure`] times what a virtual machine pays on this very machine: exits, interrupts, wake-ups, faults on
//! fresh memory. `micro_vm` is the virtual machine that it does this with. x86-64 only; elsewhere [`costs::measure`]
//! says so.

pub mod costs;
#[cfg(target_arch = "x86_64")]
mod micro_vm;
