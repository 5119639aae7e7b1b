//! Ports: where frames come from and go to.
//!
//! # A frame's way
//!
//! ```text
//!   Source::lend        frames where the sender put them, as a Lending: the first 64 bytes of each are
//!      |                copied (the only look that decisions are made on), the rest stays
//!      v
//!   whoever forwards    decides by Frame::head
//!      |
//!      v
//!   Sink::accept        copies once, straight into the receiver's buffers, the 64 bytes included
//!      |
//!      v
//!   Source::release     the sender has its buffers back, all of the burst at once
//! ```
//!
//! What was checked is what is delivered, whatever the sender writes meanwhile.
//!
//! # Control and data
//!
//! A [`Port`] is the control side: it talks to its peer when [`Plugboard`] tells it that the peer has said
//! something, and plugs queues in and out as they start and stop. [`Source`] and [`Sink`] are the data
//! side: each belongs to one worker at a time, so neither holds a lock. To change a running queue, its
//! port unplugs it, changes it, and plugs it in again.
#![deny(unsafe_code)]

mod counters;
mod deliver;
pub mod device;
mod driver;
mod frame;
pub mod in_memory;
mod lending;
mod one_frame;
mod own;
pub mod pcap;
mod plug;
mod queue;
mod socket_path;
pub mod spec;
pub mod tap;
#[cfg(feature = "testing")]
pub mod testing;
pub mod vhost_user;
pub mod virtio_user;

pub use counters::{Counts, DropReason, QueueCounters};
pub use frame::{ETHERNET_HEADER_BYTES, Frame, HEAD_BYTES, Head, LARGEST_FRAME_BYTES};
pub use lending::Lending;
pub use plug::{Interest, Plugboard, Port, PortError, Side, Token};
pub use queue::{QueueError, Sink, Source};
