//! The usual way of a buffer into an arena: it lies where the last one did.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use crate::SharedSlice;
use crate::raw_run::RawRun;

/// A run of addresses that is contiguous here: `start + i` is `host + i`.
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

/// A run of slices in the making, all in one window, which it copied: a slice is a few comparisons and two
/// stores, and none of them goes through the translator. What was pushed is appended when this is dropped.
#[derive(Debug)]
pub struct SgRun<'a> {
    pub(crate) window: Window,
    pub(crate) run: RawRun<'a>,
}

impl SgRun<'_> {
    /// Appends one slice and shows it; `None`, and nothing is appended, if the bytes lie elsewhere, `len` is 0
    /// or the run is full.
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

    /// Takes back the last `count` slices.
    pub fn take_back(&mut self, count: usize) {
        self.run.take_back(count);
    }
}
