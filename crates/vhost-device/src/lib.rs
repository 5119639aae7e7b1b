//! Devices behind vhost-user sockets and behind VDUSE: this crate implements everything that does not depend on the kind of device.
//!
//! A *device* ([`Device`]) states its features and the purpose of its rings, and makes and serves a ring's queue. A
//! [`Backend`] puts the device behind a socket. It listens or connects repeatedly, and handles the protocol. It maps
//! the front-end's memory within limits, and starts, moves and stops rings. It logs written pages for a migration
//! (VHOST_LOG_ALL) and chains in flight for a crash, and hands the device over to another process.
//!
//! # A new device
//!
//! 1. A type for the purpose of a ring ([`Device::Kind`]); `()` if there is one ring.
//! 2. A queue with two traits. With [`RingQueue`] the engine moves it to other memory, enables it, and sets its
//!    eventfds. [`ParkedQueue`] is for the type that owns it while no thread of the program does ([`Device::Queue`]).
//!    [`BurstQueue`] implements both for a device that the control thread serves.
//! 3. [`Device`] for a type that is cloned for each connection.
//!
//! `tests/echo.rs` is a complete example, with one queue that the control thread serves.
//!
//! # A program that runs it
//!
//! One thread calls the back-end with a [`Context`], which watches descriptors and timers for it. [`PlainContext`] is
//! a context for a program with few devices:
//!
//! ```no_run
//! # use std::{sync::Arc, time::Duration};
//! # use vhost_device::{Backend, BackendOptions, Context, Device, Log, PlainContext};
//! fn run<D>(device: D) -> Result<(), Box<dyn std::error::Error>>
//! where
//!     D: for<'a> Device<Context<'a> = dyn Context + 'a>,
//! {
//!     let log = Arc::new(Log::new("a device"));
//!     let mut backend = Backend::new(device, log, BackendOptions::new("/run/device.sock"))?;
//!     let mut context = PlainContext::new(|line| eprintln!("{line}"));
//!     backend.start(&mut context)?;
//!     loop {
//!         for token in context.wait(Duration::from_secs(1))? {
//!             backend.ready(token, &mut context)?;
//!         }
//!     }
//! }
//! ```
//!
//! A queue that needs more time than the control thread has is given to a thread of the program ([`Device::attach`],
//! [`Device::detach`], [`Device::change`]). The device then has a context of its own, a trait above [`Context`]. The
//! crate `port` does that for the network device of a switch.
//!
//! # Where to change what
//!
//! ```text
//!   backend        listens or connects, waits, pauses; backend/hand_over: from one process to another
//!   link           listens, or connects again and again
//!   peer           one connection: messages in, replies out
//!   device         what a device is, beside the protocol
//!   offer          what is offered to front-ends: the engine's share
//!   engine         what the messages set up: features, memory, logs; events: what each message does
//!   rings          which rings run, and which of their queues are attached
//!   ring           one ring: from addresses and position to a queue, and back
//!   shared_memory  what the front-end shares, within the device's limits
//!   log, rate      what a front-end may have logged
//!   named_socket   a socket as the commands of devices name it
//!   event_fd       kicks and calls, which never wait for their other holders
//!   descriptors    which descriptors of a peer are taken (kind.rs), and where they are closed
//!   vduse          the same devices for the kernel of this machine
//!   turn           how long a device may keep the control thread
//! ```
#![deny(unsafe_code)]

mod backend;
mod burst_queue;
mod context;
pub mod descriptors;
mod device;
mod engine;
mod error;
mod event_fd;
mod events;
mod link;
mod log;
mod named_socket;
mod offer;
mod peer;
mod plain_context;
pub mod rate;
mod ring;
mod rings;
mod shared;
mod shared_memory;
mod state;
mod stopped_at;
#[cfg(feature = "testing")]
pub mod testing;
mod tokens;
mod turn;
pub mod unix_socket;
pub mod vduse;
mod watches;

pub use ::vhost_user::SharedFd;
pub use backend::{Backend, BackendOptions, new_memory, pause_after, watch_memory};
pub use burst_queue::BurstQueue;
pub use context::{Context, Interest, Token};
pub use device::{Device, DeviceMessage, Notifiers, ParkedQueue, RingQueue, RingSet, not_offered};
pub use error::DeviceError;
pub use event_fd::{EventFd, NotAnEventFd};
pub use link::Role;
pub use log::Log;
pub use named_socket::NamedSocket;
pub use plain_context::PlainContext;
pub use shared_memory::{DEFAULT_LIMIT_BYTES, SharedMemory, lost as memory_lost};
pub use state::HandOverState;
pub use stopped_at::StoppedAt;
pub use tokens::FREE_TOKENS;
pub use turn::{TURN, Turn};
pub use watches::Watches;
