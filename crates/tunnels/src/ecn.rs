//! Congestion marks (ECN) of inner and outer headers, which routers set on the way (RFC 6040).
use flow::protocol;

/// The bits of the type of service, or traffic class, that are the mark (RFC 3168 §5).
pub const MARK: u8 = 3;
/// Congestion was experienced.
pub(crate) const CONGESTED: u8 = 3;
const TAGS: [u16; 2] = [0x8100, 0x88a8];
const MAX_TAGS: usize = 2;
/// Behind an IPv4 header's start: the bytes up to the end of the checksum.
const SUMMED_BYTES: usize = 12;
/// The most bytes up to the end of the fields that follow a mark: Ethernet, tags, an IPv4 header's checksum.
pub const MAX_MARKED_BYTES: usize = 14 + 4 * MAX_TAGS + SUMMED_BYTES;

/// A router has marked a packet whose ends do not know marks, or whose headers are too far behind: such a packet has to be
/// dropped, because its ends would not learn of the congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a congestion mark that the ends would not see")]
pub struct LostMark;

/// The mark of a packet behind the tunnel (RFC 6040 §4.2, figure 4).
///
/// # Errors
/// Congestion was experienced, and the inner packet's ends do not know marks.
pub fn decapsulated(inner: u8, outer: u8) -> Result<u8, LostMark> {
    match (inner & MARK, outer & MARK) {
        (0, CONGESTED) => Err(LostMark),
        (_, CONGESTED) => Ok(CONGESTED),
        (0b10, 0b01) => Ok(0b01),
        (inner, _) => Ok(inner),
    }
}

/// The place of the network header of an Ethernet frame, and whether it is that of IPv6.
fn network(frame: &[u8]) -> Option<(usize, bool)> {
    let mut at = 12;
    for _ in 0..=MAX_TAGS {
        let kind = u16::from_be_bytes(*frame.get(at..)?.first_chunk()?);
        let is_v6 = kind == protocol::IPV6;
        if is_v6 || kind == protocol::IPV4 {
            return (frame.get(at + 2)? >> 4 == if is_v6 { 6 } else { 4 }).then_some((at + 2, is_v6));
        }
        if !TAGS.contains(&kind) {
            break;
        }
        at += 4;
    }
    None
}

/// The mark of an Ethernet frame, which the outer header gets too ("normal mode" of RFC 6040 §4.1). A frame that is no IP
/// packet has none.
pub fn of_frame(frame: &[u8]) -> u8 {
    let Some((at, is_v6)) = network(frame) else { return 0 };
    let byte = frame.get(at + 1).copied().unwrap_or(0);
    MARK & if is_v6 { byte >> 4 } else { byte }
}

/// The first bytes of a frame whose mark was changed.
#[derive(Clone, Copy, Debug)]
pub struct Marked {
    bytes: [u8; MAX_MARKED_BYTES],
    length: usize,
}

impl Marked {
    const UNCHANGED: Marked = Marked { bytes: [0; MAX_MARKED_BYTES], length: 0 };

    /// The first bytes of a frame from a tunnel with the mark that it has behind the tunnel, given the type of service of
    /// the outer header. No bytes if nothing changes.
    ///
    /// # Errors
    /// The mark cannot be passed on; the frame has to be dropped.
    pub fn new(frame: &[u8], outer: u8) -> Result<Self, LostMark> {
        if outer & MARK == 0 {
            return Ok(Self::UNCHANGED);
        }
        let Some((at, is_v6)) = network(frame) else {
            // A frame that is no IP packet has no place for a mark.
            return if frame.len() < MAX_MARKED_BYTES && outer & MARK == CONGESTED {
                Err(LostMark)
            } else {
                Ok(Self::UNCHANGED)
            };
        };
        let inner = of_frame(frame);
        let mark = decapsulated(inner, outer)?;
        if mark == inner {
            return Ok(Self::UNCHANGED);
        }
        let length = at + if is_v6 { 2 } else { SUMMED_BYTES };
        let mut marked = Marked { length, ..Self::UNCHANGED };
        let bytes = frame.get(..length).ok_or(LostMark)?;
        marked.bytes[..length].copy_from_slice(bytes);
        marked.set(at, is_v6, inner ^ mark);
        Ok(marked)
    }

