//! Bytes that a peer may change at any moment, and copies that read each of them exactly once.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::lines::{LINE_BYTES, prefetch, prefetch_write};
use crate::word::{Chunk, Word};
use crate::{Access, Mapping, wide};

/// The net header in front of a frame (VIRTIO 1.3 §5.1.6): what is behind it is written.
const HEADER_BYTES: usize = 12;

/// A run of peer-written bytes in one mapping: a pointer and a length, never a Rust reference.
///
/// What is read can change between two reads, so parse from a copy and never look twice.
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

    /// The whole of a mapping.
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

    /// The host address, for handing to the kernel (`readv`, `writev`) or to a device.
    #[inline(always)]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The part `offset .. offset + len`, cut to what there is.
    #[inline(always)]
    pub fn slice(&self, offset: usize, len: usize) -> SharedSlice<'a> {
        let offset = offset.min(self.len);
        // SAFETY: `offset` and the cut length stay inside this slice.
        unsafe { SharedSlice::new(self.start.add(offset), len.min(self.len - offset)) }
    }

    /// Copies to `into` as much as both hold and returns how many bytes; each source byte is read once.
    #[inline]
    pub fn read(&self, into: &mut [u8]) -> usize {
        let len = self.len.min(into.len());
        // SAFETY: both hold `len` bytes; `into` is exclusively ours.
        unsafe { copy_volatile(self.start.as_ptr(), into.as_mut_ptr(), len) };
        len
    }

    /// Copies `from` here as far as both go and returns how many bytes; each target byte is written once.
    #[inline]
    pub fn write(&self, from: &[u8]) -> usize {
        let len = self.len.min(from.len());
        // SAFETY: both hold `len` bytes; peers may see any mixture meanwhile, which is theirs to expect.
        unsafe { copy_volatile(from.as_ptr(), self.start.as_ptr(), len) };
        len
    }

    /// Fills `into` from `offset` on, each source byte read once; false, and nothing is read, if there are
    /// fewer bytes. The length is known to the compiler, so that a header costs a few instructions.
    #[inline(always)]
    pub fn read_array<const N: usize>(&self, offset: usize, into: &mut [u8; N]) -> bool {
        if self.len < N || self.len - N < offset {
            return false;
        }
        // SAFETY: `offset + N` bytes are here; `into` is exclusively ours.
        unsafe { copy_volatile(self.start.as_ptr().add(offset), into.as_mut_ptr(), N) };
        true
    }

    /// Whether these bytes stand at the beginning, each read once. In registers, where an array would lie on the
    /// stack.
    #[inline(always)]
    pub fn begins_with<const N: usize>(&self, bytes: &[u8; N]) -> bool {
        // SAFETY: `N` bytes are here.
        self.len >= N && unsafe { equal_volatile(self.start.as_ptr(), bytes) }
    }

    /// Writes all of `from` at `offset`, each target byte written once; false, and nothing is written, if
    /// there is less room.
    #[inline(always)]
    pub fn write_array<const N: usize>(&self, offset: usize, from: &[u8; N]) -> bool {
        if self.len < N || self.len - N < offset {
            return false;
        }
        // SAFETY: there is room for `offset + N` bytes; peers may see any mixture meanwhile.
        unsafe { copy_volatile(from.as_ptr(), self.start.as_ptr().add(offset), N) };
        true
    }

    /// Copies to another shared slice as much as both hold and returns how many bytes.
    ///
    /// The two may overlap (a guest can post the same buffer twice); then which bytes arrive is the
    /// guest's own puzzle, and nothing else is touched.
    #[inline]
    pub fn copy_to(&self, to: SharedSlice<'_>) -> usize {
        let len = self.len.min(to.len);
        // SAFETY: both hold `len` bytes, and volatile word copies are defined whether they overlap or not.
        unsafe { copy_volatile(self.start.as_ptr(), to.start.as_ptr(), len) };
        len
    }

    /// Fetches the first lines ahead of their use: to be read they may stay with the peer's core too, to be
    /// written they must leave it.
    ///
    /// The very first is fetched to be read in any case. It may hold nothing but a header in front of aligned
    /// data (DPDK's buffers lie so), and headers mostly stay as they are: such a line need not travel at all.
    #[inline(always)]
    pub fn prefetch(&self, access: Access) {
        let first = self.start.as_ptr();
        prefetch(first);
        match access {
            Access::Read => prefetch(first.wrapping_add(LINE_BYTES)),
            Access::Write => {
                // One line or two, as the buffer lies: asking twice costs less than finding out.
                prefetch_write::<HEADER_BYTES>(first);
                prefetch_write::<{ HEADER_BYTES + LINE_BYTES - 1 }>(first);
            }
        }
    }
}

