//! Para-virtualized scheduling: a guest says when an important task runs or is due, and the host raises the priority
//! of its vCPU thread for that time.
//!
//! For the host a vCPU is one thread, whatever it runs: a task with a deadline and a background job look alike. The
//! guest writes [`Hints`] into memory that it shares with the host. A [`Daemon`] reads them, and sets the vCPU's
//! thread to SCHED_FIFO while they ask for it. Neither kernel needs a patch. A guest's hints are followed only within
//! its [`Budget`](settings::Settings): raised time is limited for each thread, and for all threads of one CPU.
//!
//! # Where to change what
//!
//! - To change the limits on hints, or what hints can say: `settings.rs`, `claim.rs`, `hints.rs`;
//!   `crates/tautline/src/vm_command/pv_sched.rs`.
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
