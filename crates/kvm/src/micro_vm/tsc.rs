//! The time-stamp counter, and whether the CPU is emulated.

use std::arch::x86_64::{__cpuid, _mm_lfence, _rdtsc};

/// Reads the TSC after all earlier instructions have completed and before later ones begin, in ticks.
#[allow(unused_unsafe, reason = "some of these are safe functions in newer versions of Rust")]
pub fn stamp() -> u64 {
    // SAFETY: every 64-bit x86 CPU has both instructions; they touch no memory.
    unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    }
}

/// Spins until the TSC has reached `deadline`.
pub fn spin_until(deadline: u64) {
    while stamp() < deadline {
        std::hint::spin_loop();
    }
}

/// Whether the CPU is emulated by QEMU, by the name of its hypervisor.
#[allow(unused_unsafe, reason = "a safe function in newer versions of Rust")]
pub fn is_emulated() -> bool {
    const HYPERVISOR: u32 = 1 << 31;
    // SAFETY: every 64-bit x86 CPU has the instruction; a leaf that it lacks reads as some other.
    let (features, name) = unsafe { (__cpuid(1), __cpuid(0x4000_0000)) };
    let letters = [name.ebx, name.ecx, name.edx].map(u32::to_le_bytes).concat();
    features.ecx & HYPERVISOR != 0 && letters == b"TCGTCGTCGTCG"
}

/// Whether the hypercall instruction is AMD's `vmmcall`.
#[allow(unused_unsafe, reason = "a safe function in newer versions of Rust")]
pub fn is_amd() -> bool {
    // SAFETY: as above.
    let name = unsafe { __cpuid(0) };
    let letters = [name.ebx, name.edx, name.ecx].map(u32::to_le_bytes).concat();
    letters == b"AuthenticAMD" || letters == b"HygonGenuine"
}
