//! A crypto device (VIRTIO 1.3 §5.9) behind vhost-user: sessions with their keys, the execution of requests, and the
//! rings that requests come from. The front-end serves the control queue, and passes sessions on as messages.
//!
//! A request is copied out of the driver's memory once, and checked and executed in memory of this process. Then its
//! result is copied back. What the driver changes in its memory meanwhile has no effect.
//!
//! # Where to change what
//!
//! - To add an algorithm: `algorithm.rs`, which makes a key from a session's set-up, and `execute.rs` if the
//!   algorithm has lengths that no other has.
//! - To change how rings are served, or what is offered: `device.rs`; several devices on one thread: `service.rs`.
//! - To change what a connection may hold: [`Limits`] in `sessions.rs`.
#![deny(unsafe_code)]

mod algorithm;
mod device;
mod execute;
mod library;
mod service;
mod sessions;

pub use algorithm::Rejected;
pub use device::CryptoDevice;
pub use execute::{Buffers, Executed, Executor};
pub use library::Library;
pub use service::{Port, run};
pub use sessions::{Limits, Sessions};
