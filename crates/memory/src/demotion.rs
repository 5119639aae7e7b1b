//! Demotion of cache lines after their use.
#![allow(unsafe_code)]

use crate::SharedSlice;

/// Asynchronous cache-line demotion; contents never change. Holding a value proves CPU support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demotion(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    WriteBack,
    Evict,
}

impl Demotion {
    /// Writes changed lines to memory; caches may keep them.
    pub fn write_back() -> Option<Demotion> {
        // Bit 24 is CLWB (AMD64 Architecture Programmer's Manual 3, appendix D.4).
        able(1 << 24).then_some(Demotion(Kind::WriteBack))
    }

    /// Sends lines from all caches to memory.
    pub fn evict() -> Option<Demotion> {
        // Bit 23 is CLFLUSHOPT.
        able(1 << 23).then_some(Demotion(Kind::Evict))
    }

    /// Whether no cache keeps the lines.
    #[inline(always)]
    pub fn evicts(self) -> bool {
        self.0 == Kind::Evict
    }

    /// Demotes the line in which a value begins.
    #[inline(always)]
    pub fn value<T>(self, value: &T) {
        // SAFETY: a reference is mapped, and this processor has the instruction: `self` says so.
        unsafe { self.line(std::ptr::from_ref(value).cast()) }
    }

    /// As [`Demotion::value`], for the line of the byte `offset` bytes into a slice. Does nothing if there is no such
    /// byte.
    #[inline(always)]
    pub fn slice(self, slice: SharedSlice<'_>, offset: usize) {
        if offset < slice.len_bytes() {
            // SAFETY: the slice's bytes are mapped for as long as it lives, and a page that its file has lost
            // is dealt with as when it is read (`truncate`). This processor has the instruction.
            unsafe { self.line(slice.as_ptr().wrapping_add(offset)) }
        }
    }

    /// # Safety
    /// `at` must be mapped and readable, and the processor one that has the instruction.
    #[inline(always)]
    unsafe fn line(self, at: *const u8) {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        macro_rules! instruction {
            ($text:literal) => {
                // SAFETY: faults like a load of the byte, for which the caller vouches; memory and flags stay as they are.
                unsafe { std::arch::asm!($text, at = in(reg) at, options(nostack, preserves_flags)) }
            };
        }
        #[cfg(target_arch = "x86_64")]
        match self.0 {
            Kind::WriteBack => instruction!("clwb [{at}]"),
            Kind::Evict => instruction!("clflushopt [{at}]"),
        }
        #[cfg(target_arch = "aarch64")]
        match self.0 {
            Kind::WriteBack => instruction!("dc cvac, {at}"),
            Kind::Evict => instruction!("dc civac, {at}"),
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = at;
    }
}

/// Whether the processor has the feature of this bit in EBX of CPUID's leaf 7.
#[cfg(target_arch = "x86_64")]
fn able(feature: u32) -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const FEATURES: u32 = 7;
    #[allow(unused_unsafe)] // safe since Rust 1.93 only
    // SAFETY: every x86-64 processor has CPUID, and the leaf is asked for only if it is there.
    unsafe {
        __cpuid(0).eax >= FEATURES && __cpuid_count(FEATURES, 0).ebx & feature != 0
    }
}

/// Linux lets user space do both on aarch64 (SCTLR_EL1.UCI).
#[cfg(not(target_arch = "x86_64"))]
fn able(_: u32) -> bool {
    cfg!(target_arch = "aarch64")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Mapping, sealed_memfd};

    #[test]
    fn bytes_stay_what_they_are() {
        let file = sealed_memfd(c"flushed", 4096).unwrap();
        let mapping = Arc::new(Mapping::shared(&file, 0, 4096).unwrap());
        let all = SharedSlice::of_mapping(&mapping);
        for flush in [Demotion::write_back(), Demotion::evict()] {
            let Some(flush) = flush else {
                println!("this processor cannot demote single lines so: nothing to test");
                continue;
            };
            let bytes: [u8; 200] = std::array::from_fn(|i| i as u8);
            all.write(&bytes);
            for offset in [0, 63, 64, 100, 4095, 4096, usize::MAX] {
                flush.slice(all, offset);
            }
            let number = Box::new(7u64);
            flush.value(&*number);
            let mut back = [0; 200];
            all.read(&mut back);
            assert_eq!((back, *number), (bytes, 7));
            // The second is empty.
            flush.slice(all.slice(64, 1), 0);
            flush.slice(all.slice(64, 0), 0);
        }
    }
}
