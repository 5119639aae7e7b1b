//! The Internet checksum (RFC 1071), and the pseudo headers that it covers.
use std::net::IpAddr;

/// A sum of 16-bit words that goes on from part to part.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    sum: u64,
    /// Whether an odd number of bytes was added.
    is_odd: bool,
}

impl Sum {
    /// Adds bytes behind those that were added before.
    pub fn add(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        if self.is_odd
            && let Some((first, others)) = bytes.split_first()
        {
            self.sum += u64::from(*first);
            (self.is_odd, rest) = (false, others);
        }
        let words = rest.chunks_exact(4);
        if let [first, ..] = words.remainder() {
            let rest = words.remainder();
            let second = rest.get(1).copied().unwrap_or(0);
            self.sum += u64::from(u16::from_be_bytes([*first, second]));
            self.sum += rest.get(2).map_or(0, |third| u64::from(*third) << 8);
            self.is_odd = rest.len() % 2 == 1;
        }
        let word = |word: &[u8]| word.first_chunk().map_or(0, |word| u64::from(u32::from_be_bytes(*word)));
        self.sum += words.map(word).sum::<u64>();
        // A carry at the top goes in at the bottom: 2^32 and 1 are the same sum.
        self.sum = (self.sum & 0xffff_ffff) + (self.sum >> 32);
    }

    /// Adds the sum of other bytes, which take the place behind those that were added before.
    pub fn add_sum(&mut self, sum: u16) {
        self.sum += u64::from(if self.is_odd { sum.swap_bytes() } else { sum });
    }

    /// The sum, not complemented.
    pub fn folded(self) -> u16 {
        let mut sum = self.sum;
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }
}

/// The sum of the pseudo header of a UDP datagram of this length (RFC 768, RFC 8200 §8.1).
pub fn pseudo_header(from: IpAddr, to: IpAddr, protocol: u8, bytes: u32) -> u16 {
    let mut sum = Sum::default();
    for address in [from, to] {
        match address {
            IpAddr::V4(address) => sum.add(&address.octets()),
            IpAddr::V6(address) => sum.add(&address.octets()),
        }
    }
    sum.add(&u32::from(protocol).to_be_bytes());
    sum.add(&bytes.to_be_bytes());
    sum.folded()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Word by word.
    fn plain(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    proptest! {
        #[test]
        fn parts_sum_to_the_sum_of_the_whole(bytes: Vec<u8>, cuts in prop::collection::vec(0..200usize, 0..4)) {
            let (mut sum, mut rest) = (Sum::default(), &bytes[..]);
            let mut nested = Sum::default();
            for cut in cuts {
                let (part, others) = rest.split_at(cut.min(rest.len()));
                sum.add(part);
                nested.add(part);
                rest = others;
            }
            sum.add(rest);
            nested.add_sum(plain(rest));
            // 0 and 0xffff are the same number.
            prop_assert_eq!(sum.folded() % 0xffff, plain(&bytes) % 0xffff);
            prop_assert_eq!(nested.folded() % 0xffff, plain(&bytes) % 0xffff);
        }
    }
}
