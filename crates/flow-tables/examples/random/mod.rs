//! Random numbers that repeat.
#![allow(dead_code, reason = "each example uses its part")]

/// xorshift64 (G. Marsaglia, Journal of Statistical Software 8(14), 2003).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 16) % limit
    }

    pub fn percent(&mut self) -> u64 {
        self.below(100)
    }
}
