//! Keyed hashes of a few words: a sender that chooses the input without knowing the key cannot choose the hash.
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// A random key. Hashes never leave the process. The two multiplications mix every bit of the key with every bit
/// of the input, so no difference of two inputs collides under all keys.
#[derive(Clone, Copy, Debug)]
pub struct Key([u64; 2]);

impl Key {
    /// A key from the system's random numbers, by way of the standard library's hash maps.
    pub fn random() -> Self {
        let word = |n: u64| RandomState::new().hash_one(n);
        Key([word(1), word(2) | 1])
    }

    /// One word.
    #[inline(always)]
    pub fn hash(&self, word: u64) -> u64 {
        let [a, b] = self.0;
        fold(fold(word ^ a, b) ^ b.rotate_left(32), a | 1)
    }

    /// Continues `hash` with one more word.
    #[inline(always)]
    pub fn more(&self, hash: u64, word: u64) -> u64 {
        self.hash(hash.rotate_left(29) ^ word)
    }
}

/// Combines both halves of the product.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_spread_over_all_places() {
        for _ in 0..20 {
            let key = Key::random();
            for step in [1, 2, 1 << 8, 1 << 16, 1 << 24, 1 << 40] {
                let mut places = [0u32; 64];
                (0..6400).for_each(|n| places[key.hash(0x0200_0000_0000 + n * step) as usize % 64] += 1);
                // Mean 100, deviation 10: eight deviations happen by chance once in 10^14.
                assert!(places.iter().all(|n| (20..180).contains(n)), "step {step}: {places:?}");
            }
        }
    }
}
