//! Sequence numbers of a control channel whose text is translated: a translated line may be longer or shorter than the
//! line of its sender, so all later sequence numbers of this sender are shifted.
use crate::bytes::{u16_at, u32_at};
use crate::packet::{Packet, Payload};
use crate::segment::before;
use crate::{Direction, protocol};

/// The most 32-bit numbers of a segment that change: sequence, acknowledgement, both ends of four selective ones.
const MAX_WORDS: usize = 10;

/// A 32-bit number of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// Its place, in bytes from the network header.
    pub at: usize,
    /// Its new value.
    pub value: u32,
}

/// A part of a payload that is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// Its place, in bytes from the network header.
    pub at: usize,
    /// The number of bytes that are taken away.
    pub removed: usize,
    bytes: [u8; Replaced::MAX_BYTES],
    length: usize,
}

impl Replaced {
    /// The longest text: `|2|`, an IPv6 address of 39 bytes, `|65535|`.
    const MAX_BYTES: usize = 49;

    /// `None` if the text is longer than any address and port.
    pub(crate) fn new(at: usize, removed: usize, text: std::fmt::Arguments<'_>) -> Option<Replaced> {
        let mut replaced = Replaced { at, removed, bytes: [0; Self::MAX_BYTES], length: 0 };
        let mut left = &mut replaced.bytes[..];
        std::io::Write::write_fmt(&mut left, text).ok()?;
        replaced.length = Self::MAX_BYTES - left.len();
        Some(replaced)
    }

    /// The new text.
    pub fn text(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn growth(&self) -> i32 {
        self.length as i32 - self.removed as i32 // both are below 256
    }
}

/// The changes of a control channel's segment, in addition to those of its addresses and ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlChange {
    /// The part of the payload that is replaced.
    pub payload: Option<Replaced>,
    words: [Word; MAX_WORDS],
    count: usize,
}

impl ControlChange {
    /// The numbers of the TCP header that change.
    pub fn words(&self) -> &[Word] {
        &self.words[..self.count]
    }

    fn add(&mut self, at: usize, old: u32, new: u32) {
        if let Some(word) = self.words.get_mut(self.count).filter(|_| old != new) {
            *word = Word { at, value: new };
            self.count += 1;
        }
    }
}

/// The shift of one end's sequence numbers: that of numbers up to a place, and that of those behind.
#[derive(Clone, Copy, Debug, Default)]
struct Shift {
    place: u32,
    before: i32,
    after: i32,
}

impl Shift {
    /// The shift of a sequence number of the sender.
    fn of(&self, sequence: u32) -> i32 {
        if before(self.place, sequence) { self.after } else { self.before }
    }

    /// The sender's number of a shifted one that its peer acknowledges.
    fn undo(&self, number: u32) -> u32 {
        let own = number.wrapping_add_signed(-self.before);
        number.wrapping_add_signed(-self.of(own))
    }
}

/// The shifts of both ends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shifts {
    ends: [Shift; 2],
}

impl Shifts {
    fn exist(&self) -> bool {
        self.ends.iter().any(|end| end.before != 0 || end.after != 0)
    }

    /// The packet with acknowledgements of what its receiver has sent: what the receiver gets is shifted.
    pub fn corrected<'a>(&self, packet: &Packet<'a>, direction: Direction) -> Packet<'a> {
        let mut packet = *packet;
        if let Payload::Tcp(segment) = &mut packet.payload
            && self.exist()
        {
            let by = -self.ends[direction.other() as usize].of(segment.acknowledgement.wrapping_sub(1));
            segment.acknowledgement = segment.acknowledgement.wrapping_add_signed(by);
            for end in segment.options.sack_ends.iter_mut().flatten() {
                *end = end.wrapping_add_signed(by);
            }
        }
        packet
    }

    /// The text of this segment is replaced: later numbers of its sender are shifted.
    pub fn add(&mut self, direction: Direction, sequence: u32, replaced: &Replaced) {
        let end = &mut self.ends[direction as usize];
        // A segment that comes again changes nothing.
        if end.before == end.after || before(end.place, sequence) {
            *end = Shift { place: sequence, before: end.after, after: end.after + replaced.growth() };
        }
    }

    /// Adds the numbers of a segment that change. `datagram` begins with the network header.
    pub fn write(
        &self,
        datagram: &[u8],
        packet: &Packet<'_>,
        direction: Direction,
        change: &mut ControlChange,
    ) {
        if packet.tuple.protocol != protocol::TCP || !self.exist() {
            return;
        }
        let (own, other) = (self.ends[direction as usize], self.ends[direction.other() as usize]);
        let at = packet.transport;
        let (Some(sequence), Some(acknowledged)) = (u32_at(datagram, at + 4), u32_at(datagram, at + 8))
        else {
            return;
        };
        let Some(offset_and_flags) = u16_at(datagram, at + 12) else { return };
        change.add(at + 4, sequence, sequence.wrapping_add_signed(own.of(sequence)));
        if offset_and_flags & ACK == 0 {
            return;
        }
        change.add(at + 8, acknowledged, other.undo(acknowledged));
        let header = usize::from(offset_and_flags >> 12) * 4;
        let Some(options) = datagram.get(at + 20..at + header) else { return };
        for edge in sack_edges(options) {
            let number = u32_at(options, edge).unwrap_or(0);
            change.add(at + 20 + edge, number, other.undo(number));
        }
    }
}

const ACK: u16 = 16;

/// The places of the ends of selectively acknowledged blocks (RFC 2018 §3).
fn sack_edges(options: &[u8]) -> impl Iterator<Item = usize> {
    let mut at = 0;
    let found = loop {
        match options.get(at..) {
            None | Some([] | [0, ..]) => break 0..0,
            Some([1, ..]) => at += 1,
            Some([5, length, ..]) if at + usize::from(*length) <= options.len() => {
                break at + 2..at + usize::from(*length);
            }
            Some([_, length, ..]) if *length >= 2 => at += usize::from(*length),
            Some(_) => break 0..0,
        }
    };
    let end = found.end;
    found.step_by(4).filter(move |edge| edge + 4 <= end)
}
