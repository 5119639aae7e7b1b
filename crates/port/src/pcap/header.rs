//! The net header before each frame of a capture in memory.
use virtio::net::HeaderLayout;

/// The layout of the net header in memory.
pub(super) const LAYOUT: HeaderLayout = HeaderLayout::Full;

/// Bytes of the net header that all frames of a capture share.
pub(super) const FRONT_BYTES: u64 = LAYOUT.bytes() as u64;
