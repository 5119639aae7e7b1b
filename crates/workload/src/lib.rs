//! CPU, memory, operating-system and wake-up work that runs unchanged in every environment: the agent.
//!
//! [`catalogue()`] lists what can be measured; [`agent::serve`] measures it, one request at a time, wherever
//! the binary was started; [`protocol`] is what the two ends say to each other.
//!
//! # Where to change what
//!
//! - To add a metric: `catalogue.rs` and a file in the folder of its group.
//! - To add a flow to the group `net`: `network/works.rs`; what it cost: `crates/lab/src/compare/network/`, shown
//!   by `crates/report/src/network/`.
#![deny(unsafe_code)]

pub mod agent;
mod arithmetic;
mod batch;
pub mod catalogue;
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
