//! Slices that are being appended at the end of an arena.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use crate::SharedSlice;

/// Slices that are being appended. They become part of the arena when this is dropped; until then only a pointer
/// moves.
#[derive(Debug)]
pub(crate) struct RawRun<'a> {
    /// The position of the next slice, between the arena's length and `end`. Everything before it is written.
    next: *mut SharedSlice<'static>,
    end: *mut SharedSlice<'static>,
    slices: &'a mut Vec<SharedSlice<'static>>,
}

impl<'a> RawRun<'a> {
    /// Room for `max` slices behind the existing ones.
    #[inline(always)]
    pub fn new(slices: &'a mut Vec<SharedSlice<'static>>, max: usize) -> Self {
        slices.reserve(max);
        let spare = &mut slices.spare_capacity_mut()[..max];
        let std::ops::Range { start, end } = spare.as_mut_ptr_range();
        RawRun { next: start.cast(), end: end.cast(), slices }
    }

    /// Appends a slice and returns it, if there is room.
    ///
    /// # Safety
    /// `start .. start + len` must lie in one mapping of the snapshot that was last given to [`SgArena::keep`].
    #[inline(always)]
    pub unsafe fn push(&mut self, start: NonNull<u8>, len: usize) -> Option<SharedSlice<'_>> {
        if self.next == self.end {
            return None;
        }
        // SAFETY: the caller's promise, and `spaces` outlives every slice that is handed out. `next` is below
        // `end`, the end of the room that was reserved.
        unsafe {
            let slice = SharedSlice::new(start, len);
            self.next.write(slice);
            self.next = self.next.add(1);
            Some(slice)
        }
    }

    /// Removes the last `count` slices of this run.
    pub fn take_back(&mut self, count: usize) {
        let back = count.min(self.len());
        // SAFETY: no further than to the beginning of the run.
        self.next = unsafe { self.next.sub(back) };
    }

    #[inline(always)]
    fn len(&self) -> usize {
        // SAFETY: both point into the vector's room, `next` not before the first one of this run.
        unsafe { self.next.offset_from_unsigned(self.slices.as_ptr().add(self.slices.len())) }
    }
}

impl Drop for RawRun<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let len = self.slices.len() + self.len();
        // SAFETY: within the capacity, and all before `next` is written.
        unsafe { self.slices.set_len(len) };
    }
}
