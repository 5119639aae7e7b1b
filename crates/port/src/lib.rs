//! Kinds of port, from which frames come and to which frames go.
//!
//! A *port* attaches a switch to a peer. The peer is called the *guest*, even if it is a kernel or a file: a
//! [`Source`](frame::Source) has frames *from the guest*, a [`Sink`](frame::Sink) takes frames *to the guest*. A port
//! has queue pairs, counted from 0; each pair is a source and a sink. The crate [`frame`] describes how frames go
//! from one port to another.
//!
//! | module | kind of guest | source | sink |
//! |---|---|---|---|
//! | [`vhost_user`] | a driver: a VM's, DPDK's | device half of its transmitq | device half of its receiveq |
//! | [`virtio_user`] | a device: OVS's, another switch's | driver half of its receiveq | driver half of its transmitq |
//! | [`vduse`] | the kernel's driver: a network interface without a TAP | device half of its transmitq | device half of its receiveq |
//! | [`tap`] | the kernel's network stack | `read` | `writev` from the sender's memory |
//! | [`af_xdp`] | a network card, or a veth | frames in memory that the kernel filled | a copy into memory that the kernel sends from |
//! | [`pcap`] | a capture | replays one | records one |
//! | [`in_memory`] | another port of this process | | |
//! | [`patch`] | another port of the same switch | the queue from it | the queue to it |
//!
//! [`spec::PortSpec`] makes a port of any kind from a text such as `vhost-user:/tmp/guest.sock,queue-pairs=2`.
//!
//! # Control and data
//!
//! A [`Port`] is the control side. It watches its sockets through the [`PortContext`] that comes with each
//! call. It is called ([`Port::ready`]) when the peer has sent something, and attaches and detaches queues as they
//! start and stop. [`Source`](frame::Source) and [`Sink`](frame::Sink) are the data side: each belongs to one worker
//! at a time, so neither holds a lock. To change a running queue, its port detaches it, changes it, and attaches it
//! again. A queue that finds its ring malformed or its system call refused stops by itself: the error of
//! [`Source::rx_burst`](frame::Source::rx_burst) or [`Sink::accept`](frame::Sink::accept) comes back to the port as
//! [`Port::stopped`].
//!
//! # Where to change what
//!
//! - To serve another device over vhost-user: a `Device` of the crate `vhost-device`; nothing in this crate changes.
//! - To change the features that vhost-user front-ends are offered: `net/offer.rs`, which gives a reason
//!   for each feature.
//! - To add a kind of port here: a module with a `Port`, its sources and sinks; an arm in `spec/kinds.rs`;
//!   `--help` in `crates/tautline/src/cli.rs`; the tables of `docs/plug-in-a-guest.md`. To add a kind of port in
//!   another crate: a [`spec::Kind`], which `daemon::Service` is given.
//! - To change how frames leave and enter rings, the copy, or what is done to caches: the crate `net-queues`.
//! - To change how long a port may use the control thread: `crates/vhost-device/src/turn.rs`; how long it rests then:
//!   `crates/switch/src/resting.rs`.
#![deny(unsafe_code)]

pub mod af_xdp;
pub mod in_memory;
mod net;
pub mod patch;
pub mod pcap;
mod port;
pub mod spec;
pub mod tap;
#[cfg(feature = "testing")]
pub mod testing;
pub mod vduse;
pub mod vhost_user;
pub mod virtio_user;

pub use ::vhost_user::SharedFd;
pub use net::options::NetOptions;
pub use net_queues::cache_policy::{CachePolicy, UnknownCachePolicy};
pub use port::{Port, PortContext, Queue, SinkChange};
pub use vhost_device::{
    Context, DeviceError as PortError, HandOverState as PortState, Interest, TURN, Token, Watches,
};
