//! The identity of a set of images that frames are made of.
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

/// Images that frames are made of: see [`of_images`](super::FrameBatch::of_images).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImagesId(NonZeroU64);

impl ImagesId {
    /// A new identity that no other batch of this process has.
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        ImagesId(NonZeroU64::new(NEXT.fetch_add(1, Ordering::Relaxed)).unwrap_or(NonZeroU64::MAX))
    }
}
