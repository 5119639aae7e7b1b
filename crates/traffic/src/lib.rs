//! Generator and receiver, trials, and the throughput searches as pure functions.
//!
//! # Where to change what
//!
//! - To add a throughput search: a module in `search/`, with a `Strategy` for `drive.rs` and tests against simulated
//!   devices.
//! - To change what `tautline rfc2544` measures at each size: `rfc2544/measure.rs`.
#![forbid(unsafe_code)]

pub mod cache_transfer;
pub mod core_to_core;
pub mod endpoint;
pub mod frames;
pub mod path;
pub mod recorder;
pub mod results;
pub mod rfc2544;
pub mod rig;
pub mod search;
pub mod trial;
