//! Barriers that reach devices on a bus.
#![allow(unsafe_code)]

/// Orders earlier writes before later writes, as a device sees them.
#[inline(always)]
pub(crate) fn store_barrier() {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier touches neither memory, stack nor flags.
    unsafe {
        std::arch::asm!("dmb oshst", options(nostack, preserves_flags));
    }
    // x86 keeps write-back memory in order for devices too (TSO); others get the strongest fence.
    #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// Orders earlier reads before later reads, as a device wrote them.
#[inline(always)]
pub(crate) fn load_barrier() {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier touches neither memory, stack nor flags.
    unsafe {
        std::arch::asm!("dmb oshld", options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// Orders an earlier write before a later read.
#[inline(always)]
pub(crate) fn full_barrier() {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier touches neither memory, stack nor flags.
    unsafe {
        std::arch::asm!("dmb osh", options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "aarch64"))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}
