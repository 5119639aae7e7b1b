//! Generator and receiver, trials, and the throughput searches as pure functions.
//!
//! So far the searches stand: [`search`].
#![forbid(unsafe_code)]

pub mod search;
