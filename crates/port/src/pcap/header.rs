//! What comes before each frame of a capture in memory.
use virtio::net::HeaderLayout;

/// How frames begin in memory.
pub(super) const LAYOUT: HeaderLayout = HeaderLayout::Full;

/// The net header that all frames of a capture share.
pub(super) const FRONT_BYTES: u64 = LAYOUT.bytes() as u64;
