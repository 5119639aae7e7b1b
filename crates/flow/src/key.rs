//! The fields of one frame as 64-bit words, and masks of the same form.
use std::fmt;
use std::ops::Range;

use crate::Field;

/// The fields of a frame, or a mask of fields: each [`Field`] has a fixed place. Values are numbers in the CPU's byte
/// order.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    words: [u64; Key::WORDS],
}

impl Key {
    /// The number of words in a key.
    pub const WORDS: usize = 51;
    /// A key with all bits clear.
    pub const ZERO: Key = Key { words: [0; Key::WORDS] };

    /// The words of the key. [`Field::place`] gives the place of a field.
    pub fn words(&self) -> &[u64; Key::WORDS] {
        &self.words
    }

    /// The value of a field.
    #[inline]
    pub fn get(&self, field: Field) -> u128 {
        let (word, shift) = field.place();
        if field.bits() > 64 {
            return u128::from(self.words[word]) << 64 | u128::from(self.words[word + 1]);
        }
        u128::from(self.words[word] >> shift) & field.all_bits()
    }

    /// Sets the value of a field. Bits beyond the field's width are ignored.
    #[inline]
    pub fn set(&mut self, field: Field, value: u128) {
        self.set_masked(field, value, u128::MAX);
    }

    /// Sets the bits of a field that are set in `mask`.
    #[inline]
    pub fn set_masked(&mut self, field: Field, value: u128, mask: u128) {
        let (word, shift) = field.place();
        let mask = mask & field.all_bits();
        if field.bits() > 64 {
            self.put(word, (value >> 64) as u64, (mask >> 64) as u64);
            self.put(word + 1, value as u64, mask as u64);
        } else {
            self.put(word, (value as u64) << shift, (mask as u64) << shift);
        }
    }

    #[inline]
    fn put(&mut self, word: usize, value: u64, mask: u64) {
        self.words[word] = self.words[word] & !mask | value & mask;
    }

    /// Sets all bits of these words to zero.
    ///
    /// # Panics
    /// Panics if the range is beyond [`Key::WORDS`].
    #[inline]
    pub fn clear_words(&mut self, range: Range<usize>) {
        self.words[range].fill(0);
    }

    /// The number of words of [`Key::tunnel`].
    pub const TUNNEL_WORDS: usize = 15;
    /// The place of the tunnel's key, and of its other fields.
    const TUNNEL_ID: usize = 1;
    const TUNNEL: Range<usize> = 20..34;

    /// The fields of the tunnel: its key first.
    pub fn tunnel(&self) -> [u64; Key::TUNNEL_WORDS] {
        let mut words = [0; Key::TUNNEL_WORDS];
        words[0] = self.words[Self::TUNNEL_ID];
        words[1..].copy_from_slice(&self.words[Self::TUNNEL]);
        words
    }

    /// Sets the fields of the tunnel.
    pub fn set_tunnel(&mut self, words: &[u64; Key::TUNNEL_WORDS]) {
        self.words[Self::TUNNEL_ID] = words[0];
        self.words[Self::TUNNEL].copy_from_slice(&words[1..]);
    }

    /// Replaces these words.
    ///
    /// # Panics
    /// Panics if the words are beyond [`Key::WORDS`].
    pub fn set_words(&mut self, first: usize, words: &[u64]) {
        self.words[first..first + words.len()].copy_from_slice(words);
    }

    /// Sets all bits that are set in the other key too.
    pub fn add(&mut self, bits: &Key) {
        self.words.iter_mut().zip(&bits.words).for_each(|(word, bits)| *word |= bits);
    }

    /// Clears all bits that are not set in these words.
    pub fn keep(&mut self, bits: &[u64; Key::WORDS]) {
        self.words.iter_mut().zip(bits).for_each(|(word, bits)| *word &= bits);
    }

    /// Whether all bits are set in the other key too.
    pub fn is_within(&self, other: &Key) -> bool {
        self.words.iter().zip(&other.words).fold(0, |out, (word, other)| out | word & !other) == 0
    }

    /// Copies these words from another key.
    ///
    /// # Panics
    /// Panics if the range is beyond [`Key::WORDS`].
    pub fn copy_words(&mut self, from: &Key, range: Range<usize>) {
        self.words[range.clone()].copy_from_slice(&from.words[range]);
    }

    /// This key with all bits of a field set; used to build a mask.
    pub fn with_all(mut self, field: Field) -> Self {
        self.set(field, u128::MAX);
        self
    }

    /// The bits that are set in both.
    pub fn and(&self, mask: &Key) -> Key {
        let mut words = self.words;
        words.iter_mut().zip(&mask.words).for_each(|(word, mask)| *word &= mask);
        Key { words }
    }

    /// Whether the bits of `mask` have the same values in both keys.
    pub fn same_under(&self, other: &Key, mask: &Key) -> bool {
        (0..Key::WORDS).all(|word| (self.words[word] ^ other.words[word]) & mask.words[word] == 0)
    }

    /// The words, first to last, that have a bit set; empty if there is none.
    pub fn used_words(&self) -> Range<usize> {
        let first = self.words.iter().position(|word| *word != 0).unwrap_or(0);
        first..self.words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for field in Field::ALL.iter().filter(|field| self.get(**field) != 0) {
            map.entry(&field.name(), &format_args!("{:#x}", self.get(*field)));
        }
        map.finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_words_of_a_tunnel_are_those_of_its_fields() {
        let mut all = Key::ZERO;
        all.set_tunnel(&[u64::MAX; Key::TUNNEL_WORDS]);
        for field in Field::ALL {
            let is_of_tunnel = field.name().starts_with("tun_");
            assert_eq!(all.get(*field) != 0, is_of_tunnel, "{field:?}");
        }
        let mut again = Key::ZERO;
        again.set_tunnel(&all.tunnel());
        assert_eq!(again, all);
    }

    proptest! {
        #[test]
        fn a_field_is_read_as_it_was_set_and_no_other_bit_changes(
            at in 0..Field::ALL.len(), value: u128, mask: u128, before: [u64; 32]
        ) {
            let field = Field::ALL[at];
            let mut key = Key::ZERO;
            key.words[..32].copy_from_slice(&before);
            let old = key;
            key.set_masked(field, value, mask);
            prop_assert_eq!(key.get(field), (old.get(field) & !mask | value & mask) & field.all_bits());
            let place = Key::ZERO.with_all(field);
            let bits: u32 = place.words.iter().map(|word| word.count_ones()).sum();
            prop_assert_eq!(bits, field.bits());
            let mut others = Key::ZERO;
            (0..Key::WORDS).for_each(|word| others.words[word] = !place.words[word]);
            prop_assert!(key.same_under(&old, &others));
        }
    }
}
