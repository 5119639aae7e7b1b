//! Feature bits, what both ends of a ring agree on, and the network device's formats: values and pure functions, no I/O, no shared memory.
//!
//! # Where to change what
//!
//! - To add an offload: `net/` (what it means, who accepts it, how a frame is finished without it), then
//!   `GsoOutput` in `crates/port/src/deliver/`; offered by `vhost_user/net/offer.rs`, asked for by
//!   `virtio_user/options.rs`, set by `tap/offloads.rs`.
#![deny(unsafe_code)]

mod features;
pub mod net;
mod ring;

pub use features::Features;
pub use ring::{PackedPosition, QueueSize, QueueSizeError, RingLayout};
