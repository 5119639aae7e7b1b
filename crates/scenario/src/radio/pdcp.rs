//! One bearer of PDCP (3GPP TS 38.323): a sequence number of 12 bits in front, integrity over header and data, then
//! ciphering of data and code (§5.8, §5.9, §6.2.2.1).

use super::cipher::{Input, Key, eea2, eia2};

/// Bytes of the header: a data PDU with a sequence number of 12 bits.
const HEADER: usize = 2;
/// Bytes of the message authentication code.
const CODE: usize = 4;
/// Bytes that PDCP adds to a packet.
pub const OVERHEAD: usize = HEADER + CODE;
const SEQUENCE_BITS: u32 = 12;

/// The keys and numbers that protect one bearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bearer {
    cipher: Key,
    integrity: Key,
    number: u8,
}

impl Bearer {
    /// The bearer of a user. Both ends derive the same keys from the user's number. The keys are for a benchmark and
    /// protect nothing.
    pub fn of_user(user: u32) -> Self {
        let key = |purpose: u8| {
            let mut key = [purpose; 16];
            key[..4].copy_from_slice(&user.to_be_bytes());
            key
        };
        Bearer { cipher: key(0x5a), integrity: key(0xa5), number: (user % 32) as u8 }
    }

    fn input(&self, count: u32) -> Input {
        Input { count, bearer: self.number, is_downlink: true }
    }
}

/// Why a PDU is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PdcpError {
    /// The PDU is shorter than its header and code.
    #[error("a PDCP PDU of {0} bytes; the shortest has 6")]
    Short(usize),
    /// The integrity code is wrong.
    #[error("the message authentication code of a PDCP PDU is wrong")]
    Integrity,
}

/// The sending end of a bearer.
#[derive(Clone, Debug)]
pub struct Sender {
    bearer: Bearer,
    count: u32,
}

impl Sender {
    /// A sender that has sent nothing yet.
    pub fn new(bearer: Bearer) -> Self {
        Sender { bearer, count: 0 }
    }

    /// Appends the PDU of a packet to `pdu`.
    pub fn protect(&mut self, packet: &[u8], pdu: &mut Vec<u8>) {
        let count = self.count;
        self.count = count.wrapping_add(1);
        let sequence = count & ((1 << SEQUENCE_BITS) - 1);
        // D/C is 1 of a data PDU.
        let header = (0x8000 | sequence as u16).to_be_bytes();
        let code = eia2(&self.bearer.integrity, self.bearer.input(count), &[&header, packet]);
        let start = pdu.len() + HEADER;
        pdu.extend_from_slice(&header);
        pdu.extend_from_slice(packet);
        pdu.extend_from_slice(&code);
        eea2(&self.bearer.cipher, self.bearer.input(count), &mut pdu[start..]);
    }
}

/// The receiving end of a bearer.
#[derive(Clone, Debug)]
pub struct Receiver {
    bearer: Bearer,
    /// The COUNT of the next PDU, if none is lost.
    expected: u32,
}

impl Receiver {
    /// A receiver that has received nothing yet.
    pub fn new(bearer: Bearer) -> Self {
        Receiver { bearer, expected: 0 }
    }

    /// Deciphers a PDU in place and checks it. Returns the packet, which is behind the header. PDUs may be missing,
    /// but fewer than 2048 in a row.
    ///
    /// # Errors
    /// The PDU is too short, or its integrity code is wrong.
    pub fn open<'a>(&mut self, pdu: &'a mut [u8]) -> Result<&'a [u8], PdcpError> {
        let bytes = pdu.len();
        if bytes < OVERHEAD {
            return Err(PdcpError::Short(bytes));
        }
        let (header, rest) = pdu.split_at_mut(HEADER);
        let sequence = u32::from(u16::from_be_bytes([header[0], header[1]])) & ((1 << SEQUENCE_BITS) - 1);
        let count = self.count_of(sequence);
        eea2(&self.bearer.cipher, self.bearer.input(count), rest);
        let (packet, code) = rest.split_at(rest.len() - CODE);
        if eia2(&self.bearer.integrity, self.bearer.input(count), &[header, packet]) != code {
            return Err(PdcpError::Integrity);
        }
        self.expected = count.wrapping_add(1);
        Ok(packet)
    }

    /// The COUNT with this sequence number that is nearest to the expected one (§5.2.2.1).
    fn count_of(&self, sequence: u32) -> u32 {
        let window = 1 << (SEQUENCE_BITS - 1);
        let ahead = sequence.wrapping_sub(self.expected) & ((1 << SEQUENCE_BITS) - 1);
        let near = self.expected.wrapping_add(ahead);
        if ahead < window { near } else { near.wrapping_sub(1 << SEQUENCE_BITS) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn both() -> (Sender, Receiver) {
        (Sender::new(Bearer::of_user(7)), Receiver::new(Bearer::of_user(7)))
    }

    proptest! {
        #[test]
        fn what_was_protected_opens(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..20)) {
            let (mut sender, mut receiver) = both();
            for packet in packets {
                let mut pdu = Vec::new();
                sender.protect(&packet, &mut pdu);
                prop_assert_eq!(pdu.len(), packet.len() + OVERHEAD);
                prop_assert_eq!(receiver.open(&mut pdu).unwrap(), packet);
            }
        }

        #[test]
        fn a_changed_bit_is_found(packet in prop::collection::vec(any::<u8>(), 1..100), bit: usize) {
            let (mut sender, mut receiver) = both();
            let mut pdu = Vec::new();
            sender.protect(&packet, &mut pdu);
            // The first bit says what kind of PDU it is, the next three are reserved; the code covers them too.
            let bit = bit % (pdu.len() * 8);
            pdu[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(receiver.open(&mut pdu), Err(PdcpError::Integrity));
        }
    }

    #[test]
    fn lost_ones_and_many_ones_do_not_confuse_the_count() {
        let (mut sender, mut receiver) = both();
        for number in 0..20_000u32 {
            let mut pdu = Vec::new();
            sender.protect(&number.to_be_bytes(), &mut pdu);
            if number % 1000 > 3 && number % 1000 < 900 {
                continue;
            }
            assert_eq!(receiver.open(&mut pdu).unwrap(), number.to_be_bytes());
        }
    }

    #[test]
    fn a_short_one_is_refused() {
        assert_eq!(both().1.open(&mut [0x80, 0, 1, 2, 3]), Err(PdcpError::Short(5)));
    }
}
