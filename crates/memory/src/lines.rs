//! Cache lines: asked for ahead of their use, and sent away after it.
#![allow(unsafe_code)]

use crate::SharedSlice;

/// Bytes of a cache line on the processors that matter here.
pub const LINE_BYTES: usize = 64;

/// Asks for the cache line at `at`; never faults, whatever the address.
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

/// As [`prefetch`], for a line `AT` bytes behind `at` that is to be written.
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

/// Proof that this processor can send single lines from all caches to memory, without waiting for each.
#[derive(Clone, Copy, Debug)]
pub struct Evict(());

impl Evict {
    /// `None` where the processor has no such instruction for us.
    pub fn detect() -> Option<Evict> {
        #[cfg(target_arch = "x86_64")]
        let able = {
            use std::arch::x86_64::{__cpuid, __cpuid_count};
            const FEATURES: u32 = 7;
            const CLFLUSHOPT: u32 = 1 << 23;
            #[allow(unused_unsafe)] // safe since Rust 1.93 only
            // SAFETY: every x86-64 processor has CPUID, and the leaf is asked for only if it is there.
            unsafe {
                __cpuid(0).eax >= FEATURES && __cpuid_count(FEATURES, 0).ebx & CLFLUSHOPT != 0
            }
        };
        // Linux lets user space do it (SCTLR_EL1.UCI).
        #[cfg(not(target_arch = "x86_64"))]
        let able = cfg!(target_arch = "aarch64");
        able.then_some(Evict(()))
    }

    /// Sends the line in which a value begins to memory. Its bytes stay what they are, whoever writes to it.
    #[inline(always)]
    pub fn value<T>(self, value: &T) {
        // SAFETY: a reference is mapped, and this processor has the instruction: `self` says so.
        unsafe { evict(std::ptr::from_ref(value).cast()) }
    }

    /// As [`Evict::value`], for the line of the byte `offset` bytes into a slice; nothing where there is none.
    #[inline(always)]
    pub fn slice(self, slice: SharedSlice<'_>, offset: usize) {
        if offset < slice.len_bytes() {
            // SAFETY: the slice's bytes are mapped for as long as it lives, and a page that its file has lost
            // is dealt with as when it is read (`truncate`). This processor has the instruction.
            unsafe { evict(slice.as_ptr().wrapping_add(offset)) }
        }
    }

    /// Waits until what was sent has arrived.
    #[inline]
    pub fn wait(self) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        #[cfg(target_arch = "aarch64")]
        // SAFETY: a barrier; it changes no register or flag.
        unsafe {
            std::arch::asm!("dsb ish", options(nostack, preserves_flags));
        }
    }
}

/// # Safety
/// `at` must be mapped and readable, and the processor one for which [`Evict`] exists.
#[inline(always)]
unsafe fn evict(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: faults like a load of the byte, for which the caller vouches; memory and flags stay as they are.
    unsafe {
        std::arch::asm!("clflushopt [{at}]", at = in(reg) at, options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: faults like a load of the byte, for which the caller vouches; memory and flags stay as they are.
    unsafe {
        std::arch::asm!("dc civac, {at}", at = in(reg) at, options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Mapping, sealed_memfd};

    #[test]
    fn evicted_bytes_stay_what_they_are() {
        let Some(evict) = Evict::detect() else {
            println!("this processor cannot send single lines to memory: nothing to test");
            return;
        };
        let file = sealed_memfd(c"evicted", 4096).unwrap();
        let mapping = Arc::new(Mapping::shared(&file, 0, 4096).unwrap());
        let all = SharedSlice::of_mapping(&mapping);
        let bytes: [u8; 200] = std::array::from_fn(|i| i as u8);
        all.write(&bytes);
        for offset in [0, 63, 64, 100, 4095, 4096, usize::MAX] {
            evict.slice(all, offset);
        }
        let number = Box::new(7u64);
        evict.value(&*number);
        evict.wait();
        let mut back = [0; 200];
        all.read(&mut back);
        assert_eq!((back, *number), (bytes, 7));
        // The second is empty.
        evict.slice(all.slice(64, 1), 0);
        evict.slice(all.slice(64, 0), 0);
    }
}
