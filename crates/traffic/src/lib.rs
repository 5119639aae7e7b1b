//! Generator and receiver, trials, and the throughput searches as pure functions.
#![forbid(unsafe_code)]

pub mod bound;
pub mod distance;
pub mod frames;
pub mod path;
pub mod recorder;
pub mod results;
pub mod rig;
pub mod search;
pub mod siblings;
pub mod trial;
