//! Experiments: what is measured, where, how often, and which trials count.
//!
//! An experiment starts the same agent in each environment ([`Launcher`]), asks it for trials in turns, and returns a
//! document of results. It prints nothing but progress: `tautline` parses the command line and shows the results.
//!
//! # Where to change what
//!
//! - To change what `host verify` measures, or how it judges: `host_verify/`. There `sampler.rs` takes a sample,
//!   and `effects.rs` compares states.
//! - To change which trials count: `runner/`: `verdict.rs` is the rule, `cores.rs` watches SMT siblings.
#![forbid(unsafe_code)]

pub mod asking;
#[cfg(feature = "chains")]
pub mod chains;
pub mod compare;
pub mod host_verify;
mod launcher;
mod origin;
mod planned;
pub mod runner;
mod stopped;
pub mod traced;
pub mod tracing;
pub mod tti;

pub use launcher::Launcher;
pub use origin::{Origin, now};
pub use planned::{EnvironmentsError, PlannedEnvironment};
pub use stopped::Stopped;
