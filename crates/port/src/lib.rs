//! Ports: where frames come from and go to.
//!
//! A *port* is where a switch is attached to a peer. The peer is called the *guest*, also where it is a kernel
//! or a file: a [`Source`] has frames *from the guest*, a [`Sink`] takes frames *to the guest*. A port has queue
//! pairs, counted from 0; each pair is a source and a sink.
//!
//! | module | the guest is | source | sink |
//! |---|---|---|---|
//! | [`vhost_user`] | a driver: a VM's, DPDK's | device half of its transmitq | device half of its receiveq |
//! | [`virtio_user`] | a device: OVS's, another switch's | driver half of its receiveq | driver half of its transmitq |
//! | [`tap`] | the kernel's network stack | `read` | `writev` from where the sender put it |
//! | [`af_xdp`] | a network card, or a veth | frames where the kernel put them | into memory that it sends from |
//! | [`pcap`] | a capture | replays one | records one |
//! | [`in_memory`] | another port of this process | | |
//!
//! [`spec::PortSpec`] makes any of them from a text such as `vhost-user:/tmp/guest.sock,queue-pairs=2`.
//!
//! # Packet path
//!
//! ```text
//!   Source::rx_burst    a FrameBatch: frames where the sender put them, borrowed, with a snapshot of the first
//!      |                64 bytes of each, read once; all decisions are made on the snapshot
//!      v
//!   whoever forwards    decides by Frame::snapshot
//!      |
//!      v
//!   Sink::accept        copies once, straight into the receiver's buffers, the snapshot included
//!      |
//!      v
//!   Source::release     the sender has its buffers back, the whole batch at once
//! ```
//!
//! What was checked is what is delivered, whatever the sender writes meanwhile. A sink knows what its receiver
//! can take, so it is the sink that finishes a checksum or segments a frame, in the course of its copy;
//! whoever forwards knows nothing of offloads. What a sink has no room for it drops and counts
//! ([`DropReason`]): nobody waits for a slow receiver.
//!
//! # Control and data
//!
//! A [`Port`] is the control side. It watches its sockets through the [`PortContext`] that comes with each
//! call, is called ([`Port::ready`]) when the peer has sent something, and attaches and detaches queues as they
//! start and stop. [`Source`] and [`Sink`] are the data side: each belongs to one worker at a time, so neither
//! holds a lock. To change a running queue, its port detaches it, changes it, and attaches it again. A queue
//! that finds its ring malformed or its system call refused stops by itself: the error of [`Source::rx_burst`]
//! or [`Sink::accept`] comes back to the port as [`Port::stopped`].
//!
//! # Sleeping
//!
//! Whoever polls sources and finds nothing for long asks each to wake it ([`Source::sleep`], which checks once
//! more), waits for their [`Source::wake_fd`], and goes on polling after [`Source::wake`].
#![deny(unsafe_code)]

pub mod af_xdp;
mod cache_policy;
mod counters;
mod deliver;
pub mod deliveries;
mod descriptors;
pub mod device;
mod driver;
mod event_fd;
mod frame;
mod frame_batch;
pub mod in_memory;
mod one_frame;
mod own;
mod pair_counters;
pub mod pcap;
mod port;
mod port_state;
mod queue;
mod rate;
mod ring_state;
pub mod spec;
pub mod tap;
#[cfg(feature = "testing")]
pub mod testing;
mod turn;
mod unix_socket;
pub mod vhost_user;
pub mod virtio_user;
mod watches;

pub use ::vhost_user::SharedFd;
pub use cache_policy::{CachePolicy, UnknownCachePolicy};
pub use counters::{Counts, CutShort, DropReason, QueueCounters};
pub use frame::{ETHERNET_HEADER_BYTES, Frame, HeaderSnapshot, LARGEST_FRAME_BYTES, SNAPSHOT_BYTES};
pub use frame_batch::FrameBatch;
pub use own::{OwnMemory, OwnSgBuilder};
pub use pair_counters::PairCounters;
pub use port::{Interest, Port, PortContext, PortError, Queue, Side, SinkChange, Token};
pub use port_state::PortState;
pub use queue::{QueueError, Sink, Source};
pub use ring_state::RingState;
pub use turn::TURN;
pub use watches::Watches;
