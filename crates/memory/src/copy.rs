//! Copies that read each byte exactly once.
#![allow(unsafe_code)]

use crate::wide;
use crate::word::{Chunk, Word};

/// Copies `len` bytes, reading each source byte once and writing each target byte once. Other threads may access the
/// bytes meanwhile: the compiler can neither repeat nor drop the accesses of [`Word`], nor turn them into a `memcpy`,
/// which assumes that no other thread does.
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
