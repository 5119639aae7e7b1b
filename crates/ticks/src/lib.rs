//! Ticks: numbered interrupts at absolute times, from the host to a receiver.
//!
//! A [`source`] sends an interrupt at every due instant. In a [`Page`] that it shares with the receiver it writes the
//! tick's number, when the tick was due, and when it was sent. The [`receiver`] waits for the interrupt, or polls the
//! page, and notes the time at which it runs. Interrupts can merge, so ticks are counted by their numbers. The
//! [`doorbell`] between them is QEMU's `ivshmem-doorbell`. A guest has it as a PCI device; a process on the host or
//! in a container uses the same protocol.
//!
//! # Where to change what
//!
//! - To add a stage to a tick's path: `stages/`: `point.rs` names it, `merge.rs` finds it, `tests.rs` adds a known
//!   delay to it; its event in `crates/kvm/src/events/selection.rs`.
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
