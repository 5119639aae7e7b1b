//! Comparisons that read each byte exactly once.
#![allow(unsafe_code)]

use crate::word::Word;

/// Compares `N` bytes, reading each byte at `at` once.
///
/// # Safety
/// `at` must be valid for reading `N` bytes.
#[inline(always)]
pub(crate) unsafe fn equal_volatile<const N: usize>(at: *const u8, bytes: &[u8; N]) -> bool {
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
