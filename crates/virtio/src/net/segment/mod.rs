//! Cutting frames for receivers that do not take them whole (TSO, UFO, USO; VIRTIO 1.3 §5.1.6.2).
//!
//! Works on a local copy of a frame's first bytes; the payload stays where it is:
//!
//! 1. Copy [`headers_needed`] bytes of the frame. [`Plan::new`] checks them and says how it is cut.
//! 2. For each piece, [`Plan::write`] makes its [`Headers`] in local memory.
//! 3. Copy the piece's payload to the receiver, behind the place for the headers, and sum it in passing.
//! 4. [`Headers::finish`] with that sum, then copy [`Headers::bytes`] to the place in front.
//!
//! With [`SumOf::Frame`] (the checksum of a datagram in fragments) the first piece's headers are finished
//! when all pieces have been copied, with the sum of all payloads.
//!
//! A receiver that takes partial checksums needs no sums: [`Headers::leave_partial`] instead of step 4's
//! `finish`.
mod error;
mod headers;
mod layout;
mod plan;
#[cfg(test)]
mod tests;

pub use error::SegmentError;
pub use headers::Headers;
pub use plan::{Plan, Segment, SumOf, headers_needed};

/// Headers are looked for in so many bytes of a frame. Ethernet, IP and TCP with all options and two VLAN
/// tags take 142 of them; the rest is for IPv6 extension headers.
pub const MAX_HEAD_BYTES: usize = 256;

/// Headers of a piece: a fragment header more than the frame's.
pub const MAX_HEADER_BYTES: usize = MAX_HEAD_BYTES + 8;

/// A frame is cut into so many pieces at most: 64 KiB with 64 bytes in each. A sender that asks for more
/// wants work done, not bytes carried.
pub const MAX_PIECES: u32 = 1024;