    /// Changes bits of the mark, and the checksum of IPv4 with it (RFC 1624 §3).
    fn set(&mut self, at: usize, is_v6: bool, bits: u8) {
        if is_v6 {
            self.bytes[at + 1] ^= bits << 4;
            return;
        }
        let word = |bytes: &[u8], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let before = word(&self.bytes, at);
        self.bytes[at + 1] ^= bits;
        let mut sum = crate::Sum::default();
        for part in [!word(&self.bytes, at + 10), !before, word(&self.bytes, at)] {
            sum.add_sum(part);
        }
        self.bytes[at + 10..at + SUMMED_BYTES].copy_from_slice(&(!sum.folded()).to_be_bytes());
    }

    /// The bytes that take the place of as many.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sum;

    /// Not-ECT, ECT(0), ECT(1), CE: the rows and columns of RFC 6040, figure 4. `None` is a drop.
    const MARKS: [u8; 4] = [0b00, 0b10, 0b01, 0b11];
    const FIGURE_4: [[Option<u8>; 4]; 4] = [
        [Some(0b00), Some(0b00), Some(0b00), None],
        [Some(0b10), Some(0b10), Some(0b01), Some(0b11)],
        [Some(0b01), Some(0b01), Some(0b01), Some(0b11)],
        [Some(0b11), Some(0b11), Some(0b11), Some(0b11)],
    ];

    /// A frame with tags and the type of service 0xb8 and this mark.
    fn frame(tags: usize, is_v6: bool, mark: u8) -> Vec<u8> {
        let mut frame = vec![2; 12];
        (0..tags).for_each(|_| frame.extend([0x81, 0, 0, 5]));
        let tos = 0xb8 | mark;
        if is_v6 {
            frame.extend([0x86, 0xdd, 0x60 | tos >> 4, tos << 4 | 9]);
            frame.extend([7; 38]);
            return frame;
        }
        frame.extend([8, 0]);
        let mut header = [0x45, tos, 0, 40, 1, 2, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let mut sum = Sum::default();
        sum.add(&header);
        header[10..12].copy_from_slice(&(!sum.folded()).to_be_bytes());
        frame.extend(header);
        frame
    }

    #[test]
    fn marks_follow_figure_4_in_each_kind_of_packet() {
        for (tags, is_v6) in [(0, false), (1, false), (2, false), (0, true), (2, true)] {
            for (inner, row) in MARKS.into_iter().zip(FIGURE_4) {
                for (outer, expected) in MARKS.into_iter().zip(row) {
                    let before = frame(tags, is_v6, inner);
                    assert_eq!(of_frame(&before), inner);
                    let after = Marked::new(&before, 0x20 | outer).map(|marked| {
                        let mut after = before.clone();
                        after[..marked.bytes().len()].copy_from_slice(marked.bytes());
                        after
                    });
                    let expected = expected.map(|mark| frame(tags, is_v6, mark)).ok_or(LostMark);
                    assert_eq!(after, expected, "{tags} tags, IPv6 {is_v6}, {inner:02b} in {outer:02b}");
                }
            }
        }
    }

    #[test]
    fn a_frame_without_a_place_for_a_mark_stays_as_it_is() {
        let mut arp = frame(0, false, 0);
        arp[13] = 6;
        arp.resize(60, 0);
        assert_eq!((of_frame(&arp), Marked::new(&arp, CONGESTED).unwrap().bytes()), (0, &[][..]));
        // Headers that are not all there may have a mark.
        for length in 0..26 {
            assert!(Marked::new(&frame(0, false, 0b10)[..length], CONGESTED).is_err(), "{length}");
        }
    }
}
