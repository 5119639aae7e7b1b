//! The driver half of a crypto device (VIRTIO 1.3 §5.9) and its front-end, in one process. It is for tests, and for
//! measuring any device behind a vhost-user socket.
//!
//! # Where to change what
//!
//! - To change the messages to the device at the start: `connect.rs`; the addresses of rings and buffers:
//!   `memory.rs`.
//! - To change how requests are submitted and awaited: `driver.rs`.
//! - To make another kind of request: `request.rs`.
//! - To measure another algorithm: the list in `bench/algorithms.rs`; another figure: `bench/mod.rs`.
#![forbid(unsafe_code)]

pub mod bench;
mod connect;
mod driver;
mod error;
mod memory;
pub mod request;

pub use connect::Options;
pub use driver::{Completed, Driver};
pub use error::DriverError;
