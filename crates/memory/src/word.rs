//! Loads and stores of words at any address, each of them exactly one instruction.
//!
//! A volatile read needs an aligned address, and one through a packed struct is compiled to a store and a load on the
//! stack. That would cost two more instructions for every word of the copy between two guests. An `asm!` block that
//! is not `pure` is likewise executed exactly as often as the program says, and is exactly one instruction.
#![allow(unsafe_code)]

/// Sixteen bytes that one load and one store copy.
#[cfg(target_arch = "x86_64")]
pub(crate) type Chunk = std::arch::x86_64::__m128i;
#[cfg(target_arch = "aarch64")]
pub(crate) type Chunk = std::arch::aarch64::uint8x16_t;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) type Chunk = [u64; 2];

/// A word that is copied at once, and for which all bit patterns are valid.
pub(crate) trait Word: Copy {
    /// Reads the word `AT` bytes behind `from`, once.
    ///
    /// # Safety
    /// The word's bytes must be valid for reading. Other threads may write them meanwhile.
    unsafe fn load<const AT: usize>(from: *const u8) -> Self;

    /// Writes the word `AT` bytes behind `to`, once.
    ///
    /// # Safety
    /// The word's bytes must be valid for writing. Other threads may access them meanwhile.
    unsafe fn store<const AT: usize>(self, to: *mut u8);
}

impl Word for u8 {
    // SAFETY: the promise is the trait's.
    #[inline(always)]
    unsafe fn load<const AT: usize>(from: *const u8) -> Self {
        // SAFETY: the caller's promise; bytes are always aligned.
        unsafe { from.add(AT).read_volatile() }
    }

    // SAFETY: the promise is the trait's.
    #[inline(always)]
    unsafe fn store<const AT: usize>(self, to: *mut u8) {
        // SAFETY: as above.
        unsafe { to.add(AT).write_volatile(self) }
    }
}

/// A word type with its register class and the two instructions, which take any address.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! word {
    ($type:ty, $class:ident, $load:literal, $store:literal) => {
        impl Word for $type {
            // SAFETY: the promise is the trait's.
            #[inline(always)]
            unsafe fn load<const AT: usize>(from: *const u8) -> Self {
                let value;
                // SAFETY: one load of the bytes that the caller vouches for; nothing else changes.
                unsafe {
                    std::arch::asm!($load, value = lateout($class) value, at = in(reg) from, offset = const AT,
                        options(nostack, preserves_flags, readonly));
                }
                value
            }

            // SAFETY: the promise is the trait's.
            #[inline(always)]
            unsafe fn store<const AT: usize>(self, to: *mut u8) {
                // SAFETY: one store to the bytes that the caller vouches for; nothing else changes.
                unsafe {
                    std::arch::asm!($store, value = in($class) self, at = in(reg) to, offset = const AT,
                        options(nostack, preserves_flags));
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod instructions {
    use super::{Chunk, Word};

    word!(
        u16,
        reg,
        "movzx {value:e}, word ptr [{at} + {offset}]",
        "mov word ptr [{at} + {offset}], {value:x}"
    );
    word!(
        u32,
        reg,
        "mov {value:e}, dword ptr [{at} + {offset}]",
        "mov dword ptr [{at} + {offset}], {value:e}"
    );
    word!(u64, reg, "mov {value}, qword ptr [{at} + {offset}]", "mov qword ptr [{at} + {offset}], {value}");
    word!(
        Chunk,
        xmm_reg,
        "movups {value}, xmmword ptr [{at} + {offset}]",
        "movups xmmword ptr [{at} + {offset}], {value}"
    );
}

#[cfg(target_arch = "aarch64")]
mod instructions {
    use super::{Chunk, Word};

    word!(u16, reg, "ldrh {value:w}, [{at}, #{offset}]", "strh {value:w}, [{at}, #{offset}]");
    word!(u32, reg, "ldr {value:w}, [{at}, #{offset}]", "str {value:w}, [{at}, #{offset}]");
    word!(u64, reg, "ldr {value:x}, [{at}, #{offset}]", "str {value:x}, [{at}, #{offset}]");
    word!(Chunk, vreg, "ldr {value:q}, [{at}, #{offset}]", "str {value:q}, [{at}, #{offset}]");
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod instructions {
    use super::{Chunk, Word};

    #[repr(C, packed)]
    #[derive(Clone, Copy)]
    struct Unaligned<T>(T);

    macro_rules! word {
        ($($type:ty),*) => {$(
            impl Word for $type {
                // SAFETY: the promise is the trait's.
                #[inline(always)]
                unsafe fn load<const AT: usize>(from: *const u8) -> Self {
                    // SAFETY: the caller's promise; a packed struct may lie anywhere.
                    unsafe { from.add(AT).cast::<Unaligned<$type>>().read_volatile().0 }
                }

                // SAFETY: the promise is the trait's.
                #[inline(always)]
                unsafe fn store<const AT: usize>(self, to: *mut u8) {
                    // SAFETY: as above.
                    unsafe { to.add(AT).cast::<Unaligned<$type>>().write_volatile(Unaligned(self)) }
                }
            }
        )*};
    }
    word!(u16, u32, u64, Chunk);
}
