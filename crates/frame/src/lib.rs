//! The contract between ports and workers: frames, batches, sources and sinks.
//!
//! The peer of a port is called the *guest*, even if it is a kernel or a file: a [`Source`] has frames *from the
//! guest*, a [`Sink`] takes frames *to the guest*.
//!
//! # Packet path
//!
//! ```text
//!   Source::rx_burst    a FrameBatch: frames where the sender put them, borrowed, with a snapshot of the first
//!      |                64 bytes of each, read once; all decisions are made on the snapshot
//!      v
//!   the switch          decides by Frame::snapshot
//!      |
//!      v
//!   Sink::accept        copies once, straight into the receiver's buffers, the snapshot included
//!      |
//!      v
//!   Source::release     the sender has its buffers back, the whole batch at once
//! ```
//!
//! A program that needs more of a frame gets a longer window ([`Windows`]). A frame that is changed has another
//! head for its receiver ([`EditedFrames`], by a [`HeadEdit`]). Sinks accept both like any frame.
//!
//! The bytes that were checked are the bytes that are delivered, whatever the sender writes in the meantime. A
//! sink knows what its receiver accepts. It therefore completes checksums and segments frames itself, during its
//! copy; the switch does not handle offloads. A sink drops and counts the frames that it has no room for
//! ([`DropReason`]): no port waits for a slow receiver.
//!
//! [`Source`] and [`Sink`] belong to one worker at a time, so neither holds a lock.
//!
//! # Sleeping
//!
//! A worker that finds no frames for long asks each source to wake it ([`Source::sleep`], which checks once more)
//! and waits for their [`Source::wake_fd`]. After [`Source::wake`] it polls again.
//!
//! # Where to change what
//!
//! - To add a drop reason: the list in `counters.rs`; a row in `docs/plug-in-a-guest.md`.
#![deny(unsafe_code)]

mod counters;
mod edit;
#[allow(clippy::module_inception)]
mod frame;
mod frame_batch;
mod metadata;
mod one_frame;
mod own;
mod own_frames;
mod pair_counters;
mod queue;
mod ring_state;
mod side;
mod windows;

pub use counters::{Counts, CutShort, DropReason, QueueCounters};
pub use edit::HeadEdit;
pub use frame::{
    ETHERNET_HEADER_BYTES, Frame, HeaderSnapshot, LARGEST_FRAME_BYTES, SHORTEST_FRAME_BYTES, SNAPSHOT_BYTES,
};
pub use frame_batch::{EditedFrames, FrameBatch, ImagesId, PushedChains};
pub use metadata::{METADATA_WORDS, Metadata};
pub use own::{OwnMemory, OwnSgBuilder};
pub use own_frames::OwnFrames;
pub use pair_counters::PairCounters;
pub use queue::{QueueError, Sink, Source};
pub use ring_state::RingState;
pub use side::Side;
pub use windows::{WINDOW_BYTES, Windows};
