//! From a lent frame to a receiver's buffers: the one copy.
//!
//! A sink asks [`GsoOutput::of`] what a frame becomes for its receiver (usually itself; several frames if it
//! has to be cut), finds room for each, and lets [`GsoOutput::write`] copy. Sums are made in the course of
//! that copy.
mod manner;

use std::sync::atomic::{AtomicU32, Ordering};

use memory::{SharedSlice, copy_between, copy_between_summed, read_between};
use virtio::net::segment::{self, Headers, MAX_HEAD_BYTES, Plan, SumOf};
use virtio::net::{
    Accepts, Delivery, FinishChecksum, HeaderLayout, NetHeader, Offload, PartialChecksum, checksum,
};

use crate::frame::SHORTEST_FRAME_BYTES;
use crate::{DropReason, Frame, SNAPSHOT_BYTES};
pub(crate) use manner::{Cached, Choice, Manner};

/// Pieces in the sender's memory times segments, of a frame that is cut: each segment's place is looked for among the
/// pieces from the first on. A frame of 64 KiB in 18 pages may have all the segments that
/// [`segment::MAX_PIECES`] allows; in 1024 pieces of 64 bytes it may have 64.
const MAX_CUT_STEPS: usize = 1 << 16;

/// Room for the headers of a frame that is changed on its way; to be used again for the next.
#[derive(Debug)]
pub(crate) struct Scratch([u8; MAX_HEAD_BYTES]);

impl Default for Scratch {
    fn default() -> Self {
        Scratch([0; MAX_HEAD_BYTES])
    }
}

/// What a frame becomes on its way to one receiver.
#[derive(Debug)]
pub(crate) enum GsoOutput<'a> {
    /// Itself, with this net header.
    AsIs(Frame<'a>, NetHeader),
    /// Itself, with its checksum finished.
    Checksum { frame: Frame<'a>, head: &'a [u8], finish: FinishChecksum },
    /// Several frames.
    Segments { frame: Frame<'a>, plan: Plan<'a>, partial: bool },
}

impl<'a> GsoOutput<'a> {
    /// For a receiver that accepts these offloads.
    #[inline(always)]
    pub fn of(frame: Frame<'a>, accepts: &Accepts, scratch: &'a mut Scratch) -> Result<Self, DropReason> {
        let offload = frame.offload();
        if *offload == Offload::NONE {
            return Ok(GsoOutput::AsIs(frame, Offload::NONE.header()));
        }
        Self::with_offload(frame, accepts, scratch)
    }

    #[inline(never)]
    fn with_offload(
        frame: Frame<'a>,
        accepts: &Accepts,
        scratch: &'a mut Scratch,
    ) -> Result<Self, DropReason> {
        let offload = frame.offload();
        match (accepts.delivery(offload), offload.checksum) {
            (Delivery::AsIs, _) => Ok(GsoOutput::AsIs(frame, accepts.header(offload))),
            (Delivery::FinishChecksum, Some(partial)) => Self::with_checksum(frame, partial, scratch),
            (Delivery::FinishChecksum, None) => Err(DropReason::OffloadImpossible),
            (Delivery::Segment, _) => Self::cut(frame, accepts, scratch),
        }
    }

    fn with_checksum(
        frame: Frame<'a>,
        partial: PartialChecksum,
        scratch: &'a mut Scratch,
    ) -> Result<Self, DropReason> {
        let needed = FinishChecksum::head_needed(partial).max(SNAPSHOT_BYTES);
        let head = extended_head(&frame, needed, scratch)?;
        match FinishChecksum::new(partial, head, frame.len_bytes() as u32) {
            Ok(finish) => Ok(GsoOutput::Checksum { frame, head, finish }),
            Err(_) => Err(DropReason::OffloadImpossible),
        }
    }

    fn cut(frame: Frame<'a>, accepts: &Accepts, scratch: &'a mut Scratch) -> Result<Self, DropReason> {
        let offload = frame.offload();
        // Each look may show that headers go on further; every one is longer than the last.
        let mut head_bytes = frame.snapshot().len();
        let mut needed = segment::headers_needed(frame.snapshot(), offload);
        while needed > head_bytes {
            let head = extended_head(&frame, needed, scratch)?;
            if head.len() < needed {
                return Err(DropReason::OffloadImpossible);
            }
            head_bytes = needed;
            needed = segment::headers_needed(head, offload);
        }
        let head = extended_head(&frame, head_bytes, scratch)?;
        let plan = Plan::new(head, frame.len_bytes() as u32, offload, next_identification())
            .map_err(|_| DropReason::OffloadImpossible)?;
        if frame.slices().0.len() * plan.pieces() as usize > MAX_CUT_STEPS {
            return Err(DropReason::OffloadImpossible);
        }
        Ok(GsoOutput::Segments { frame, plan, partial: accepts.checksum })
    }

    /// How many frames.
    #[inline(always)]
    pub fn count(&self) -> usize {
        match self {
            GsoOutput::AsIs(..) | GsoOutput::Checksum { .. } => 1,
            GsoOutput::Segments { plan, .. } => plan.pieces() as usize,
        }
    }

