//! Flow tables and what they do with a frame, in Open vSwitch's meaning.
//!
//! | type | what it is |
//! |---|---|
//! | [`Tables`] | flows by table, groups |
//! | [`HeaderWindow`] | the beginning of a frame, written as its fields change |
//! | [`Outcome`] | deliveries with their headers, frames for controllers, flows that count the frame |
//! | [`MeterState`] | a meter and its token buckets |
//! | [`Cache`] | outcomes of frames with the same fields |
//! | [`Surroundings`] | what the caller provides: ports, meters, connections, room for learned flows |
//!
//! [`Tables::execute`] takes a frame through the tables; [`Tables::trace`] says in text what happens there. The crate opens nothing and reads no clock: time is an argument.
//!
//! # Limits
//!
//! | what | limit |
//! |---|---|
//! | flows, groups, buckets | [`Limits`]: a change beyond is refused |
//! | flows that frames of one port have learned | [`Limits::learned`] |
//! | tables that a frame visits, its copies, its stack | [`Overrun`]: the frame is dropped |
//! | outcomes that are remembered | the places of a [`Cache`], one cache for each input port |
//! | cost of a look-up | the masks of the flows, whatever the frames were: see [`Cost`] |
//!
//! # Compared with Open vSwitch 3.1
//!
//! `tests/openvswitch` compares with its user-space data path: the bytes of the frames out and the counters of all flows
//! with random tables, the flows that a frame passes with OVN's, the frames that meters let pass. These differ:
//!
//! | what | here | Open vSwitch 3.1 |
//! |---|---|---|
//! | `exit` that a copy of `clone` meets, in whatever table | ends the copy | ends the lists around it too |
//! | `output` with `max_len` behind a pushed tag | the frame that leaves has at most so many bytes | cuts the frame, then writes the tag |
//! | a frame for a controller while the action set is not empty | goes on | the process aborts (an assertion in `recirc_alloc_id__`) |
//! | a frame with two pushed tags that went to a controller before it is changed | is changed where its fields are | is read again with one tag, and changed at the wrong place |
//! | `check_pkt_larger` | the lists of actions around its own go on with the outcome | follows both outcomes, and both count; behind it, the outer lists go on as if neither had been |
//! | `ct` with a table | the copy goes there at once | it goes there when all other actions are done |
//! | a group that selects one of several buckets, a bundle | a hash of this crate | a hash of its own |
//! | lists of actions within each other | at most 256; the frame is dropped | no limit |
//! | copies of a frame that leave | [`MAX_DELIVERIES`]; the frame is dropped | no limit |
//! | `ct` behind `ct` | as deep as lists of actions | a few deep (`MAX_RECIRC_DEPTH`); the copy is dropped |
//!
//! Random tables have none of these but one check of the length, whose frames are compared and whose counters are not.
//! Counters are compared over the life of a flow: a flow that is added again, or modified, goes on counting, in both,
//! unless it says `reset_counts` (OpenFlow 1.5 §6.4).
//!
//! # Where to change what
//!
//! - What an action does: `execute.rs`, fields in `execute/fields.rs`, groups and bundles in `execute/buckets.rs`, `ct` in
//!   `execute/connections.rs`. How one of several is chosen: `select.rs`. Which fields a frame has: `fields.rs`.
//! - Bytes and checksums: `header.rs`. Text of a trace: `trace.rs`.
//! - Adding, changing and ending flows: `tables.rs`. Conjunctions: `table.rs`. Look-up: `classifier.rs`.
#![forbid(unsafe_code)]

mod cache;
mod classifier;
mod connection;
mod entry;
mod execute;
mod fields;
mod header;
mod learn;
mod meter;
mod outcome;
mod select;
mod surroundings;
mod table;
mod tables;
mod trace;

pub use cache::{Cache, MAX_HITS, MAX_STEPS};
pub use classifier::{COLLISIONS, Cost};
pub use connection::{Connection, Track};
pub use entry::{Counters, Entry};
pub use execute::{MAX_DELIVERIES, MAX_DEPTH, MAX_RESUBMITS};
pub use header::HeaderWindow;
pub use meter::MeterState;
pub use outcome::{Continuation, Delivery, Effect, HeaderRange, Outcome, Overrun, PacketIn, Uncached};
pub use surroundings::Surroundings;
pub use tables::{Change, Limits, Refused, Tables};
