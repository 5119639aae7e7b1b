//! A reusable arena of slices, of which a burst of buffers consists.

use std::ops::Range;
use std::sync::Arc;

use crate::raw_run::RawRun;
use crate::{AddressSpace, SharedSlice};

/// Slices of peer memory in the order in which they were appended, kept mapped until they are cleared.
///
/// The arena allocates only when it grows; bursts of the same size allocate nothing. It does not shrink. The caller
/// that fills it for a peer must limit the slices of one burst.
#[derive(Debug, Default)]
pub struct SgArena {
    /// `'static` only inside the arena: slices are handed out for no longer than the arena is borrowed, and `spaces`
    /// keeps their mappings.
    slices: Vec<SharedSlice<'static>>,
    /// Every snapshot that a slice came from. There is one snapshot, unless memory changed in the middle of a burst.
    spaces: Vec<Arc<AddressSpace>>,
}

impl SgArena {
    /// An empty arena.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty arena with room for `slices` before it first allocates.
    pub fn with_capacity(slices: usize) -> Self {
        SgArena { slices: Vec::with_capacity(slices), spaces: Vec::with_capacity(2) }
    }

    /// Number of slices.
    #[inline(always)]
    pub fn len(&self) -> u32 {
        self.slices.len() as u32
    }

    /// Whether there are no slices.
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// Some of the slices, in the order in which they were appended.
    #[inline(always)]
    pub fn slices(&self, range: Range<u32>) -> &[SharedSlice<'_>] {
        &self.slices[range.start as usize..range.end as usize]
    }

    /// One slice, by its index.
    #[inline(always)]
    pub fn slice(&self, index: u32) -> Option<SharedSlice<'_>> {
        self.slices.get(index as usize).copied()
    }

    /// Appends at most `len` bytes of another arena's slices `range`, from byte `skip` on. They stay mapped as long
    /// as they are in this arena.
    #[inline]
    pub fn append(&mut self, other: &SgArena, range: Range<u32>, skip: usize, len: usize) {
        self.keep_all(other);
        let (mut skip, mut left) = (skip, len);
        for slice in &other.slices[range.start as usize..range.end as usize] {
            let rest = slice.slice(skip, left);
            skip -= slice.len_bytes().min(skip);
            left -= rest.len_bytes();
            if !rest.is_empty() {
                self.slices.push(rest);
            }
        }
    }

    /// As [`SgArena::append`], for one slice.
    #[inline(always)]
    pub fn append_one(&mut self, other: &SgArena, index: u32, skip: usize, len: usize) {
        self.keep_all(other);
        let rest = other.slices[index as usize].slice(skip, len);
        if !rest.is_empty() {
            self.slices.push(rest);
        }
    }

    /// Removes all slices.
    #[inline]
    pub fn clear(&mut self) {
        self.slices.clear();
        // The last snapshot stays: the next burst comes from it, and a reference count is an atomic.
        if self.spaces.len() > 1 {
            self.drop_old_spaces();
        }
    }

    #[cold]
    #[inline(never)] // what it takes to drop them is not to be set up for each burst
    fn drop_old_spaces(&mut self) {
        self.spaces.drain(..self.spaces.len() - 1);
    }

    /// Removes everything after the first `len` slices.
    pub fn truncate(&mut self, len: u32) {
        self.slices.truncate(len as usize);
    }

    /// Releases the snapshot that an empty arena still holds, so that removed memory is unmapped now.
    pub fn release(&mut self) {
        if self.slices.is_empty() {
            self.spaces.clear();
        }
    }

    /// Keeps the memory of `space` mapped for slices that are appended from it.
    #[inline]
    pub(crate) fn keep(&mut self, space: &Arc<AddressSpace>) {
        if !self.spaces.last().is_some_and(|kept| Arc::ptr_eq(kept, space)) {
            self.keep_new(space);
        }
    }

    #[inline(always)]
    fn keep_all(&mut self, other: &SgArena) {
        for space in &other.spaces {
            if !self.spaces.iter().any(|kept| Arc::ptr_eq(kept, space)) {
                self.spaces.push(Arc::clone(space));
            }
        }
    }

    #[cold]
    fn keep_new(&mut self, space: &Arc<AddressSpace>) {
        if self.slices.is_empty() {
            self.spaces.clear();
        }
        self.spaces.push(Arc::clone(space));
    }

    /// Room for `max` more slices, to be appended one after the other.
    #[inline(always)]
    pub(crate) fn run(&mut self, max: usize) -> RawRun<'_> {
        RawRun::new(&mut self.slices, max)
    }
}