/// Copies from a list of slices to another, from `from_offset` on to `to_offset` on, at most `len` bytes,
/// and returns how many bytes went over: the one copy between two guests.
pub fn copy_between<'a, 'b>(
    from: impl IntoIterator<Item = SharedSlice<'a>>,
    from_offset: usize,
    to: impl IntoIterator<Item = SharedSlice<'b>>,
    to_offset: usize,
    len: usize,
) -> usize {
    let (mut from, mut to) = (skip(from, from_offset), skip(to, to_offset));
    let (mut source, mut target) = (from.next(), to.next());
    let mut left = len;
    while let (Some(s), Some(t), true) = (source, target, left > 0) {
        let n = s.slice(0, left).copy_to(t);
        left -= n;
        source = if n < s.len { Some(s.slice(n, s.len)) } else { from.next() };
        target = if n < t.len { Some(t.slice(n, t.len)) } else { to.next() };
    }
    len - left
}

/// Copies from a list of slices, from `from_offset` on, to local bytes as much as both hold, and returns
/// how many bytes; each source byte is read once.
pub fn read_between<'a>(
    from: impl IntoIterator<Item = SharedSlice<'a>>,
    from_offset: usize,
    into: &mut [u8],
) -> usize {
    let mut done = 0;
    for slice in skip(from, from_offset) {
        if done == into.len() {
            break;
        }
        done += slice.read(&mut into[done..]);
    }
    done
}

/// The slices after the first `offset` bytes; empty ones are left out.
pub(crate) fn skip<'a>(
    slices: impl IntoIterator<Item = SharedSlice<'a>>,
    mut offset: usize,
) -> impl Iterator<Item = SharedSlice<'a>> {
    slices.into_iter().filter_map(move |slice| {
        let rest = slice.slice(offset, slice.len);
        offset -= slice.len - rest.len;
        (!rest.is_empty()).then_some(rest)
    })
}

/// Copies `len` bytes, reading each source byte once and writing each target byte once, without telling
/// the compiler that nobody else touches them: the accesses of [`Word`] can neither be repeated, dropped,
/// nor turned into a `memcpy` that assumes so.
///
/// # Safety
/// Both pointers must be valid for `len` bytes, for reading and writing respectively.
#[inline(always)]
pub(crate) unsafe fn copy_volatile(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the loop conditions keep each word inside `len`.
    unsafe {
        let word = |at| (from.add(at), to.add(at));
        let mut at = wide::copy_lines(from, to, len);
        while len - at >= 64 {
            let (from, to) = word(at);
            Chunk::load::<0>(from).store::<0>(to);
            Chunk::load::<16>(from).store::<16>(to);
            Chunk::load::<32>(from).store::<32>(to);
            Chunk::load::<48>(from).store::<48>(to);
            at += 64;
        }
        while len - at >= 16 {
            let (from, to) = word(at);
            Chunk::load::<0>(from).store::<0>(to);
            at += 16;
        }
        if len - at >= 8 {
            let (from, to) = word(at);
            u64::load::<0>(from).store::<0>(to);
            at += 8;
        }
        if len - at >= 4 {
            let (from, to) = word(at);
            u32::load::<0>(from).store::<0>(to);
            at += 4;
        }
        while at < len {
            let (from, to) = word(at);
            u8::load::<0>(from).store::<0>(to);
            at += 1;
        }
    }
}

