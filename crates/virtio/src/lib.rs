//! Feature bits, what both ends of a ring agree on, and the formats of the network and the crypto device: values and pure functions, no I/O, no shared memory.
//!
//! # Where to change what
//!
//! - To add an offload: `net/` (what it means, who accepts it, how a frame is finished without it), then
//!   `GsoOutput` in `crates/net-queues/src/deliver/`; offered by `vhost_user/net/offer.rs`, asked for by
//!   `virtio_user/options.rs`, set by `tap/offloads.rs`.
//! - To add a code or a field of the crypto device: `crypto/`.
#![deny(unsafe_code)]

pub mod crypto;
mod features;
pub mod net;
mod ring;

pub use features::{Features, NetFeatures};
pub use ring::{PackedPosition, QueueSize, QueueSizeError, RingLayout};
