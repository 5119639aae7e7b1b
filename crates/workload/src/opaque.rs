//! Hides a value from the compiler without an extra instruction.
//!
//! `std::hint::black_box` passes the value through memory, which would add a store and a load to every step of a
//! dependent chain; an empty assembly statement keeps the value in its register.

use std::arch::asm;

macro_rules! through_register {
    ($(#[$doc:meta] $name:ident($type:ty) in $x86:ident $x86_text:literal or $arm:ident $arm_text:literal;)*) => {$(
        #[$doc]
        #[inline(always)]
        pub(crate) fn $name(mut value: $type) -> $type {
            // SAFETY: no instruction is emitted; the register keeps its value, memory, the stack and the
            // flags are not touched.
            #[cfg(target_arch = "x86_64")]
            unsafe {
                asm!($x86_text, inout($x86) value, options(nomem, nostack, preserves_flags))
            };
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            unsafe {
                asm!($arm_text, inout($arm) value, options(nomem, nostack, preserves_flags))
            };
            value
        }
    )*};
}

through_register! {
    /// Hides a 32-bit integer.
    hide_u32(u32) in reg "/* {0:e} */" or reg "/* {0:w} */";
    /// Hides a 64-bit integer.
    hide_u64(u64) in reg "/* {0:r} */" or reg "/* {0:x} */";
    /// Hides a single-precision number.
    hide_f32(f32) in xmm_reg "/* {0} */" or vreg "/* {0:s} */";
    /// Hides a double-precision number.
    hide_f64(f64) in xmm_reg "/* {0} */" or vreg "/* {0:d} */";
}
