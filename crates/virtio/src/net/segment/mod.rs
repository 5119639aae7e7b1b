//! Segmentation of frames for receivers that do not accept them whole (TSO, UFO, USO; VIRTIO 1.3 §5.1.6.2).
//!
//! It works on a local copy of a frame's first bytes. The payload is not moved:
//!
//! 1. Copy [`headers_needed`] bytes of the frame. [`Plan::new`] checks them and plans the pieces.
//! 2. For each piece, [`Plan::write`] makes its [`Headers`] in local memory.
//! 3. Copy the piece's payload to the receiver, behind room for the headers, and sum it during the copy.
//! 4. Call [`Headers::finish`] with that sum, then copy [`Headers::bytes`] into the room in front.
//!
//! With [`SumOf::Frame`] (the checksum of a datagram in fragments), the first piece's headers are finished after all
//! pieces have been copied, with the sum of all payloads.
//!
//! For a receiver that accepts partial checksums no sums are needed: call [`Headers::leave_partial`] in place of
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

/// The most bytes of a frame in which headers are looked for. Ethernet, IP and TCP with all options and two VLAN tags
/// take 142 of them; the rest is for IPv6 extension headers.
pub const MAX_HEAD_BYTES: usize = 256;

/// The most header bytes of a piece: those of the frame and a fragment header.
pub const MAX_HEADER_BYTES: usize = MAX_HEAD_BYTES + 8;

/// The most pieces of a frame: 64 KiB with 64 bytes in each. A sender that needs more pieces mainly causes work, and
/// is not served.
pub const MAX_PIECES: u32 = 1024;
