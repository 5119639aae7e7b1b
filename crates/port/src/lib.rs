//! Ports: where frames come from and go to.
//!
//! A *port* is one plug of a switch. Whoever is at its other end is called the *guest*, also where that is
//! a kernel or a file: a [`Source`] holds frames *from the guest*, a [`Sink`] takes frames *to the guest*.
//! A port has queue pairs, counted from 0; each pair is a source and a sink.
//!
//! | module | the guest is | source | sink |
//! |---|---|---|---|
//! | [`vhost_user`] | a driver: a VM's, DPDK's | device half of its transmitq | device half of its receiveq |
//! | [`virtio_user`] | a device: OVS's, another switch's | driver half of its receiveq | driver half of its transmitq |
//! | [`tap`] | the kernel's network stack | `read` | `writev` from where the sender put it |
//! | [`pcap`] | a capture | replays one | records one |
//! | [`in_memory`] | another port of this process | | |
//!
//! [`spec::PortSpec`] makes any of them from a text such as `vhost-user:/tmp/guest.sock,queue-pairs=2`.
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
//! What was checked is what is delivered, whatever the sender writes meanwhile. A sink knows what its
//! receiver can take, so it is the sink that finishes a checksum or cuts a frame into segments, in the
//! course of its copy; whoever forwards knows nothing of offloads. What a sink has no room for it drops and
//! counts ([`DropReason`]): nobody waits for a slow receiver.
//!
//! # Control and data
//!
//! A [`Port`] is the control side: it watches its sockets by way of the [`Plugboard`] that whoever runs it
//! lends it with each call, is called ([`Port::ready`]) when the peer has said something, and plugs queues
//! in and out as they start and stop. [`Source`] and [`Sink`] are the data side: each belongs to one worker
//! at a time, so neither holds a lock. To change a running queue, its port unplugs it, changes it, and plugs
//! it in again. A queue that finds its ring malformed or its system call refused stops by itself: the error
//! of [`Source::lend`] or [`Sink::accept`] comes back to the port as [`Port::stopped`].
//!
//! # Sleeping
//!
//! Whoever polls sources and finds nothing for long asks each to wake it ([`Source::sleep`], which looks
//! once more), waits for their [`Source::wake_fd`], and goes on polling after [`Source::wake`].
#![deny(unsafe_code)]

mod cache_policy;
mod counters;
mod deliver;
pub mod device;
mod driver;
mod event_fd;
mod frame;
pub mod in_memory;
mod lending;
mod one_frame;
mod own;
pub mod pcap;
mod plug;
mod queue;
mod rate;
mod socket_path;
pub mod spec;
pub mod tap;
#[cfg(feature = "testing")]
pub mod testing;
pub mod vhost_user;
pub mod virtio_user;

pub use cache_policy::{CachePolicy, UnknownCachePolicy};
pub use counters::{Counts, DropReason, QueueCounters};
pub use frame::{ETHERNET_HEADER_BYTES, Frame, HEAD_BYTES, Head, LARGEST_FRAME_BYTES};
pub use lending::Lending;
pub use own::{OwnLender, OwnMemory};
pub use plug::{Interest, Plugboard, Port, PortError, Side, Token};
pub use queue::{QueueError, Sink, Source};
