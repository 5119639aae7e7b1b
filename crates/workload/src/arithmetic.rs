//! Arithmetic modulo 2^64.

/// The inverse of an odd number modulo 2^64 by Newton's iteration, which doubles the correct bits each step.
pub(crate) const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut step = 0;
    while step < 6 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}
