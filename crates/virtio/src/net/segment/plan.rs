//! The plan for segmenting a frame: numbers and ranges, no bytes yet.
use std::ops::Range;

use super::layout::{Ip, Layout, u16_at};
use super::{MAX_HEAD_BYTES, MAX_PIECES, SegmentError};
use crate::net::{Offload, SegmentKind};

/// Which bytes the checksum of a piece covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumOf {
    /// Each piece has a checksum, over its own payload.
    Segment,
    /// Only the first piece has a checksum, over the payload of all pieces, so its headers are finished last.
    Frame,
    /// The sender has computed the checksum already.
    Nothing,
}

/// The plan for segmenting a frame. Only [`Plan::new`] makes it, which checks everything that the sender stated.
///
/// The pieces' payloads are the frame's payload, in order, without gaps.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'h> {
    /// At most as long as the frame and [`MAX_HEAD_BYTES`].
    pub(super) head: &'h [u8],
    pub(super) layout: Layout,
    pub(super) kind: SegmentKind,
    pub(super) sum_of: SumOf,
    pub(super) identification: u32,
    /// The offset from which bytes are divided among the pieces: the payload, or the fragmentable part.
    pub(super) shared_out: usize,
    pub(super) frame_bytes: u32,
    piece_bytes: u32,
    pieces: u32,
}

/// One piece: its own headers and a part of the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// From 0 on.
    pub index: u32,
    /// The length of its headers in bytes.
    pub header_bytes: usize,
    /// The range of the payload in the frame, in bytes from the frame's start.
    pub payload: Range<u32>,
}

impl Segment {
    /// The length of the whole piece in bytes.
    pub fn bytes(&self) -> u32 {
        self.header_bytes as u32 + self.payload.len() as u32
    }
}

/// Bytes of the frame's start that [`Plan::new`] needs, as far as `head` shows; at most [`MAX_HEAD_BYTES`].
///
/// If the result exceeds the length of `head`, call again with that many bytes. Headers that cannot be segmented need
/// no more bytes: [`Plan::new`] says what is wrong with them.
pub fn headers_needed(head: &[u8], offload: &Offload) -> usize {
    let Some(segmentation) = offload.segmentation else { return 0 };
    match Layout::parse(head, segmentation.kind) {
        Ok(layout) => layout.payload,
        Err(SegmentError::Truncated { needed, .. }) => needed,
        Err(_) => head.len().min(MAX_HEAD_BYTES),
    }
}

impl<'h> Plan<'h> {
    /// Plans the pieces of a frame of `frame_bytes` bytes whose first bytes are `head`.
    ///
    /// `identification` marks the fragments of this frame if it is cut into IPv6 fragments. The caller must not
    /// reuse a value while fragments with it are in transit (RFC 8200 §4.5). A counter with any start suffices.
    ///
    /// # Errors
    /// `offload` asks for no segmentation, or the headers do not fit its kind: they are truncated, too long, of
    /// another protocol, or of a fragment. A length or checksum field contradicts the frame. Or the pieces would be
    /// more than [`MAX_PIECES`], too small for their headers, or longer than an IP packet can be.
    pub fn new(
        head: &'h [u8],
        frame_bytes: u32,
        offload: &Offload,
        identification: u32,
    ) -> Result<Self, SegmentError> {
        let segmentation = offload.segmentation.ok_or(SegmentError::NothingToCut)?;
        let (kind, segment_bytes) = (segmentation.kind, segmentation.segment_bytes.get());
        let head = &head[..head.len().min(frame_bytes as usize)];
        let layout = Layout::parse(head, kind)?;
        // The rest of a longer head is payload, which the copy delivers.
        let head = &head[..layout.payload];
        let sum_of = check_checksum(&layout, offload, kind)?;
        check_lengths(head, &layout, frame_bytes, kind)?;

        let payload_bytes = frame_bytes - layout.payload as u32;
        let fragmentable_bytes = frame_bytes - layout.fragmentable() as u32;
        let (shared_out, piece_bytes, pieces) = match kind {
            SegmentKind::UdpFragments if fragmentable_bytes > u32::from(segment_bytes) => {
                let unit = segment_bytes & !7;
                let needed = layout.payload - layout.fragmentable();
                if usize::from(unit) < needed {
                    return Err(SegmentError::FragmentTooSmall { segment_bytes, needed });
                }
                let unit = u32::from(unit);
                (layout.fragmentable(), unit, fragmentable_bytes.div_ceil(unit))
            }
            SegmentKind::UdpFragments => (layout.payload, payload_bytes, 1),
            _ => {
                let unit = u32::from(segment_bytes);
                (layout.payload, unit, payload_bytes.div_ceil(unit).max(1))
            }
        };
        if pieces > MAX_PIECES {
            return Err(SegmentError::TooManyPieces { segment_bytes, pieces });
        }
        let sum_of = if pieces == 1 && sum_of == SumOf::Frame { SumOf::Segment } else { sum_of };
        let plan =
            Plan { head, layout, kind, sum_of, identification, shared_out, frame_bytes, piece_bytes, pieces };
        plan.check_pieces()?;
        Ok(plan)
    }

