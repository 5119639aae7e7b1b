//! Prefetching of cache lines.
#![allow(unsafe_code)]

/// Bytes of a cache line on the supported processors.
pub const LINE_BYTES: usize = 64;

/// Prefetches the cache line at `at`. It never faults, whatever the address.
#[inline(always)]
pub fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint and never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch is a hint and never faults; it changes no register or flag.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{at}]", at = in(reg) at,
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

/// As [`prefetch`], for writing, and for the line `AT` bytes behind `at`.
#[inline(always)]
pub(crate) fn prefetch_write<const AT: usize>(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint and never faults; it changes no register or flag, and processors without
    // the instruction take it for a no-op (AMD64 Architecture Programmer's Manual 3, PREFETCHW).
    unsafe {
        std::arch::asm!("prefetchw [{at} + {offset}]", at = in(reg) at, offset = const AT,
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch is a hint and never faults; it changes no register or flag.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{at}]", at = in(reg) at.wrapping_add(AT),
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}
