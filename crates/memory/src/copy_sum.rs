//! The copy between two guests that also sums the bytes, for checksums that a sender left undone.
#![allow(unsafe_code)]

use crate::SharedSlice;
use crate::word::Word;

/// The result of a summing copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summed {
    /// The number of bytes copied.
    pub bytes: usize,
    /// The one's complement sum of the bytes as 16-bit words, the first byte high (RFC 1071 §1): folded, not
    /// complemented. An odd last byte counts as if a zero followed it.
    pub sum: u16,
}

/// The sum of a copy in progress.
#[derive(Default)]
pub(crate) struct Summing {
    bytes: usize,
    total: u64,
}

impl Summing {
    /// Adds the bytes behind those so far, by the folded sum of their little-endian words.
    fn add(&mut self, bytes: usize, sum: u16) {
        // A part that begins in the middle of a word has its bytes in the other halves (RFC 1071 §2(B)).
        let odd = !self.bytes.is_multiple_of(2);
        self.total += u64::from(if odd { sum.swap_bytes() } else { sum });
        self.bytes += bytes;
    }

    /// The result. Words are summed as little-endian, which gives the same sum with its bytes swapped (RFC 1071
    /// §2(B)).
    pub fn finish(self) -> Summed {
        Summed { bytes: self.bytes, sum: fold(u128::from(self.total)).swap_bytes() }
    }
}

/// Copies as much as both slices hold, and adds the bytes to the sum.
pub(crate) fn copy_summed(from: SharedSlice<'_>, to: SharedSlice<'_>, summing: &mut Summing) {
    let bytes = from.len_bytes().min(to.len_bytes());
    // SAFETY: both slices hold that many bytes.
    let sum = unsafe { copy_volatile_summed(from.as_ptr(), to.as_ptr(), bytes) };
    summing.add(bytes, sum);
}

/// Adds the upper halves to the lower ones until 16 bits are left.
fn fold(sum: u128) -> u16 {
    // Each line's result fits the next one's type with a bit or more to spare.
    let sum = (sum >> 64) + (sum & u128::from(u64::MAX));
    let sum = (sum >> 64) as u64 + (sum >> 32 & 0xffff_ffff) as u64 + (sum & 0xffff_ffff) as u64;
    let sum = (sum >> 32) + (sum >> 16 & 0xffff) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

/// Copies `len` bytes like the plain copy, one read and one write of each, and returns
/// the folded sum of their little-endian 16-bit words.
///
/// # Safety
/// Both pointers must be valid for `len` bytes, for reading and writing respectively.
#[inline(always)]
unsafe fn copy_volatile_summed(from: *const u8, to: *mut u8, len: usize) -> u16 {
    /// Copies a word.
    ///
    /// # Safety
    /// As for the whole copy.
    #[inline(always)]
    unsafe fn step<T: Word, const AT: usize>(from: *const u8, to: *mut u8) -> u128
    where
        u128: From<T>,
    {
        // SAFETY: the caller's promise.
        unsafe {
            let value = T::load::<AT>(from);
            value.store::<AT>(to);
            value.into()
        }
    }
    // Two sums, so that the carries of one do not wait for the other's. 2^64 words fit before they overflow.
    let (mut even, mut odd) = (0_u128, 0_u128);
    // SAFETY: the loop conditions keep each word inside `len`.
    unsafe {
        let word = |at| (from.add(at), to.add(at));
        let mut at = 0;
        while len - at >= 32 {
            let (from, to) = word(at);
            even += step::<u64, 0>(from, to);
            odd += step::<u64, 8>(from, to);
            even += step::<u64, 16>(from, to);
            odd += step::<u64, 24>(from, to);
            at += 32;
        }
        while len - at >= 8 {
            let (from, to) = word(at);
            even += step::<u64, 0>(from, to);
            at += 8;
        }
        if len - at >= 4 {
            let (from, to) = word(at);
            even += step::<u32, 0>(from, to);
            at += 4;
        }
        if len - at >= 2 {
            let (from, to) = word(at);
            even += step::<u16, 0>(from, to);
            at += 2;
        }
        if at < len {
            let (from, to) = word(at);
            even += step::<u8, 0>(from, to);
        }
    }
    fold(even + odd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::truncate::tests::memfd;
    use crate::{Mapping, SgList};
    use proptest::prelude::*;
    use virtio::net::checksum;

    fn mapping() -> Mapping {
        Mapping::shared(memfd(1 << 18), 0, 1 << 18).unwrap()
    }

    /// Pieces of these lengths with gaps between them.
    fn cut<'a>(all: SharedSlice<'a>, from: usize, lengths: &[usize]) -> Vec<SharedSlice<'a>> {
        let mut at = from;
        let piece = |len: &usize| {
            let slice = all.slice(at, *len);
            at += len + 3;
            slice
        };
        lengths.iter().map(piece).collect()
    }

    #[test]
    fn the_example_of_the_rfc_and_the_extremes() {
        let memory = mapping();
        let all = SharedSlice::of_mapping(&memory);
        let summed = |bytes: &[u8]| {
            all.write(bytes);
            let (from, to) = ([all.slice(0, bytes.len())], [all.slice(100_000, 90_000)]);
            SgList::new(&from).copy_summed_to(SgList::new(&to), 90_000)
        };
        // RFC 1071 §3.
        let example = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(summed(&example), Summed { bytes: 8, sum: 0xddf2 });
        assert_eq!(summed(&[]), Summed { bytes: 0, sum: 0 });
        assert_eq!(summed(&[0; 9000]), Summed { bytes: 9000, sum: 0 });
        assert_eq!(summed(&[0xff; 70_000]), Summed { bytes: 70_000, sum: 0xffff });
        assert_eq!(summed(&[0xff; 3]), Summed { bytes: 3, sum: checksum::sum(&[0xff; 3]) });
        assert_eq!(fold(u128::MAX), 0xffff);
        assert_eq!(fold(u128::from(u64::MAX) + 1), 1);
    }

    proptest! {
        #[test]
        fn copy_and_sum_are_those_of_the_stream_however_it_is_cut(
            bytes in prop::collection::vec(any::<u8>(), 0..4000),
            from_lengths in prop::collection::vec(0_usize..700, 1..12),
            to_lengths in prop::collection::vec(0_usize..700, 1..12),
            from_offset in 0_usize..50,
            to_offset in 0_usize..50,
            len in 0_usize..5000,
        ) {
            let memory = mapping();
            let all = SharedSlice::of_mapping(&memory);
            let from = cut(all, 1, &from_lengths);
            let to = cut(all, 100_000, &to_lengths);
            let mut at = 0;
            for slice in &from {
                at += slice.write(&bytes[at.min(bytes.len())..]);
            }
            let mut stream = bytes[..at].to_vec();
            stream.resize(from_lengths.iter().sum(), 0);
            let (from, to) = (SgList::new(&from), SgList::new(&to));
            let summed = from.skip(from_offset).copy_summed_to(to.skip(to_offset), len);
            let room = to_lengths.iter().sum::<usize>().saturating_sub(to_offset);
            let expected = stream.get(from_offset..).unwrap_or(&[]);
            let expected = &expected[..expected.len().min(room).min(len)];
            prop_assert_eq!(summed.bytes, expected.len());
            prop_assert_eq!(summed.sum, checksum::sum(expected));
            let mut arrived = vec![0; summed.bytes];
            to.skip(to_offset).read(&mut arrived);
            prop_assert_eq!(arrived, expected);
        }
    }
}
