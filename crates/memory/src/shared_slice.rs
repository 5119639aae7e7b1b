//! Bytes that a peer may change at any moment.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::Mapping;
use crate::compare::equal_volatile;
use crate::copy::copy_volatile;

/// Bytes in one mapping that a peer writes: a pointer and a length, never a Rust reference.
///
/// Bytes can change between two reads. The caller must parse a copy and never read them twice.
#[derive(Clone, Copy, Debug)]
pub struct SharedSlice<'a> {
    start: NonNull<u8>,
    len: usize,
    alive: PhantomData<&'a Mapping>,
}

// SAFETY: accesses are volatile copies to memory that any process may write anyway; nothing in the type
// depends on the thread. The lifetime keeps the mapping alive.
unsafe impl Send for SharedSlice<'_> {}
// SAFETY: as above.
unsafe impl Sync for SharedSlice<'_> {}

impl<'a> SharedSlice<'a> {
    /// # Safety
    /// `start .. start + len` must lie inside one mapping that stays mapped for `'a`.
    pub(crate) unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        SharedSlice { start, len, alive: PhantomData }
    }

    /// All bytes of a mapping.
    pub fn of_mapping(mapping: &'a Mapping) -> Self {
        // SAFETY: exactly the mapping's bytes, and the borrow keeps it mapped.
        unsafe { Self::new(mapping.start(), mapping.len_bytes() as usize) }
    }

    /// Length in bytes.
    #[inline(always)]
    pub fn len_bytes(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The host address, for the kernel (`readv`, `writev`) or for a device.
    #[inline(always)]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The part `offset .. offset + len`, cut to the length of this slice.
    #[inline(always)]
    pub fn slice(&self, offset: usize, len: usize) -> SharedSlice<'a> {
        let offset = offset.min(self.len);
        // SAFETY: `offset` and the cut length stay inside this slice.
        unsafe { SharedSlice::new(self.start.add(offset), len.min(self.len - offset)) }
    }

    /// Copies to `into` as much as both hold. Returns how many bytes; each source byte is read once.
    #[inline]
    pub fn read(&self, into: &mut [u8]) -> usize {
        let len = self.len.min(into.len());
        // SAFETY: both hold `len` bytes; `into` is exclusively ours.
        unsafe { copy_volatile(self.start.as_ptr(), into.as_mut_ptr(), len) };
        len
    }

    /// Copies `from` to this slice, as much as both hold. Returns how many bytes; each target byte is written once.
    #[inline]
    pub fn write(&self, from: &[u8]) -> usize {
        let len = self.len.min(from.len());
        // SAFETY: both hold `len` bytes; peers may see any mixture meanwhile, which is theirs to expect.
        unsafe { copy_volatile(from.as_ptr(), self.start.as_ptr(), len) };
        len
    }

    /// Fills `into` from `offset` on, reading each source byte once. Returns false and reads nothing if there are
    /// fewer bytes. The length is a constant, so a header takes a few instructions.
    #[inline(always)]
    pub fn read_array<const N: usize>(&self, offset: usize, into: &mut [u8; N]) -> bool {
        if self.len < N || self.len - N < offset {
            return false;
        }
        // SAFETY: `offset + N` bytes are here; `into` is exclusively ours.
        unsafe { copy_volatile(self.start.as_ptr().add(offset), into.as_mut_ptr(), N) };
        true
    }

    /// Whether the slice begins with these bytes; reads each once. The bytes are compared in registers, while an
    /// array would lie on the stack.
    #[inline(always)]
    pub fn begins_with<const N: usize>(&self, bytes: &[u8; N]) -> bool {
        // SAFETY: `N` bytes are here.
        self.len >= N && unsafe { equal_volatile(self.start.as_ptr(), bytes) }
    }

    /// Writes all of `from` at `offset`, each target byte once. Returns false and writes nothing if it does not fit.
    #[inline(always)]
    pub fn write_array<const N: usize>(&self, offset: usize, from: &[u8; N]) -> bool {
        if self.len < N || self.len - N < offset {
            return false;
        }
        // SAFETY: there is room for `offset + N` bytes; peers may see any mixture meanwhile.
        unsafe { copy_volatile(from.as_ptr(), self.start.as_ptr().add(offset), N) };
        true
    }

    /// Copies to another shared slice as much as both hold. Returns how many bytes.
    ///
    /// The two slices may overlap, because a guest can post the same buffer twice. It is then undefined which bytes
    /// arrive, but nothing else is written.
    #[inline]
    pub fn copy_to(&self, to: SharedSlice<'_>) -> usize {
        let len = self.len.min(to.len);
        // SAFETY: both hold `len` bytes, and volatile word copies are defined whether they overlap or not.
        unsafe { copy_volatile(self.start.as_ptr(), to.start.as_ptr(), len) };
        len
    }
}

#[cfg(test)]
mod tests;
