//! The queues of a network device as sources and sinks, without a port around them.
//!
//! | module | what it is |
//! |---|---|
//! | [`device`] | the device halves of a guest's queues: a transmitq is a source, a receiveq is a sink |
//! | [`driver`] | the driver halves, over memory of our own: a receiveq is a source, a transmitq is a sink |
//! | [`deliver`] | what a frame becomes for one receiver, and the one copy into the receiver's buffers |
//! | [`cache_policy`] | which stores copy, and which lines are demoted |
//!
//! # Where to change what
//!
//! - To change what becomes of a frame whose receiver lacks an offload: `deliver/mod.rs`.
//! - To change what is done to caches: `cache_policy/`: stores of copies, lines demoted, how both are tuned; the
//!   instructions in `crates/memory/src/non_temporal.rs` and `lines.rs`.
//! - To change what a queue pops, completes and notifies in one burst: `device/`, `driver/`.
#![deny(unsafe_code)]

pub mod cache_policy;
pub mod deliver;
pub mod device;
pub mod driver;
#[cfg(feature = "testing")]
pub mod testing;
