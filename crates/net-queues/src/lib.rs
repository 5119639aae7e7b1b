//! The queues of a network device as sources and sinks, independent of a port.
//!
//! | module | what it is |
//! |---|---|
//! | [`device`] | the device halves of a guest's queues: a transmitq is a source, a receiveq is a sink |
//! | [`driver`] | the driver halves, over memory of this process: a receiveq is a source, a transmitq is a sink |
//! | [`deliver`] | the form of a frame for one receiver, and the one copy into the receiver's buffers |
//! | [`cache_policy`] | the kind of stores that copy, and the lines that are demoted |
//!
//! # Where to change what
//!
//! - To change how frames are completed for a receiver that lacks an offload: `deliver/mod.rs`.
//! - To change the use of caches: `cache_policy/` has the stores of copies, the demotion of lines and the tuning of
//!   both; the instructions are in `crates/memory/src/non_temporal.rs` and `lines.rs`.
//! - To change what a queue pops, completes and notifies in one burst: `device/`, `driver/`.
#![deny(unsafe_code)]

pub mod cache_policy;
pub mod deliver;
pub mod device;
pub mod driver;
#[cfg(feature = "testing")]
pub mod testing;
