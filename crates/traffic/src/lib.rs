//! Generator and receiver, trials, and the throughput searches as pure functions.
#![forbid(unsafe_code)]

pub mod bound;
pub mod frames;
pub mod rig;
pub mod search;
pub mod trial;
