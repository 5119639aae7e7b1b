//! Feature bits, what both ends of a ring agree on, and the network device's formats: values and pure functions, no I/O, no shared memory.
#![deny(unsafe_code)]

mod features;
pub mod net;
mod ring;

pub use features::Features;
pub use ring::{PackedPosition, QueueSize, QueueSizeError, RingLayout};
