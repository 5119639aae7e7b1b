//! Flow tables and the execution of their actions on a frame, as in Open vSwitch.
//!
//! | type | meaning |
//! |---|---|
//! | [`Tables`] | the flows by table, and the groups |
//! | [`HeaderWindow`] | the first bytes of a frame, which are written when its fields change |
//! | [`Outcome`] | deliveries with their headers, frames for controllers, and the flows that count the frame |
//! | [`MeterState`] | a meter and its token buckets |
//! | [`Cache`] | the outcomes of one port's frames, for later frames with the same fields |
//! | [`PlainFrame`] | a frame that the cache finds by its first bytes, without its fields |
//! | [`Surroundings`] | the services of the caller: the time, ports, connections, controllers, space for learned flows |
//!
//! [`Tables::execute`] takes a frame through the tables; [`Tables::trace`] describes the execution as text. The crate
//! does no I/O and reads no clock: time is an argument.
//!
//! # Limits
//!
//! | what | limit |
//! |---|---|
//! | flows, groups, buckets, meters | [`Limits`]: a change beyond the limit is refused |
//! | flows that frames of one port have learned | [`Limits::learned`] |
//! | the tables that a frame visits, its copies, its stack | [`Overrun`]: the frame is dropped |
//! | outcomes that are kept | the places of a [`Cache`], one cache for each input port |
//! | the header of a frame | a window of 256 bytes and two tags; with more tags the frame is dropped |
//! | cost of a look-up in a cache | one set of [`WAYS`] places |
//! | cost of a look-up in a table | the number of different masks of the flows; frames have no effect on it: see [`Cost`] |
//!
//! # Compared with Open vSwitch 3.1
//!
//! `tests/openvswitch` compares this crate with Open vSwitch's user-space data path: for random tables, the bytes of
//! the outgoing frames and the counters of all flows; for OVN's tables, the flows that a frame passes; for meters,
//! the frames that pass. These differ:
//!
//! | what | here | Open vSwitch 3.1 |
//! |---|---|---|
//! | `output` with `max_len` behind a pushed tag | the frame that leaves has at most this number of bytes | cuts the frame, then writes the tag |
//! | a frame for a controller while the action set is not empty | continues | the process aborts (an assertion in `recirc_alloc_id__`) |
//! | a frame with two pushed tags that went to a controller before it is changed | is changed at the place of its fields | is read again with one tag, and is changed at the wrong place |
//! | `check_pkt_larger` | the outer lists of actions continue with the outcome | both outcomes are followed, and both count; after that, the outer lists continue as if neither had been executed |
//! | `ct` with a table | the copy goes to the table at once | the copy goes to the table after all other actions |
//! | a group that selects one of several buckets, a bundle | a hash of this crate | a hash of Open vSwitch |
//! | the stack | at most [`MAX_STACK`] values when another table is visited; the frame is dropped | 65,536 bytes |
//! | nested lists of actions | at most 256; the frame is dropped. A visit at the end of a list is no nested list | no limit |
//! | copies of a frame that leave | [`MAX_DELIVERIES`]; the frame is dropped | no limit |
//! | nested `ct` actions | as many as nested lists of actions | a small number (`MAX_RECIRC_DEPTH`); the copy is dropped |
//!
//! The random tables have none of these, except one check of the length. For this check, the frames are compared and
//! the counters are not. Counters are compared over the life of a flow: in both switches, a flow that is added again or
//! modified keeps its counters, unless it has the flag `reset_counts` (OpenFlow 1.5 §6.4).
//!
//! # Where to change what
//!
//! - The effect of an action: `execute.rs`; fields in `execute/fields.rs`, groups and bundles in
//!   `execute/buckets.rs`, `ct` in `execute/connections.rs`. The choice of a bucket or port: `select.rs`. The fields
//!   that a frame has: `fields.rs`.
//! - The fields by which the cache tells frames apart: `compared.rs`, with every field that an action reads or writes.
//! - Bytes and checksums: `header.rs`. Text of a trace: `trace.rs`.
//! - Adding, changing and ending flows: `tables.rs`. Conjunctions: `table.rs`. The look-up of a flow:
//!   `classifier.rs`.
#![forbid(unsafe_code)]

mod cache;
mod checksum;
mod classifier;
mod compared;
mod connection;
mod crc32c;
mod entry;
mod execute;
mod fields;
mod header;
mod learn;
mod lists;
mod meter;
mod misses;
mod outcome;
mod passage;
mod plain;
mod segment;
mod select;
mod surroundings;
mod table;
mod tables;
mod tags;
mod trace;
mod words;

pub use cache::{Cache, CacheCounts, Departure, LookUp, Looked, MASKS, MAX_HITS, MAX_STEPS, WAYS};
pub use classifier::{COLLISIONS, Cost};
pub use connection::{Connection, Original, Track, Written};
pub use entry::{Counters, Entry};
pub use execute::{MAX_DELIVERIES, MAX_DEPTH, MAX_RESUBMITS, MAX_STACK, MAX_WAITING};
pub use header::HeaderWindow;
pub use learn::learned;
pub use meter::MeterState;
pub use outcome::{Continuation, Delivery, Effect, HeaderRange, Outcome, Overrun, PacketIn, Uncached};
pub use plain::{NewHead, PlainFrame};
pub use surroundings::Surroundings;
pub use tables::{Change, Limits, Refused, Tables};
