//! Para-virtualized scheduling: a guest says when a task that matters runs or is due, and the host raises its vCPU
//! thread for that long.
//!
//! To the host a vCPU is one thread, whatever runs in it: a task that must be served in time and a background job look
//! alike. The guest writes [`Hints`] into memory that it shares with the host; a [`Daemon`] reads them, and gives the
//! vCPU's thread SCHED_FIFO while they say so. No kernel is patched. What a guest writes is believed as far as its
//! [`Budget`](settings::Settings) goes and no further: raised time is limited for each thread, and for all of one CPU.
//!
//! # Where to change what
//!
//! - To change how far a guest is believed that says when its task is due, or what it can say: `settings.rs`,
//!   `claim.rs`, `hints.rs`; `crates/tautline/src/vm_command/pv_sched.rs`.
#![forbid(unsafe_code)]

mod budget;
mod claim;
mod daemon;
mod hints;
mod page;
mod settings;
pub mod task;
mod vcpu;

pub use claim::Claim;
pub use daemon::{Daemon, Raised, Vcpu};
pub use hints::{BYTES as HINTS_BYTES, Hint, Hints, SLOTS};
pub use page::{BYTES as PAGE_BYTES, Page};
pub use settings::Settings;

#[cfg(test)]
mod tests;
