//! Scatter-gather lists: bytes in several slices, and copies from one list to another.

use crate::SharedSlice;
use crate::copy_sum::{Summed, Summing, copy_summed};

/// Bytes in several consecutive slices, from an offset on: a buffer of a peer, or the rest of one.
#[derive(Clone, Copy, Debug)]
pub struct SgList<'a> {
    slices: &'a [SharedSlice<'a>],
    skipped: usize,
}

impl<'a> SgList<'a> {
    /// All of the slices' bytes.
    #[inline(always)]
    pub fn new(slices: &'a [SharedSlice<'a>]) -> Self {
        SgList { slices, skipped: 0 }
    }

    /// The list without its first `bytes` bytes; empty if there are no more.
    #[inline(always)]
    pub fn skip(self, bytes: usize) -> Self {
        SgList { skipped: self.skipped.saturating_add(bytes), ..self }
    }

    /// The slices without the skipped bytes; empty slices are left out.
    #[inline]
    fn slices(self) -> impl Iterator<Item = SharedSlice<'a>> {
        let mut offset = self.skipped;
        self.slices.iter().filter_map(move |slice| {
            let rest = slice.slice(offset, slice.len_bytes());
            offset -= slice.len_bytes() - rest.len_bytes();
            (!rest.is_empty()).then_some(rest)
        })
    }

    /// Copies to local bytes as much as both hold. Returns how many bytes; each source byte is read once.
    #[inline]
    pub fn read(self, into: &mut [u8]) -> usize {
        let mut done = 0;
        for slice in self.slices() {
            if done == into.len() {
                break;
            }
            done += slice.read(&mut into[done..]);
        }
        done
    }

    /// Copies local bytes to the list, as much as both hold. Returns how many bytes.
    #[inline]
    pub fn write(self, from: &[u8]) -> usize {
        let mut done = 0;
        for slice in self.slices() {
            if done == from.len() {
                break;
            }
            done += slice.write(&from[done..]);
        }
        done
    }

    /// Copies at most `len` bytes to another list. Returns how many. This is the only copy between two guests.
    #[inline]
    pub fn copy_to(self, to: SgList<'_>, len: usize) -> usize {
        self.copy_by(to, len, |from, to| _ = from.copy_to(to))
    }

    /// Copies as [`SgList::copy_to`] does, and sums exactly the bytes that it copied, as one stream.
    ///
    /// Each source byte is read once, so the summed bytes are the delivered ones, whatever the peer does meanwhile.
    pub fn copy_summed_to(self, to: SgList<'_>, len: usize) -> Summed {
        let mut summing = Summing::default();
        self.copy_by(to, len, |from, to| copy_summed(from, to, &mut summing));
        summing.finish()
    }

    /// Calls `copy` for each run of bytes that is in one slice on both sides; the two slices passed to it have equal
    /// lengths.
    #[inline(always)]
    fn copy_by(
        self,
        to: SgList<'_>,
        len: usize,
        mut copy: impl FnMut(SharedSlice<'_>, SharedSlice<'_>),
    ) -> usize {
        let (mut from, mut to) = (self.slices(), to.slices());
        let (mut source, mut target) = (from.next(), to.next());
        let mut left = len;
        while let (Some(s), Some(t), true) = (source, target, left > 0) {
            let n = s.len_bytes().min(t.len_bytes()).min(left);
            copy(s.slice(0, n), t.slice(0, n));
            left -= n;
            source = if n < s.len_bytes() { Some(s.slice(n, usize::MAX)) } else { from.next() };
            target = if n < t.len_bytes() { Some(t.slice(n, usize::MAX)) } else { to.next() };
        }
        len - left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mapping;
    use crate::truncate::tests::memfd;

    #[test]
    fn lists_are_copied_across_their_joints() {
        let memory = Mapping::shared(memfd(1 << 16), 0, 1 << 16).unwrap();
        let all = SharedSlice::of_mapping(&memory);
        let source: Vec<u8> = (0..100).collect();
        all.write(&source);
        let from = [all.slice(0, 10), all.slice(10, 0), all.slice(10, 50), all.slice(60, 40)];
        let to = [all.slice(1000, 33), all.slice(2000, 1), all.slice(3000, 99)];
        let (from, to) = (SgList::new(&from), SgList::new(&to));
        assert_eq!(from.skip(5).copy_to(to.skip(3), 80), 80);
        let mut out = vec![0; 30];
        all.slice(1003, 30).read(&mut out);
        assert_eq!(out, source[5..35]);
        let mut out = vec![0; 50];
        all.slice(2000, 1).read(&mut out[..1]);
        all.slice(3000, 49).read(&mut out[1..]);
        assert_eq!(out, source[35..85]);
        assert_eq!(from.skip(90).copy_to(to, 80), 10);
        assert_eq!(from.skip(500).copy_to(to, 80), 0);
        assert_eq!(from.skip(usize::MAX).skip(1).copy_to(to, 80), 0);
        let mut out = [0; 60];
        assert_eq!(from.skip(7).read(&mut out), 60);
        assert_eq!(out, source[7..67]);
        assert_eq!(from.skip(3).skip(87).read(&mut out), 10);
        assert_eq!(out[..10], source[90..]);
        assert_eq!(from.skip(100).read(&mut out), 0);
        assert_eq!(to.skip(30).write(&[9; 40]), 40);
        let mut out = [0; 43];
        assert_eq!(to.skip(29).read(&mut out), 43);
        assert_eq!((out[0], out[1], out[40], out[41]), (source[31], 9, 9, source[72]));
        assert_eq!(to.skip(123).write(&[9; 40]), 10);
    }
}
