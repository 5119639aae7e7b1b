//! The header of a TCP segment.
use crate::bytes::{u16_at, u32_at};

/// The header of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    pub sequence: u32,
    /// The acknowledgement number, whether or not the flag says that it counts.
    pub acknowledgement: u32,
    pub is_ack: bool,
    pub window: u16,
    pub kind: Option<Kind>,
    pub is_syn: bool,
    pub is_rst: bool,
    /// The sequence number behind the segment; SYN and FIN count.
    pub end: u32,
    pub options: Options,
}

/// The options of a segment (RFC 9293 §3.1, RFC 7323 §2.2, RFC 2018).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Whether the header has space for options.
    pub exist: bool,
    pub window_scale: Option<u8>,
    pub sack_permitted: bool,
    /// The right edges of the blocks of a selective acknowledgement.
    pub sack_ends: [Option<u32>; 4],
}

/// The flag that decides about the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Syn,
    SynAck,
    Fin,
    Ack,
    Rst,
}

/// The kind of a segment with these flags. `None` if no sender combines flags so.
fn kind(flags: u8) -> Option<Kind> {
    let (rest, is_urgent) = (flags & (FIN | SYN | RST | ACK), flags & URG != 0);
    Some(match (rest, is_urgent) {
        (SYN, _) => Kind::Syn,
        (SYN_ACK, false) => Kind::SynAck,
        (RST | RST_ACK, false) => Kind::Rst,
        (FIN_ACK, _) => Kind::Fin,
        (ACK, _) => Kind::Ack,
        _ => return None,
    })
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
const URG: u8 = 32;
const SYN_ACK: u8 = SYN | ACK;
const RST_ACK: u8 = RST | ACK;
const FIN_ACK: u8 = FIN | ACK;

impl Options {
    fn read(mut bytes: &[u8]) -> Options {
        let mut options = Options { exist: !bytes.is_empty(), ..Options::default() };
        while let Some((kind, rest)) = bytes.split_first() {
            match kind {
                0 => break,
                1 => bytes = rest,
                kind => {
                    let length = rest.first().map_or(0, |length| usize::from(*length));
                    let Some(option) = bytes.get(..length).filter(|_| length >= 2) else { break };
                    bytes = &bytes[length..];
                    match (kind, length) {
                        (3, 3) => options.window_scale = Some(option[2].min(14)), // RFC 7323 §2.3
                        (4, 2) => options.sack_permitted = true,
                        (5, 10 | 18 | 26 | 34) => {
                            let ends = option[2..].chunks_exact(8).map(|block| u32_at(block, 4));
                            options.sack_ends.iter_mut().zip(ends).for_each(|(slot, end)| *slot = end);
                        }
                        _ => {}
                    }
                }
            }
        }
        options
    }
}

impl Segment {
    /// Reads a segment of `whole` bytes, header and payload. `None` if the header is cut off.
    pub fn read(bytes: &[u8], whole: usize) -> Option<Segment> {
        let header_bytes = usize::from(bytes.get(12)? >> 4) * 4;
        let header = bytes.get(..header_bytes).filter(|header| header.len() >= 20)?;
        let flags = header[13];
        let sequence = u32_at(header, 4)?;
        let payload = whole.checked_sub(header_bytes)? as u32; // at most 65,535
        let counted = u32::from(flags & FIN != 0) + u32::from(flags & SYN != 0);
        Some(Segment {
            sequence,
            acknowledgement: u32_at(header, 8)?,
            is_ack: flags & ACK != 0,
            window: u16_at(header, 14)?,
            kind: kind(flags),
            is_syn: flags & SYN != 0,
            is_rst: flags & RST != 0,
            end: sequence.wrapping_add(payload).wrapping_add(counted),
            options: Options::read(&header[20..]),
        })
    }
}

/// Whether a sequence number precedes another (RFC 9293 §3.4).
pub(crate) fn before(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}
