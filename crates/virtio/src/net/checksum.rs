//! The Internet checksum (RFC 1071, RFC 1624) over local bytes.
//!
//! A *sum* here is a one's complement sum of 16-bit words, first byte high, folded and not complemented;
//! a *field* is what a header carries: the complement of a sum.

/// The sum of these bytes; an odd last byte counts as if a zero followed it.
///
/// Words are added in the processor's byte order, and the result is swapped at the end: the byte order of the words
/// changes only the byte order of a one's complement sum (RFC 1071 §2(B)).
#[inline]
pub fn sum(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut sum = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum::<u64>();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum += u64::from(u32::from_ne_bytes(last));
    u16::from_be_bytes(fold(sum).to_ne_bytes())
}

/// Adds the upper words to the lowest until 16 bits are left.
#[inline]
pub const fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 32) + (sum >> 16 & 0xffff) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

/// One's complement addition.
#[inline]
pub const fn add(a: u16, b: u16) -> u16 {
    fold(a as u64 + b as u64)
}

/// The sum of `first_bytes` bytes whose sum is `first`, followed by bytes whose own sum is `then`. At an odd offset
/// the two bytes of `then` are swapped (RFC 1071 §2(B)).
#[inline]
pub const fn concat(first: u16, first_bytes: usize, then: u16) -> u16 {
    add(first, if first_bytes.is_multiple_of(2) { then } else { then.swap_bytes() })
}

/// The sum of the pseudo header over IPv4 (RFC 9293 §3.1, RFC 768); `bytes` is the length of transport
/// header and payload.
pub fn pseudo_v4(source: [u8; 4], destination: [u8; 4], protocol: u8, bytes: u16) -> u16 {
    let addresses = u64::from(u32::from_be_bytes(source)) + u64::from(u32::from_be_bytes(destination));
    fold(addresses + u64::from(protocol) + u64::from(bytes))
}

/// The sum of the pseudo header over IPv6 (RFC 8200 §8.1); `destination` is the final one, `bytes` the
/// length of transport header and payload.
pub fn pseudo_v6(source: &[u8; 16], destination: &[u8; 16], next_header: u8, bytes: u32) -> u16 {
    let addresses = u64::from(sum(source)) + u64::from(sum(destination));
    fold(addresses + u64::from(next_header) + u64::from(bytes))
}

/// The field for a sum.
#[inline]
pub const fn field(sum: u16) -> u16 {
    !sum
}

/// The field for a sum where zero means "no checksum": UDP (RFC 768). The value 0xffff is equivalent for every
/// verifier, so it is right for TCP as well.
#[inline]
pub const fn nonzero_field(sum: u16) -> u16 {
    match !sum {
        0 => 0xffff,
        field => field,
    }
}

/// The field of an IPv4 header of any length (RFC 791 §3.1), whatever value the field has now.
pub fn ipv4_header_field(header: &[u8]) -> u16 {
    let old = match header {
        [_, _, _, _, _, _, _, _, _, _, high, low, ..] => u16::from_be_bytes([*high, *low]),
        _ => 0,
    };
    field(add(sum(header), !old))
}

/// The new value of the field if one 16-bit word of the covered bytes has changed (RFC 1624 §3, equation 3).
#[inline]
pub const fn update(field: u16, old: u16, new: u16) -> u16 {
    !fold(!field as u64 + !old as u64 + new as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 as it is written: word by word, carry by carry.
    fn by_the_book(bytes: &[u8]) -> u16 {
        let mut sum = 0_u32;
        for word in bytes.chunks(2) {
            sum += u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// A well-known header: 192.168.0.1 to 192.168.0.199, UDP, checksum 0xb861.
    const IPV4: [u8; 20] =
        [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 192, 168, 0, 1, 192, 168, 0, 199];

    #[test]
    fn known_values() {
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2); // RFC 1071 §3
        assert_eq!(sum(&[]), 0);
        assert_eq!(sum(&[0xff; 65536]), 0xffff);
        assert_eq!(sum(&IPV4), 0xffff);
        assert_eq!(ipv4_header_field(&IPV4), 0xb861);
        let mut wrong = IPV4;
        wrong[10..12].copy_from_slice(&[0x12, 0x34]);
        assert_eq!(ipv4_header_field(&wrong), 0xb861);
        // RFC 1624 §4: the other equation gives 0xffff here.
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
        assert_eq!((field(0xffff), nonzero_field(0xffff), nonzero_field(1)), (0, 0xffff, 0xfffe));
        assert_eq!(fold(u64::MAX), 0xffff);
    }

    #[test]
    fn pseudo_headers_are_the_sums_of_their_bytes() {
        let bytes = [10, 1, 2, 3, 255, 254, 253, 252, 0, 17, 0x12, 0x34];
        assert_eq!(pseudo_v4([10, 1, 2, 3], [255, 254, 253, 252], 17, 0x1234), by_the_book(&bytes));
        let (source, destination) = ([0xfe; 16], [0xab; 16]);
        let mut bytes = [source, destination].concat();
        bytes.extend([0, 1, 0xff, 0xff, 0, 0, 0, 6]);
        assert_eq!(pseudo_v6(&source, &destination, 6, 0x1_ffff), by_the_book(&bytes));
    }

    proptest! {
        #[test]
        fn sums_are_those_of_the_book_whole_or_in_parts(
            bytes in prop::collection::vec(any::<u8>(), 0..3000),
            at in any::<prop::sample::Index>(),
        ) {
            prop_assert_eq!(sum(&bytes), by_the_book(&bytes));
            let at = at.index(bytes.len() + 1);
            let (first, then) = bytes.split_at(at);
            prop_assert_eq!(concat(sum(first), at, sum(then)), sum(&bytes));
        }

        #[test]
        fn an_updated_field_is_the_recomputed_one(mut header: [u8; 20], new: u16, word in 0_usize..10) {
            prop_assume!(word != 5);
            header[0] |= 1; // A sum of nothing but zeros has two representations.
            let before = ipv4_header_field(&header);
            let place = word * 2..word * 2 + 2;
            let old = u16::from_be_bytes(header[place.clone()].try_into().unwrap());
            header[place].copy_from_slice(&new.to_be_bytes());
            header[0] |= u8::from(word == 0);
            let new = if word == 0 { u16::from_be_bytes([header[0], header[1]]) } else { new };
            header[10..12].fill(0);
            prop_assert_eq!(update(before, old, new), ipv4_header_field(&header));
        }
    }
}
