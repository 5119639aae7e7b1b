//! A crypto device (VIRTIO 1.3 §5.9) behind vhost-user: sessions with their keys, requests from bytes to bytes, and the
//! rings that they come by. The front-end has the control queue, and passes sessions on as messages.
//!
//! A request is copied out of the driver's memory once, checked and worked on in memory of this process, and its
//! result is copied back: what the driver changes meanwhile changes nothing.
//!
//! # Where to change what
//!
//! - To add an algorithm: `algorithm.rs`, which makes a key of a session's set-up; `execute.rs` if it has lengths that
//!   no other has.
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
