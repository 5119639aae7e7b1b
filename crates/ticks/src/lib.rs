//! Ticks: numbered interrupts at absolute times, from the host to whoever receives them.
//!
//! A [`source`] rings at every instant that is due, and writes into a [`Page`] that it shares with the receiver which
//! tick that was, when it was due and when it was sent. The [`receiver`] waits for the interrupt, or polls the page,
//! and takes the time at which it runs. Interrupts merge, so that ticks are counted by their numbers. The [`doorbell`]
//! between them is QEMU's `ivshmem-doorbell`: a guest has it as a PCI device, a process on the host or in a container
//! speaks the same protocol.
//!
//! # Where to change what
//!
//! - To add a stage to a tick's way: `stages/`: `point.rs` names it, `merge.rs` finds it, `tests.rs` plants a delay
//!   in it; its event in `crates/kvm/src/events/selection.rs`.
#![deny(unsafe_code)]

pub mod doorbell;
mod handlers;
mod page;
mod realign;
pub mod receiver;
pub mod source;
pub mod stages;

pub use handlers::Handlers;
pub use page::{BYTES as PAGE_BYTES, HINTS_AT, Page, Record, SLOTS as TICKS_KEPT, Tick};

#[cfg(test)]
mod tests;
