//! Barriers that reach devices on a bus.
#![allow(unsafe_code)]

/// The instruction on aarch64, the strongest fence on other processors that need one.
macro_rules! barriers {
    ($($(#[$doc:meta])* $name:ident: $instruction:literal, a fence where $others:meta;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub(crate) fn $name() {
            #[cfg(target_arch = "aarch64")]
            // SAFETY: a barrier touches neither memory, stack nor flags.
            unsafe {
                std::arch::asm!($instruction, options(nostack, preserves_flags));
            }
            #[cfg($others)]
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        }
    )*};
}

// x86 keeps writes to write-back memory in order for devices too, and reads (TSO); a write may pass a later read.
barriers! {
    /// Orders earlier writes before later writes, as a device sees them.
    store_barrier: "dmb oshst", a fence where not(any(target_arch = "aarch64", target_arch = "x86_64"));
    /// Orders earlier reads before later reads, as a device wrote them.
    load_barrier: "dmb oshld", a fence where not(any(target_arch = "aarch64", target_arch = "x86_64"));
    /// Orders an earlier write before a later read.
    full_barrier: "dmb osh", a fence where not(target_arch = "aarch64");
}
