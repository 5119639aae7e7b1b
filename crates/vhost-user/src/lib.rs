#![forbid(unsafe_code)]
//! The vhost-user protocol, both ends.
//!
//! vhost-user connects a **front-end**, which owns a virtio driver's memory and rings (QEMU, or a process with a
//! virtio-user driver), and a **back-end**, which is the device (a switch). They exchange messages over a Unix
//! socket. Memory, eventfds and logs are passed as file descriptors. This crate handles the protocol only: it maps no
//! memory, accesses no ring, and handles no packets. It follows QEMU's `docs/interop/vhost-user.rst`, called "the
//! vhost-user text" here. Where implementations differ from the text it follows them, and a comment says so.
//!
//! # Three layers
//!
//! ```text
//!   socket       Connection, Listener      bytes + descriptors  <->  Message
//!      |                                   no protocol, never blocks without a deadline
//!   session      BackendSession            Message  ->  Event with a Ticket, or reply
//!      |         FrontendSession           Request  ->  Message;  Message  ->  Answer
//!      |                                   all state and all rules, no I/O
//!   codec        FrontendRequest, ...      Message  <->  typed request
//!                table                     one row for each message: form, descriptors, reply, gate
//! ```
//!
//! # A session's life, seen from the back-end
//!
//! ```text
//!   connected
//!      |  GET/SET_PROTOCOL_FEATURES, GET_QUEUE_NUM, SET_BACKEND_REQ_FD     Event::BackendChannelSet
//!      |  SET_OWNER                    (a back-end does without)
//!      |  SET_FEATURES                                                     Event::FeaturesSet
//!      |  SET_MEM_TABLE or ADD_MEM_REG                                     Event::MemoryTableSet, ...
//!      v
//!   +- each ring ---------------------------------------------------------------------------+
//!   |                SET_VRING_NUM, _BASE, _ADDR, _CALL, _ERR                               |
//!   |                              |                                                        |
//!   |            +-----------------v-----------------+                                      |
//!   |            | stopped: a set-up, nothing checked |<------ GET_VRING_BASE --------+     |
//!   |            +-----------------+-----------------+      Event::VringStopped       |     |
//!   |                              | SET_VRING_KICK or VRING_KICK: all is there       |     |
//!   |                              | and fits, or the message is refused              |     |
//!   |                              v   Event::VringStarted                            |     |
//!   |            +-------------------------------------------------+                  |     |
//!   |            | started: a VringConfig that does not change     |------------------+     |
//!   |            |   disabled <-- SET_VRING_ENABLE --> enabled     |                        |
//!   |            |   call, err, kick and log may be exchanged      |                        |
//!   |            +-------------------------------------------------+                        |
//!   +---------------------------------------------------------------------------------------+
//!      |  RESET_DEVICE: all rings stopped and disabled                     Event::Reset
//!      v
//!   closed: by the peer, or by the first violation that no reply can tell
//! ```
//!
//! Without VHOST_USER_F_PROTOCOL_FEATURES, SET_FEATURES enables all rings at once.
//!
//! # Using it
//!
//! ```no_run
//! use vhost_user::bits::ProtocolFeatures;
//! use virtio::Features;
//! use vhost_user::session::backend::{BackendSession, Event, Offer, Received};
//! use vhost_user::socket::Listener;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = Listener::bind("/run/tautline/port0.sock".as_ref())?;
//! let mut connection = listener.accept(None)?;
//! let offer = Offer::new(Features::VERSION_1, ProtocolFeatures::MQ | ProtocolFeatures::REPLY_ACK, 2)?;
//! let mut session = BackendSession::new(offer);
//! loop {
//!     let reply = match session.receive(connection.receive(None)?)? {
//!         Received::Nothing => None,
//!         Received::Reply(reply) => Some(reply),
//!         Received::Rejected(reply, violation) => {
//!             eprintln!("{violation}");
//!             Some(reply)
//!         }
//!         Received::Event(Event::MemoryTableSet { regions, done }) => {
//!             // Map the regions; say Err(Refusal::new("...")) if that fails.
//!             drop(regions);
//!             session.answer(done, Ok(()))?.reply
//!         }
//!         Received::Event(other) => act(&mut session, other)?,
//!     };
//!     if let Some(reply) = reply {
//!         connection.send(reply, None)?;
//!     }
//! }
//! # }
//! # fn act(
//! #     _: &mut BackendSession,
//! #     _: Event,
//! # ) -> Result<Option<vhost_user::codec::Message>, Box<dyn std::error::Error>> {
//! #     Err("one arm for each event".into())
//! # }
//! ```
//!
//! # What is handled
//!
//! [`codec::table`] is authoritative; a test checks this list against it.
//!
//! | front-end request | answered with | needs |
//! |---|---|---|
//! | GET_FEATURES | its payload |  |
//! | SET_FEATURES | 0 or an error, if requested |  |
//! | SET_OWNER | 0 or an error, if requested |  |
//! | RESET_OWNER | 0 or an error, if requested |  |
//! | SET_MEM_TABLE | 0 or an error, if requested |  |
//! | SET_LOG_BASE | its payload | LOG_SHMFD |
//! | SET_LOG_FD | 0 or an error, if requested |  |
//! | SET_VRING_NUM | 0 or an error, if requested |  |
//! | SET_VRING_ADDR | 0 or an error, if requested |  |
//! | SET_VRING_BASE | 0 or an error, if requested |  |
//! | GET_VRING_BASE | its payload |  |
//! | SET_VRING_KICK | 0 or an error, if requested |  |
//! | SET_VRING_CALL | 0 or an error, if requested |  |
//! | SET_VRING_ERR | 0 or an error, if requested |  |
//! | GET_PROTOCOL_FEATURES | its payload | PROTOCOL_FEATURES offered |
//! | SET_PROTOCOL_FEATURES | 0 or an error, if requested | PROTOCOL_FEATURES offered |
//! | GET_QUEUE_NUM | its payload | MQ offered |
//! | SET_VRING_ENABLE | 0 or an error, if requested | PROTOCOL_FEATURES offered |
//! | SEND_RARP | 0 or an error, if requested | RARP offered |
//! | NET_SET_MTU | 0 or an error, if requested | MTU offered |
//! | SET_BACKEND_REQ_FD | 0 or an error, if requested | BACKEND_REQ offered |
//! | IOTLB_MSG | 0 or an error | ACCESS_PLATFORM |
//! | SET_VRING_ENDIAN | | not offered: legacy devices of the other byte order only |
//! | GET_CONFIG | its payload | CONFIG |
//! | SET_CONFIG | 0 or an error, if requested | CONFIG |
//! | CREATE_CRYPTO_SESSION | its payload | CRYPTO_SESSION |
//! | CLOSE_CRYPTO_SESSION | 0 or an error, if requested | CRYPTO_SESSION |
//! | POSTCOPY_ADVISE | a descriptor | PAGEFAULT |
//! | POSTCOPY_LISTEN | 0 or an error, if requested | PAGEFAULT |
//! | POSTCOPY_END | 0 or an error | PAGEFAULT |
//! | GET_INFLIGHT_FD | its payload | INFLIGHT_SHMFD |
//! | SET_INFLIGHT_FD | 0 or an error, if requested | INFLIGHT_SHMFD |
//! | GPU_SET_SOCKET | | not offered: no GPU device over this protocol |
//! | RESET_DEVICE | 0 or an error, if requested | RESET_DEVICE |
//! | VRING_KICK | 0 or an error, if requested | INBAND_NOTIFICATIONS |
//! | GET_MAX_MEM_SLOTS | its payload | CONFIGURE_MEM_SLOTS |
//! | ADD_MEM_REG | 0 or an error, if requested | CONFIGURE_MEM_SLOTS |
//! | REM_MEM_REG | 0 or an error, if requested | CONFIGURE_MEM_SLOTS |
//! | SET_STATUS | 0 or an error, if requested | STATUS |
//! | GET_STATUS | its payload | STATUS |
//! | GET_SHARED_OBJECT | | not offered: dma-buf sharing is for GPU and video devices |
//! | SET_DEVICE_STATE_FD | its payload | DEVICE_STATE |
//! | CHECK_DEVICE_STATE | 0 or an error | DEVICE_STATE |
//! | GET_SHMEM_CONFIG | | not offered: no device of Tautline has VIRTIO shared memory regions |
//!
//! | back-end request | answered with | needs |
//! |---|---|---|
//! | BACKEND_IOTLB_MSG | 0 or an error, if requested | ACCESS_PLATFORM |
//! | BACKEND_CONFIG_CHANGE_MSG | 0 or an error, if requested | CONFIG |
//! | BACKEND_VRING_HOST_NOTIFIER_MSG | 0 or an error, if requested | HOST_NOTIFIER |
//! | BACKEND_VRING_CALL | 0 or an error, if requested | INBAND_NOTIFICATIONS |
//! | BACKEND_VRING_ERR | 0 or an error, if requested | INBAND_NOTIFICATIONS |
//! | BACKEND_SHARED_OBJECT_ADD | | not offered: dma-buf sharing is for GPU and video devices |
//! | BACKEND_SHARED_OBJECT_REMOVE | | not offered: dma-buf sharing is for GPU and video devices |
//! | BACKEND_SHARED_OBJECT_LOOKUP | | not offered: dma-buf sharing is for GPU and video devices |
//! | BACKEND_SHMEM_MAP | | not offered: no device of Tautline has VIRTIO shared memory regions |
//! | BACKEND_SHMEM_UNMAP | | not offered: no device of Tautline has VIRTIO shared memory regions |
//!
//! The protocol features CROSS_ENDIAN, XEN_MMAP, SHARED_OBJECT, GET_VRING_BASE_INFLIGHT, GPA_ADDRESSES and SHMEM are
//! not offered; [`codec::table::NOT_OFFERED`] says why.
//!
//! # What a peer's mistake leads to
//!
//! A message that breaks a rule changes nothing. If the sender waits for an acknowledgement (need_reply), or the
//! message has a reply that can carry an error, that reply is sent and the session continues
//! ([`session::backend::Received::Rejected`]). Otherwise the session is closed with a [`Violation`] that names
//! message, field and value. Descriptors are owned from the moment that the kernel passes them: whatever happens to a
//! message, they are passed on or closed.
pub mod bits;
pub mod codec;
pub mod inflight;
pub mod session;
mod shared_fd;
pub mod socket;
mod violation;
pub mod vring;

pub use shared_fd::SharedFd;
pub use violation::Violation;
