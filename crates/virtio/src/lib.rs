//! Feature bits, ring layouts, and the formats of the network and the crypto device: values and pure functions,
//! without I/O and shared memory.
//!
//! # Where to change what
//!
//! - To add an offload: `net/` (its meaning, which peers accept it, how a frame is completed without it), then
//!   `GsoOutput` in `crates/net-queues/src/deliver/`. It is offered by `net/offer.rs` of `port`, requested by
//!   `virtio_user/options.rs`, and set by `tap/offloads.rs`.
//! - To add a code or a field of the crypto device: `crypto/`.
#![deny(unsafe_code)]

pub mod crypto;
mod features;
pub mod net;
mod ring;

pub use features::Features;
pub use net::NetFeatures;
pub use ring::{PackedPosition, QueueSize, QueueSizeError, RingLayout};
