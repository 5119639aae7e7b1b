//! Reproducible input and checksums for the kernels.

/// A linear congruential generator with the constants of Numerical Recipes.
pub(crate) struct Generator(u32);

impl Generator {
    pub(crate) const fn new(seed: u32) -> Self {
        Generator(seed)
    }

    pub(crate) const fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0
    }
}

/// A checksum that depends on the order of the values.
pub(crate) fn fold(sum: u32, value: u32) -> u32 {
    (sum.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b1)
}
