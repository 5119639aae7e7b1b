//! Segments of RLC's unacknowledged mode with a sequence number of 12 bits (3GPP TS 38.322 §6.2.2.3). The header of a
//! whole packet has one byte, that of a first segment two, that of a later one four.

use std::collections::BTreeMap;

/// Segment information: which part of a packet it is.
const WHOLE: u8 = 0b00;
const FIRST: u8 = 0b01;
const LAST: u8 = 0b10;
const MIDDLE: u8 = 0b11;

/// The longest header.
pub const LONGEST_HEADER: usize = 4;
/// Packets that a receiver puts together at the same time; the oldest goes when one more begins.
const AT_THE_SAME_TIME: usize = 8;
/// Bytes of a packet at most.
const LONGEST_PACKET: usize = 9000;

/// Divides packets into segments that fit the grants.
#[derive(Clone, Debug, Default)]
pub struct Segmenter {
    sequence: u16,
}

impl Segmenter {
    /// The next PDU of a packet of which `done` bytes are sent. Together with its header it has at most `grant`
    /// bytes. `None` if the grant is too small for any data.
    pub fn next(&mut self, packet_bytes: usize, done: usize, grant: usize) -> Option<Segment> {
        let left = packet_bytes - done;
        let (information, header) = match done {
            0 if left < grant => (WHOLE, 1),
            0 => (FIRST, 2),
            _ if left + LONGEST_HEADER <= grant => (LAST, LONGEST_HEADER),
            _ => (MIDDLE, LONGEST_HEADER),
        };
        let bytes = left.min(grant.checked_sub(header)?);
        if bytes == 0 && left > 0 {
            return None;
        }
        let number = self.sequence;
        let [high, low] = number.to_be_bytes();
        let [offset_high, offset_low] = (done as u16).to_be_bytes();
        let header_bytes = match information {
            WHOLE => [WHOLE << 6, 0, 0, 0],
            _ => [information << 6 | high, low, offset_high, offset_low],
        };
        if information == LAST {
            self.sequence = (number + 1) & 0x0fff;
        }
        Some(Segment { header: header_bytes, header_bytes: header, from: done, to: done + bytes })
    }
}

/// A PDU: its header, and the range of the packet in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    header: [u8; LONGEST_HEADER],
    header_bytes: usize,
    /// The first byte of the range.
    pub from: usize,
    /// The end of the range.
    pub to: usize,
}

impl Segment {
    /// The header.
    pub fn header(&self) -> &[u8] {
        &self.header[..self.header_bytes]
    }
}

/// Why a PDU is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RlcError {
    /// The PDU is shorter than its header.
    #[error("an RLC PDU of {0} bytes ends in its header")]
    Short(usize),
    /// The segment does not continue where the packet's received part ends.
    #[error("an RLC segment at byte {offset} of a packet of which {have} bytes are there")]
    Gap {
        /// The offset of the segment.
        offset: usize,
        /// The number of bytes received so far.
        have: usize,
    },
    /// The packet would be longer than any packet is.
    #[error("an RLC packet longer than {LONGEST_PACKET} bytes")]
    Long,
}

/// Reassembles packets. The segments of a packet must come in order.
#[derive(Clone, Debug, Default)]
pub struct Assembler {
    begun: BTreeMap<u16, Vec<u8>>,
}

impl Assembler {
    /// Takes a PDU. Returns the packet if it is complete now.
    ///
    /// # Errors
    /// The PDU is malformed, or an earlier one is missing, so that the packet is lost.
    pub fn take(&mut self, pdu: &[u8]) -> Result<Option<Vec<u8>>, RlcError> {
        let short = RlcError::Short(pdu.len());
        let &first = pdu.first().ok_or(short)?;
        let information = first >> 6;
        if information == WHOLE {
            return Ok(Some(pdu[1..].to_vec()));
        }
        let sequence = u16::from(first & 0x0f) << 8 | u16::from(*pdu.get(1).ok_or(short)?);
        if information == FIRST {
            if self.begun.len() >= AT_THE_SAME_TIME {
                self.begun.pop_first();
            }
            self.begun.insert(sequence, pdu[2..].to_vec());
            return Ok(None);
        }
        let data = pdu.get(LONGEST_HEADER..).ok_or(short)?;
        let offset = usize::from(u16::from_be_bytes([pdu[2], pdu[3]]));
        let have = self.begun.get(&sequence).map_or(0, Vec::len);
        if have != offset || have == 0 {
            self.begun.remove(&sequence);
            return Err(RlcError::Gap { offset, have });
        }
        if have + data.len() > LONGEST_PACKET {
            self.begun.remove(&sequence);
            return Err(RlcError::Long);
        }
        let packet = self.begun.entry(sequence).or_default();
        packet.extend_from_slice(data);
        Ok(if information == LAST { self.begun.remove(&sequence) } else { None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pdus(
        segmenter: &mut Segmenter,
        packet: &[u8],
        grants: &mut impl Iterator<Item = usize>,
    ) -> Vec<Vec<u8>> {
        let mut done = 0;
        let mut pdus = Vec::new();
        while done < packet.len() {
            let grant = grants.next().unwrap();
            if let Some(segment) = segmenter.next(packet.len(), done, grant) {
                let pdu = [segment.header(), &packet[segment.from..segment.to]].concat();
                assert!(pdu.len() <= grant, "{} in {grant}", pdu.len());
                assert_eq!(segment.from, done);
                done = segment.to;
                pdus.push(pdu);
            }
        }
        pdus
    }

    proptest! {
        #[test]
        fn packets_survive_any_grants(
            packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 1..10),
            grants in prop::collection::vec(0..120usize, 1..50),
        ) {
            prop_assume!(grants.iter().any(|&grant| grant > LONGEST_HEADER));
            let (mut segmenter, mut assembler) = (Segmenter::default(), Assembler::default());
            let mut grants = grants.into_iter().cycle();
            for packet in packets {
                let pdus = pdus(&mut segmenter, &packet, &mut grants);
                let mut whole = Vec::new();
                for pdu in &pdus {
                    whole.extend(assembler.take(pdu).unwrap());
                }
                prop_assert_eq!(whole, vec![packet]);
            }
        }

        #[test]
        fn no_pdu_panics(pdus in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..50)) {
            let mut assembler = Assembler::default();
            for pdu in pdus {
                let _ = assembler.take(&pdu);
                prop_assert!(assembler.begun.len() <= AT_THE_SAME_TIME);
            }
        }
    }

    #[test]
    fn a_lost_segment_loses_its_packet_and_no_other() {
        let (mut segmenter, mut assembler) = (Segmenter::default(), Assembler::default());
        let mut grants = std::iter::repeat(10);
        let first = pdus(&mut segmenter, &[1; 30], &mut grants);
        let second = pdus(&mut segmenter, &[2; 30], &mut grants);
        assert_eq!(first.len(), 5);
        assert_eq!(assembler.take(&first[0]), Ok(None));
        assert!(matches!(assembler.take(&first[2]), Err(RlcError::Gap { offset: 14, have: 8 })));
        let whole: Vec<_> = second.iter().filter_map(|pdu| assembler.take(pdu).unwrap()).collect();
        assert_eq!(whole, [vec![2; 30]]);
    }
}