    /// Length of one of them in bytes, without net header.
    #[inline(always)]
    pub fn len_bytes(&self, index: usize) -> usize {
        match self {
            GsoOutput::AsIs(frame, _) | GsoOutput::Checksum { frame, .. } => frame.len_bytes(),
            GsoOutput::Segments { plan, .. } => plan.piece(index as u32).map_or(0, |p| p.bytes() as usize),
        }
    }

    /// Writes net header and frame `index` to `to`, which has room for both; `buffers` is what the net
    /// header says of the buffers used. Returns the bytes written.
    #[inline(always)]
    pub fn write(&self, index: usize, to: &[SharedSlice<'_>], layout: HeaderLayout, buffers: u16) -> usize {
        match self {
            GsoOutput::AsIs(frame, header) => {
                let header = NetHeader { num_buffers: buffers, ..*header };
                write_as_is(frame, &header.to_bytes()[..layout.bytes()], to)
            }
            GsoOutput::Checksum { frame, head, finish } => {
                write_summed(frame, head, finish, to, layout, buffers)
            }
            GsoOutput::Segments { frame, plan, partial } => {
                let target = Target { to, layout, buffers };
                write_piece(frame, plan, *partial, index as u32, &target)
            }
        }
    }
}

/// Marks the fragments of a frame (RFC 8200 §4.5). Counted only where one is cut.
fn next_identification() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0x7a17_11e5);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The frame's first `bytes` (as far as it has them): the snapshot, and what lies behind it, read once.
fn extended_head<'s>(
    frame: &Frame<'_>,
    bytes: usize,
    scratch: &'s mut Scratch,
) -> Result<&'s mut [u8], DropReason> {
    let bytes = bytes.min(frame.len_bytes());
    let into = scratch.0.get_mut(..bytes).ok_or(DropReason::OffloadImpossible)?;
    let known = frame.snapshot().len().min(bytes);
    into[..known].copy_from_slice(&frame.snapshot()[..known]);
    if bytes > known {
        let (pieces, skip) = frame.slices();
        read_between(pieces.iter().copied(), skip + known, &mut into[known..]);
    }
    Ok(into)
}

/// Header from here, head from the snapshot, and the rest from where the sender put it.
#[inline(always)]
fn write_as_is(frame: &Frame<'_>, header: &[u8], to: &[SharedSlice<'_>]) -> usize {
    let head = frame.snapshot();
    let front = header.len() + head.len();
    match to {
        [first, ..] if first.len_bytes() >= front => {
            first.write(header);
            first.slice(header.len(), head.len()).write(head);
        }
        _ => {
            let at = write_between(header, to, 0);
            write_between(head, to, at);
        }
    }
    let rest = frame.len_bytes() - head.len();
    if rest == 0 {
        return front;
    }
    let (pieces, skip) = frame.slices();
    let (from, at) = (skip + SNAPSHOT_BYTES, front);
    if let ([from_piece], [to_piece]) = (pieces, to) {
        return front + from_piece.slice(from, rest).copy_to(to_piece.slice(at, rest));
    }
    front + copy_between(pieces.iter().copied(), from, to.iter().copied(), at, rest)
}