    /// Number of pieces: 1 to [`MAX_PIECES`].
    pub fn pieces(&self) -> u32 {
        self.pieces
    }

    /// The bytes whose sum [`super::Headers::finish`] needs.
    pub fn sum_of(&self) -> SumOf {
        self.sum_of
    }

    /// A piece; `None` beyond the last.
    pub fn segment(&self, index: u32) -> Option<Segment> {
        if index >= self.pieces {
            return None;
        }
        // At most MAX_PIECES times 64 KiB: far from overflow.
        let share = |index| self.shared_out as u32 + index * self.piece_bytes;
        // The first piece has all headers; its payload begins with the headers that fragments leave out.
        let copied = if index == 0 { self.layout.payload } else { self.shared_out };
        let start = if index == 0 { copied as u32 } else { share(index) };
        let payload = start..share(index + 1).min(self.frame_bytes);
        Some(Segment { index, header_bytes: copied + self.fragment_header_bytes(), payload })
    }

    /// All pieces in order.
    pub fn iter(&self) -> impl Iterator<Item = Segment> + '_ {
        (0..self.pieces).filter_map(|index| self.segment(index))
    }

    /// Payload of the whole frame.
    pub(super) fn payload_bytes(&self) -> u32 {
        self.frame_bytes - self.layout.payload as u32
    }

    /// Whether the pieces are IP fragments.
    pub(super) fn fragments(&self) -> bool {
        self.kind == SegmentKind::UdpFragments && self.pieces > 1
    }

    /// The length of the fragment header that each piece gets, in bytes; 0 without one.
    pub(super) fn fragment_header_bytes(&self) -> usize {
        match self.layout.ip {
            Ip::V6 { .. } if self.fragments() => 8,
            _ => 0,
        }
    }

    /// What holds only once the number of pieces is known.
    fn check_pieces(&self) -> Result<(), SegmentError> {
        // A fragment header can make the longest packets too long.
        let longest = self.segment(0).map_or(0, |piece| piece.bytes()) - self.layout.network as u32;
        match self.layout.ip {
            Ip::V6 { .. } if longest - 40 > u32::from(u16::MAX) => Err(SegmentError::TooLong(longest)),
            _ => Ok(()),
        }
    }
}

/// What the checksum covers, if its place is the transport header's.
fn check_checksum(layout: &Layout, offload: &Offload, kind: SegmentKind) -> Result<SumOf, SegmentError> {
    let datagram = kind == SegmentKind::UdpFragments;
    let Some(partial) = offload.checksum else {
        if let (Ip::V6 { destination: Err(routing), .. }, false) = (layout.ip, datagram) {
            return Err(SegmentError::Routing(routing));
        }
        return Ok(if datagram { SumOf::Nothing } else { SumOf::Segment });
    };
    let expected = kind.checksum_offset();
    if usize::from(partial.start) != layout.transport || partial.offset != expected {
        let (start, offset, transport) = (partial.start, partial.offset, layout.transport);
        return Err(SegmentError::ChecksumElsewhere { start, offset, transport, expected });
    }
    Ok(if datagram { SumOf::Frame } else { SumOf::Segment })
}

/// Length fields are not relied on, but one that contradicts the frame shows a sender that is not to be
/// trusted; zero is what some senders leave for the device to fill in.
fn check_lengths(
    head: &[u8],
    layout: &Layout,
    frame_bytes: u32,
    kind: SegmentKind,
) -> Result<(), SegmentError> {
    let check = |header, at, actual: u32| {
        let said = u16_at(head, at)?;
        match said {
            _ if actual > u32::from(u16::MAX) => Err(SegmentError::TooLong(actual)),
            0 => Ok(()),
            _ if u32::from(said) == actual => Ok(()),
            _ => Err(SegmentError::Length { header, said, actual }),
        }
    };
    let network = layout.network;
    match layout.ip {
        Ip::V4 => check("IPv4", network + 2, frame_bytes - network as u32)?,
        Ip::V6 { .. } => check("IPv6", network + 4, frame_bytes - network as u32 - 40)?,
    }
    match kind {
        SegmentKind::TcpV4 | SegmentKind::TcpV6 => Ok(()),
        SegmentKind::UdpFragments | SegmentKind::UdpSegments => {
            check("UDP", layout.transport + 4, frame_bytes - layout.transport as u32)
        }
    }
}

impl SegmentKind {
    /// The offset of the checksum in the transport header.
    pub(super) const fn checksum_offset(self) -> u16 {
        match self {
            SegmentKind::TcpV4 | SegmentKind::TcpV6 => 16,
            SegmentKind::UdpFragments | SegmentKind::UdpSegments => 6,
        }
    }
}
