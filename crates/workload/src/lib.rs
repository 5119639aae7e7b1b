//! CPU, memory, operating-system and wake-up work that runs unchanged in every environment: the agent.
//!
//! [`catalogue()`] lists what can be measured; [`agent::serve`] measures it, one request at a time, wherever
//! the binary was started; [`protocol`] is what the two ends say to each other.
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
