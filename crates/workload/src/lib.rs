//! The agent: CPU, memory, operating-system and wake-up work that runs unchanged in every environment.
//!
//! [`catalogue()`] lists the metrics; [`agent::serve`] measures them, one request at a time, in the environment where
//! the binary was started; [`protocol`] defines the messages between the two ends.
//!
//! # Where to change what
//!
//! - To add a metric: `catalogue.rs` and a file in the folder of its group.
//! - To add a flow to the group `net`: `network/works.rs`; its cost: `crates/lab/src/compare/network/`, shown by
//!   `crates/report/src/network/`.
#![deny(unsafe_code)]

pub mod agent;
mod arithmetic;
mod batch;
pub mod catalogue;
#[cfg(feature = "chains")]
pub mod chain;
mod child_process;
mod clock;
mod cpu;
mod external;
mod facts;
mod load;
mod memory;
pub mod network;
#[allow(unsafe_code)]
mod opaque;
mod os;
mod pin;
pub mod protocol;
#[allow(unsafe_code)]
mod sys;
pub mod ticks;
mod trial;
mod wakeup;
mod work;

pub use catalogue::{BudgetKind, Entry, Profile, catalogue};
