//! Copies of several cache lines with wider words than every processor has.
//!
//! A copy between two cores waits for cache lines. The processor requests as many of them at once as its load and
//! store queues hold. Words of twice the length cover twice as many lines in the same queues. Words of 64 bytes are
//! hardly faster, and slow some processors down.
#![allow(unsafe_code)]

use crate::lines::LINE_BYTES;

/// Shorter copies are over before it pays to begin.
const LEAST_BYTES: usize = 2 * LINE_BYTES;

/// Copies the whole lines of `len` bytes, under the conditions of `copy_volatile`. Returns how many bytes: none if
/// there are few, or if the processor has no wider words.
///
/// # Safety
/// Both pointers must be valid for `len` bytes, for reading and writing respectively.
#[inline(always)]
pub(crate) unsafe fn copy_lines(from: *const u8, to: *mut u8, len: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    if len >= LEAST_BYTES && std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the caller's promise, and the processor has the instructions.
        return unsafe { x86::copy_lines(from, to, len) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (from, to, len, LEAST_BYTES);
    0
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::_mm256_zeroupper;

    use super::LINE_BYTES;

    /// As the outer function, in assembly for the reasons that [`Word`](crate::word::Word) gives.
    ///
    /// # Safety
    /// As the outer function, on a processor that has AVX.
    #[target_feature(enable = "avx")]
    pub unsafe fn copy_lines(from: *const u8, to: *mut u8, len: usize) -> usize {
        let mut at = 0;
        while len - at >= 4 * LINE_BYTES {
            // All loads before the first store, so that stores that wait keep no load from being asked for.
            // SAFETY: loads and stores of four lines that the caller vouches for; nothing else changes.
            unsafe {
                asm!(
                    "vmovups {a}, [{from}]", "vmovups {b}, [{from} + 32]",
                    "vmovups {c}, [{from} + 64]", "vmovups {d}, [{from} + 96]",
                    "vmovups {e}, [{from} + 128]", "vmovups {f}, [{from} + 160]",
                    "vmovups {g}, [{from} + 192]", "vmovups {h}, [{from} + 224]",
                    "vmovups [{to}], {a}", "vmovups [{to} + 32], {b}",
                    "vmovups [{to} + 64], {c}", "vmovups [{to} + 96], {d}",
                    "vmovups [{to} + 128], {e}", "vmovups [{to} + 160], {f}",
                    "vmovups [{to} + 192], {g}", "vmovups [{to} + 224], {h}",
                    from = in(reg) from.add(at), to = in(reg) to.add(at),
                    a = out(ymm_reg) _, b = out(ymm_reg) _, c = out(ymm_reg) _, d = out(ymm_reg) _,
                    e = out(ymm_reg) _, f = out(ymm_reg) _, g = out(ymm_reg) _, h = out(ymm_reg) _,
                    options(nostack, preserves_flags));
            }
            at += 4 * LINE_BYTES;
        }
        while len - at >= LINE_BYTES {
            // SAFETY: as above, one line.
            unsafe {
                asm!(
                    "vmovups {a}, [{from}]", "vmovups {b}, [{from} + 32]",
                    "vmovups [{to}], {a}", "vmovups [{to} + 32], {b}",
                    from = in(reg) from.add(at), to = in(reg) to.add(at),
                    a = out(ymm_reg) _, b = out(ymm_reg) _,
                    options(nostack, preserves_flags));
            }
            at += LINE_BYTES;
        }
        // Code that does not use the upper halves of the registers is slow on some processors while they are not zero.
        _mm256_zeroupper();
        at
    }
}