/// The rest first, for its sum goes into the head.
fn write_summed(
    frame: &Frame<'_>,
    head: &[u8],
    finish: &FinishChecksum,
    to: &[SharedSlice<'_>],
    layout: HeaderLayout,
    buffers: u16,
) -> usize {
    let rest = finish.rest();
    let front = layout.bytes() + rest.start as usize;
    let (pieces, skip) = frame.slices();
    let from = skip + rest.start as usize;
    let slices = (pieces.iter().copied(), to.iter().copied());
    let summed = copy_between_summed(slices.0, from, slices.1, front, rest.len());
    let mut finished = Scratch::default();
    let finished = &mut finished.0[..head.len()];
    finished.copy_from_slice(head);
    finish.finish(finished, summed.sum);
    let header = NetHeader { num_buffers: buffers, ..NetHeader::default() };
    write_between(&header.to_bytes()[..layout.bytes()], to, 0);
    write_between(finished, to, layout.bytes());
    front + summed.bytes
}

/// The usual case: a frame that has nothing left to be done, to one buffer. Returns the bytes written, net
/// header included; `None`, and nothing is written, where it is another case.
#[inline(always)]
pub(crate) fn write_plain(
    manner: impl Manner,
    frame: &Frame<'_>,
    to: SharedSlice<'_>,
    layout: HeaderLayout,
    buffers: u16,
) -> Option<usize> {
    let bytes = write_front(manner, frame, to, layout, buffers)?;
    let (front, len) = (layout.bytes() + SNAPSHOT_BYTES, frame.len_bytes());
    if len > SNAPSHOT_BYTES {
        let to = to.slice(front, len - SNAPSHOT_BYTES);
        let (pieces, skip) = frame.slices();
        match pieces {
            [piece] => manner.copy(piece.slice(skip + SNAPSHOT_BYTES, to.len_bytes()), to),
            _ => copy_pieces(pieces, skip + SNAPSHOT_BYTES, to),
        };
    }
    Some(bytes)
}

#[inline(never)] // the loop around it keeps its registers for frames of one piece
fn copy_pieces(pieces: &[SharedSlice<'_>], from: usize, to: SharedSlice<'_>) -> usize {
    copy_between(pieces.iter().copied(), from, [to], 0, to.len_bytes())
}

/// As [`write_plain`] but for the bytes behind the head, which are left as they stand in the buffer.
#[inline(always)]
pub(crate) fn write_front(
    manner: impl Manner,
    frame: &Frame<'_>,
    to: SharedSlice<'_>,
    layout: HeaderLayout,
    buffers: u16,
) -> Option<usize> {
    let (header_bytes, len) = (layout.bytes(), frame.len_bytes());
    let bytes = header_bytes + len;
    if to.len_bytes() < bytes || !frame.is_simple() {
        return None;
    }
    let header = NetHeader { num_buffers: buffers, ..NetHeader::default() }.to_bytes();
    match layout {
        HeaderLayout::Full => write_if_other(to, &header),
        HeaderLayout::Legacy => write_if_other(to, header.first_chunk::<10>()?),
    };
    if len >= SNAPSHOT_BYTES {
        manner.write(frame.full_snapshot(), to, header_bytes);
    } else if let Some(shortest) = frame.full_snapshot().first_chunk::<SHORTEST_FRAME_BYTES>()
        && len == SHORTEST_FRAME_BYTES
    {
        to.write_array(header_bytes, shortest);
    } else {
        to.slice(header_bytes, len).write(frame.snapshot());
    }
    Some(bytes)
}

/// Writes a header at the start of a buffer unless it stands there: often it has a cache line of its own,
/// which then need not travel between the cores. A peer that changes it at this moment changes its own.
#[inline(always)]
fn write_if_other<const N: usize>(to: SharedSlice<'_>, header: &[u8; N]) {
    if !to.begins_with(header) {
        write_header(to, *header);
    }
}

#[cold]
fn write_header<const N: usize>(to: SharedSlice<'_>, header: [u8; N]) {
    to.write_array(0, &header);
}

/// Where a piece goes.
struct Target<'t> {
    to: &'t [SharedSlice<'t>],
    layout: HeaderLayout,
    buffers: u16,
}

fn write_piece(frame: &Frame<'_>, plan: &Plan<'_>, partial: bool, index: u32, target: &Target<'_>) -> usize {
    let Target { to, layout, buffers } = *target;
    let mut headers = Headers::new();
    let Some(piece) = plan.write(index, &mut headers) else { return 0 };
    let front = layout.bytes() + piece.header_bytes;
    let (pieces, skip) = frame.slices();
    let (from, len) = (skip + piece.payload.start as usize, piece.payload.len());
    // A payload that begins within the snapshot is read anew: no decision was made on it.
    let offload = if partial { headers.leave_partial() } else { None };
    let copied = match offload {
        Some(_) => copy_between(pieces.iter().copied(), from, to.iter().copied(), front, len),
        None => {
            let slices = (pieces.iter().copied(), to.iter().copied());
            let summed = copy_between_summed(slices.0, from, slices.1, front, len);
            match plan.sum_of() {
                SumOf::Frame if index == 0 => headers.finish(whole_sum(frame, plan)),
                _ => headers.finish(summed.sum),
            }
            summed.bytes
        }
    };
    let header = NetHeader { num_buffers: buffers, ..offload.unwrap_or(Offload::NONE).header() };
    write_between(&header.to_bytes()[..layout.bytes()], to, 0);
    write_between(headers.bytes(), to, layout.bytes());
    front + copied
}

/// The sum of the payload of all pieces: a datagram's checksum is in its first fragment. Read ahead of the
/// copies; a sender that changes it meanwhile spoils its own checksum and nothing else.
fn whole_sum(frame: &Frame<'_>, plan: &Plan<'_>) -> u16 {
    let Some(first) = plan.piece(0) else { return 0 };
    let (pieces, skip) = frame.slices();
    let (mut at, end) = (first.payload.start as usize, frame.len_bytes());
    let (mut sum, mut done) = (0, 0);
    let mut bytes = [0; 2048];
    while at < end {
        let len = bytes.len().min(end - at);
        let read = read_between(pieces.iter().copied(), skip + at, &mut bytes[..len]);
        if read == 0 {
            break;
        }
        sum = checksum::concat(sum, done, checksum::sum(&bytes[..read]));
        at += read;
        done += read;
    }
    sum
}

/// Copies bytes of our own to a list of slices, `offset` bytes in; returns where they end.
fn write_between(from: &[u8], to: &[SharedSlice<'_>], offset: usize) -> usize {
    let (mut skip, mut at) = (offset, 0);
    for slice in to {
        let rest = slice.slice(skip, usize::MAX);
        skip -= slice.len_bytes() - rest.len_bytes();
        at += rest.write(&from[at..]);
        if at == from.len() {
            break;
        }
    }
    offset + at
}

#[cfg(test)]
mod tests;
