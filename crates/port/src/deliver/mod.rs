//! From a lent frame to a receiver's buffers: the one copy.
//!
//! A sink asks [`Parcels::of`] what a frame becomes for its receiver (usually itself; several frames if it
//! has to be cut), finds room for each, and lets [`Parcels::write`] copy. Sums are made in the course of
//! that copy.
mod plain;

use std::sync::atomic::{AtomicU32, Ordering};

use memory::{SgList, SharedSlice};
use virtio::net::segment::{self, Headers, MAX_HEAD_BYTES, Plan, SumOf};
use virtio::net::{
    Accepts, Delivery, FinishChecksum, HeaderLayout, NetHeader, Offload, PartialChecksum, checksum,
};

use crate::{DropReason, Frame, HEAD_BYTES};
pub(crate) use plain::{write_front, write_plain};

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
pub(crate) enum Parcels<'a> {
    /// Itself, with this net header.
    AsIs(Frame<'a>, NetHeader),
    /// Itself, with its checksum finished.
    Checksum { frame: Frame<'a>, head: &'a [u8], finish: FinishChecksum },
    /// Several frames.
    Segments { frame: Frame<'a>, plan: Plan<'a>, partial: bool },
}

impl<'a> Parcels<'a> {
    /// For a receiver that accepts these offloads.
    #[inline(always)]
    pub fn of(frame: Frame<'a>, accepts: &Accepts, scratch: &'a mut Scratch) -> Result<Self, DropReason> {
        let offload = frame.offload();
        if *offload == Offload::NONE {
            return Ok(Parcels::AsIs(frame, Offload::NONE.header()));
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
            (Delivery::AsIs, _) => Ok(Parcels::AsIs(frame, accepts.header(offload))),
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
        let needed = FinishChecksum::head_needed(partial).max(HEAD_BYTES);
        let head = extended_head(&frame, needed, scratch)?;
        match FinishChecksum::new(partial, head, frame.len_bytes() as u32) {
            Ok(finish) => Ok(Parcels::Checksum { frame, head, finish }),
            Err(_) => Err(DropReason::OffloadImpossible),
        }
    }

    fn cut(frame: Frame<'a>, accepts: &Accepts, scratch: &'a mut Scratch) -> Result<Self, DropReason> {
        let offload = frame.offload();
        // Each look may show that headers go on further; every one is longer than the last.
        let mut head_bytes = frame.head().len();
        let mut needed = segment::headers_needed(frame.head(), offload);
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
        if frame.pieces().0.len() * plan.pieces() as usize > MAX_CUT_STEPS {
            return Err(DropReason::OffloadImpossible);
        }
        Ok(Parcels::Segments { frame, plan, partial: accepts.checksum })
    }

    /// How many frames.
    #[inline(always)]
    pub fn count(&self) -> usize {
        match self {
            Parcels::AsIs(..) | Parcels::Checksum { .. } => 1,
            Parcels::Segments { plan, .. } => plan.pieces() as usize,
        }
    }

    /// Length of one of them in bytes, without net header.
    #[inline(always)]
    pub fn len_bytes(&self, index: usize) -> usize {
        match self {
            Parcels::AsIs(frame, _) | Parcels::Checksum { frame, .. } => frame.len_bytes(),
            Parcels::Segments { plan, .. } => plan.piece(index as u32).map_or(0, |p| p.bytes() as usize),
        }
    }

    /// Writes net header and frame `index` to `to`, which has room for both; `buffers` is what the net
    /// header says of the buffers used. Returns the bytes written.
    #[inline(always)]
    pub fn write(&self, index: usize, to: &[SharedSlice<'_>], layout: HeaderLayout, buffers: u16) -> usize {
        match self {
            Parcels::AsIs(frame, header) => {
                let header = NetHeader { num_buffers: buffers, ..*header };
                write_as_is(frame, &header.to_bytes()[..layout.bytes()], to)
            }
            Parcels::Checksum { frame, head, finish } => {
                write_summed(frame, head, finish, to, layout, buffers)
            }
            Parcels::Segments { frame, plan, partial } => {
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
    let known = frame.head().len().min(bytes);
    into[..known].copy_from_slice(&frame.head()[..known]);
    if bytes > known {
        let (pieces, skip) = frame.pieces();
        SgList::new(pieces).skip(skip + known).read(&mut into[known..]);
    }
    Ok(into)
}

/// Header from here, head from the snapshot, and the rest from where the sender put it.
#[inline(always)]
fn write_as_is(frame: &Frame<'_>, header: &[u8], to: &[SharedSlice<'_>]) -> usize {
    let head = frame.head();
    let front = header.len() + head.len();
    match to {
        [first, ..] if first.len_bytes() >= front => {
            first.write(header);
            first.slice(header.len(), head.len()).write(head);
        }
        _ => {
            let to = SgList::new(to);
            to.write(header);
            to.skip(header.len()).write(head);
        }
    }
    let rest = frame.len_bytes() - head.len();
    if rest == 0 {
        return front;
    }
    let (pieces, skip) = frame.pieces();
    let (from, at) = (skip + HEAD_BYTES, front);
    if let ([from_piece], [to_piece]) = (pieces, to) {
        return front + from_piece.slice(from, rest).copy_to(to_piece.slice(at, rest));
    }
    front + SgList::new(pieces).skip(from).copy_to(SgList::new(to).skip(at), rest)
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
    let (pieces, skip) = frame.pieces();
    let from = skip + rest.start as usize;
    let to = SgList::new(to);
    let summed = SgList::new(pieces).skip(from).copy_summed_to(to.skip(front), rest.len());
    let mut finished = Scratch::default();
    let finished = &mut finished.0[..head.len()];
    finished.copy_from_slice(head);
    finish.finish(finished, summed.sum);
    let header = NetHeader { num_buffers: buffers, ..NetHeader::default() };
    to.write(&header.to_bytes()[..layout.bytes()]);
    to.skip(layout.bytes()).write(finished);
    front + summed.bytes
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
    let (pieces, skip) = frame.pieces();
    let (payload, len) = (SgList::new(pieces).skip(skip + piece.payload.start as usize), piece.payload.len());
    let to = SgList::new(to);
    // A payload that begins within the snapshot is read anew: no decision was made on it.
    let offload = if partial { headers.leave_partial() } else { None };
    let copied = match offload {
        Some(_) => payload.copy_to(to.skip(front), len),
        None => {
            let summed = payload.copy_summed_to(to.skip(front), len);
            match plan.sum_of() {
                SumOf::Frame if index == 0 => headers.finish(whole_sum(frame, plan)),
                _ => headers.finish(summed.sum),
            }
            summed.bytes
        }
    };
    let header = NetHeader { num_buffers: buffers, ..offload.unwrap_or(Offload::NONE).header() };
    to.write(&header.to_bytes()[..layout.bytes()]);
    to.skip(layout.bytes()).write(headers.bytes());
    front + copied
}

/// The sum of the payload of all pieces: a datagram's checksum is in its first fragment. Read ahead of the
/// copies; a sender that changes it meanwhile spoils its own checksum and nothing else.
fn whole_sum(frame: &Frame<'_>, plan: &Plan<'_>) -> u16 {
    let Some(first) = plan.piece(0) else { return 0 };
    let (pieces, skip) = frame.pieces();
    let (mut at, end) = (first.payload.start as usize, frame.len_bytes());
    let (mut sum, mut done) = (0, 0);
    let mut bytes = [0; 2048];
    while at < end {
        let len = bytes.len().min(end - at);
        let read = SgList::new(pieces).skip(skip + at).read(&mut bytes[..len]);
        if read == 0 {
            break;
        }
        sum = checksum::concat(sum, done, checksum::sum(&bytes[..read]));
        at += read;
        done += read;
    }
    sum
}

#[cfg(test)]
mod tests;
