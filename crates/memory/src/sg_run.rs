//! The fast path of a buffer into an arena: the buffer is in the same window as the last one.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use crate::SharedSlice;
use crate::raw_run::RawRun;

/// A contiguous range of addresses: `start + i` is `host + i` in this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub start: u64,
    pub size: u64,
    pub host: NonNull<u8>,
}

impl Window {
    pub const EMPTY: Window = Window { start: 0, size: 0, host: NonNull::dangling() };

    pub(crate) fn new(start: u64, size: u64, host: NonNull<u8>) -> Self {
        Window { start, size, host }
    }
}

/// Slices that are being appended, all in one window, of which it has a copy. Appending a slice takes a few
/// comparisons and two stores, without the translator. The appended slices become part of the arena when this is
/// dropped.
#[derive(Debug)]
pub struct SgRun<'a> {
    pub(crate) window: Window,
    pub(crate) run: RawRun<'a>,
}

impl SgRun<'_> {
    /// Appends one slice and returns it. Returns `None` if the bytes are in another window, `len` is 0 or the run is
    /// full.
    #[inline(always)]
    pub fn push(&mut self, address: u64, len: u32) -> Option<SharedSlice<'_>> {
        let Window { start, size, host } = self.window;
        let offset = address.wrapping_sub(start);
        // A length of 0 is the largest of all when 1 is taken off.
        if offset >= size || u64::from(len).wrapping_sub(1) >= size - offset {
            return None;
        }
        // SAFETY: `offset + len` lies in the window, which came from the snapshot that `builder` kept.
        unsafe { self.run.push(host.add(offset as usize), len as usize) }
    }

    /// Removes the last `count` slices.
    pub fn take_back(&mut self, count: usize) {
        self.run.take_back(count);
    }
}