/// Compares `N` bytes, reading each byte at `at` once.
///
/// # Safety
/// `at` must be valid for reading `N` bytes.
#[inline(always)]
unsafe fn equal_volatile<const N: usize>(at: *const u8, bytes: &[u8; N]) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    let (halves, rest) = rest.as_chunks::<4>();
    let (pairs, rest) = rest.as_chunks::<2>();
    let mut odd = 0;
    let mut from = at;
    // SAFETY: together the pieces are `N` bytes long.
    unsafe {
        for word in words {
            odd |= u64::load::<0>(from) ^ u64::from_ne_bytes(*word);
            from = from.add(word.len());
        }
        for half in halves {
            odd |= u64::from(u32::load::<0>(from) ^ u32::from_ne_bytes(*half));
            from = from.add(half.len());
        }
        for pair in pairs {
            odd |= u64::from(u16::load::<0>(from) ^ u16::from_ne_bytes(*pair));
            from = from.add(pair.len());
        }
        for byte in rest {
            odd |= u64::from(u8::load::<0>(from) ^ byte);
            from = from.add(1);
        }
    }
    odd == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::truncate::tests::memfd;

    fn mapping() -> Mapping {
        Mapping::shared(memfd(1 << 16), 0, 1 << 16).unwrap()
    }

    #[test]
    fn every_length_and_alignment_arrives_whole_and_nothing_beside_it() {
        let memory = mapping();
        let all = SharedSlice::of_mapping(&memory);
        for len in (0..200).chain([255, 256, 257, 1500, 9000]) {
            for offset in [0, 1, 7, 15] {
                let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + offset) as u8 | 1).collect();
                all.write(&vec![0; 20000]);
                assert_eq!(all.slice(100 + offset, len).write(&bytes), len);
                let mut back = vec![0; len + 2];
                all.slice(99 + offset, len + 2).read(&mut back);
                assert_eq!((back[0], back[len + 1]), (0, 0));
                assert_eq!(back[1..=len], bytes);
            }
        }
    }

    #[test]
    fn slices_are_cut_to_what_there_is() {
        let memory = mapping();
        let all = SharedSlice::of_mapping(&memory);
        assert_eq!(all.slice(65530, 100).len_bytes(), 6);
        assert!(all.slice(usize::MAX, usize::MAX).is_empty());
    }

    #[test]
    fn arrays_go_over_whole_or_not_at_all() {
        let memory = mapping();
        let all = SharedSlice::of_mapping(&memory);
        let small = all.slice(100, 20);
        assert!(small.write_array(8, &[7; 12]) && !small.write_array(9, &[8; 12]));
        assert!(!small.write_array(0, &[8; 21]) && !small.write_array(usize::MAX, &[8; 1]));
        let mut around = [0; 22];
        all.slice(99, 22).read(&mut around);
        assert_eq!(around[9..21], [7; 12]);
        assert!(around[..9].iter().chain(&around[21..]).all(|byte| *byte == 0));
        let mut into = [1; 12];
        assert!(!small.read_array(9, &mut into) && !small.read_array(usize::MAX, &mut into));
        assert_eq!(into, [1; 12]);
        assert!(small.read_array(8, &mut into));
        assert_eq!(into, [7; 12]);
    }

    #[test]
    fn beginnings_are_compared_to_the_last_byte() {
        let memory = mapping();
        let all = SharedSlice::of_mapping(&memory);
        let bytes: [u8; 15] = std::array::from_fn(|i| i as u8 + 1);
        all.slice(101, 15).write(&bytes);
        assert!(all.slice(101, 15).begins_with(&bytes) && !all.slice(101, 14).begins_with(&bytes));
        for i in 0..bytes.len() {
            let mut other = bytes;
            other[i] ^= 0x80;
            assert!(!all.slice(101, 20).begins_with(&other), "{i}");
        }
        assert!(all.slice(102, 2).begins_with(&[2, 3]) && !all.slice(102, 1).begins_with(&[2, 3]));
    }

    #[test]
    fn lists_are_copied_across_their_joints() {
        let memory = mapping();
        let all = SharedSlice::of_mapping(&memory);
        let source: Vec<u8> = (0..100).collect();
        all.write(&source);
        let from = [all.slice(0, 10), all.slice(10, 0), all.slice(10, 50), all.slice(60, 40)];
        let to = [all.slice(1000, 33), all.slice(2000, 1), all.slice(3000, 99)];
        assert_eq!(copy_between(from, 5, to, 3, 80), 80);
        let mut out = vec![0; 30];
        all.slice(1003, 30).read(&mut out);
        assert_eq!(out, source[5..35]);
        let mut out = vec![0; 50];
        all.slice(2000, 1).read(&mut out[..1]);
        all.slice(3000, 49).read(&mut out[1..]);
        assert_eq!(out, source[35..85]);
        assert_eq!(copy_between(from, 90, to, 0, 80), 10);
        assert_eq!(copy_between(from, 500, to, 0, 80), 0);
        let mut out = [0; 60];
        assert_eq!(read_between(from, 7, &mut out), 60);
        assert_eq!(out, source[7..67]);
        assert_eq!(read_between(from, 90, &mut out), 10);
        assert_eq!(out[..10], source[90..]);
        assert_eq!(read_between(from, 100, &mut out), 0);
    }
}
