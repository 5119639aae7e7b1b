//! Connection tracking and address translation, in the meaning of Linux and Open vSwitch.
//!
//! | type | meaning |
//! |---|---|
//! | [`Packet`] | what tracking reads from the headers of a datagram |
//! | [`Tracker`] | a table of connections: what it says about a frame is a [`Verdict`] |
//! | [`Request`] | what is asked about a frame: zone, commit, mark and label, translation |
//! | [`State`] | the bits of `ct_state` |
//! | [`Mapping`] | the translation of new connections |
//! | [`Limits`] | what ports and zones may hold |
//! | [`Fragments`] | fragments that wait for the rest of their datagrams |
//! | [`Helper`] | FTP and TFTP: connections that a control channel announces |
//!
//! The crate does no I/O and reads no clock: time is an argument. After [`Tracker::new`] no frame causes an allocation
//! except in the counters of translated ports, which reserve their memory too.
//!
//! # States
//!
//! A connection is kept if a request commits it. Its frames are `new` until a frame in the direction of answers was
//! seen, then `est`. An ICMP error about a connection is `rel`, and so are all frames of a connection that a control channel
//! has announced. A frame that belongs to no connection and cannot begin
//! one is `inv`, among others: a TCP segment outside of the windows, an answer without a query, flags that no sender
//! combines, IPv6 neighbor discovery.
//!
//! # Bounded memory
//!
//! | what | limit |
//! |---|---|
//! | connections | [`Limits::connections`]; a port holds at most [`Limits::per_port`], and at most as many as are free |
//! | a port at its limit | a new connection replaces the oldest connection *of the same port* that is not assured; if all are, the new one is refused |
//! | connections in a zone | [`Limits::per_zone`], [`ZoneLimits`] |
//! | source ports of a translated address | one port of the switch gets a share; see [`Limits`] and [`Refusal::Translation`] |
//! | control channels, each with one expected connection | 4,096 of a table and 1,024 of a zone; a port gets another one only as long as it has fewer than are free. Further ones have no helper |
//! | work for an expiry | the caller's budget: [`Tracker::expire`] |
//! | work for the choice of a port | 240 look-ups |
//!
//! # Compared with Linux and Open vSwitch
//!
//! `tests/linux` compares the states and the bytes of frames with Linux. These differ on purpose:
//!
//! | what | here | elsewhere |
//! |---|---|---|
//! | checksums of TCP, UDP and ICMP | not checked, because a frame may be still to be summed | Linux checks them unless `nf_conntrack_checksum` is 0 |
//! | UDP | assured with its first answer | Linux: if it lasts for two seconds |
//! | a table that is full | the port's own oldest connection without an answer is replaced | Linux: one of a few random ones, of any port; Open vSwitch: the new one is refused |
//! | windows of TCP | Linux's | Open vSwitch's user-space datapath has those of pf |
//! | the checksum of a quoted and translated SCTP packet | stays, because addresses are not part of it | Linux computes it again over the part that is quoted |
//! | the checksum of a TCP or UDP header that an ICMPv6 error quotes | follows the translation, as in Linux | Open vSwitch leaves it as it is |
//! | fragments | cannot be tracked by themselves ([`Untracked::Fragment`]): [`Fragments`] holds them, and the whole is tracked. The first one must have the transport header (RFC 1858); at most [`MAX_FRAGMENTS`] of a datagram | Linux has no such limits |
//! | a line of FTP that announces a port | counts if all of it is in the given bytes, and if the port is at least 1024 | Linux reads all of the payload, drops lines that may go on in the next segment, and takes each port |
//! | an announced port that is taken | is replaced by one of the next 63, or the connection is not expected | Linux drops the frame if it finds none |
//! | chosen ports and addresses of a range | a hash of this crate | a hash or random numbers of their own |
//!
//! # Where to change what
//!
//! - TCP: states in `tcp.rs`, windows in `window.rs`, headers in `segment.rs`. SCTP: `sctp.rs`. Times: `timeouts.rs`.
//! - Reading of headers: `packet.rs`; writing of headers: `rewrite.rs`.
//! - FTP and TFTP: lines in `helper.rs`, control channels in `controls.rs`, announced connections in `tracker/helpers.rs`,
//!   sequence numbers behind a translated line in `shift.rs`.
//! - The choice of addresses and ports: `nat.rs`. Budgets: `limits.rs`.
//! - Which connections are to end: `selection.rs`. What a list of connections says: `listed.rs`; what another process gets of them: `saved.rs`.
//! - What is asked about a frame: `request.rs`. Look-up, commit, eviction: `tracker.rs`. Places of connections, and what is counted of them: `tracker/places.rs`. Fragments: `fragments.rs`. Parts of both: `index.rs`, `wheel.rs`, `links.rs`.
#![forbid(unsafe_code)]

mod bytes;
mod connection;
mod controls;
mod fragments;
mod helper;
mod index;
mod limits;
mod links;
mod listed;
mod nat;
mod packet;
mod request;
mod rewrite;
mod saved;
mod sctp;
mod segment;
mod selection;
mod shards;
mod shift;
mod state;
mod tcp;
mod timeouts;
mod tracker;
mod tuple;
mod wheel;
mod window;

pub use fragments::{BLOCK, FragmentFrame, FragmentLimits, Fragments, Held, MAX_FRAGMENTS, Whole};
pub use helper::Helper;
pub use limits::{Counters, Limits, Refusal, ZoneLimits};
pub use listed::{ListFrom, Listed, Page};
pub use nat::{Choice, Mapping, Side, Translation};
pub use packet::{Packet, Untracked};
pub use request::{Mark, Request, Settings, Shard, Translate, Verdict, Written};
pub use rewrite::translate_icmp;
pub use selection::{Selection, TupleSelection};
pub use shards::Shards;
pub use shift::{ControlChange, Replaced, Word};
pub use state::State;
pub use tcp::TcpRules;
pub use timeouts::Timeouts;
pub use tracker::Tracker;
pub use tuple::{Direction, Endpoint, Seed, Tuple, protocol};
