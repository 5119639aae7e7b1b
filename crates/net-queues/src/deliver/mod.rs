//! From a frame to a receiver's buffers: the one copy.
//!
//! A sink asks [`GsoOutput::of`] which form a frame has for its receiver: usually the frame itself, or several frames
//! if it has to be segmented. The sink finds room for each, and [`GsoOutput::write`] copies. Checksums are computed
//! during that copy.
mod plain;

use std::sync::atomic::{AtomicU32, Ordering};

use memory::{SgList, SharedSlice};
use virtio::net::segment::{self, Headers, MAX_HEAD_BYTES, Plan, SumOf};
use virtio::net::{
    Accepts, Delivery, FinishChecksum, HeaderLayout, NetHeader, Offload, PartialChecksum, checksum,
};

use frame::{DropReason, Frame, SNAPSHOT_BYTES};
pub(crate) use plain::write_front;
pub use plain::write_plain;

/// The sender's slices times segments, of a frame that is segmented: each segment's start is searched among the
/// slices from the first on. A frame of 64 KiB in 18 pages may have all the segments that
/// [`segment::MAX_PIECES`] allows; in 1024 slices of 64 bytes it may have 64.
const MAX_SEGMENT_STEPS: usize = 1 << 16;

/// Room for changed headers of a frame. It is reused for the next frame.
#[derive(Debug)]
pub struct Scratch([u8; MAX_HEAD_BYTES]);

impl Default for Scratch {
    fn default() -> Self {
        Scratch([0; MAX_HEAD_BYTES])
    }
}

/// The form of a frame for one receiver.
#[derive(Debug)]
pub enum GsoOutput<'a> {
    /// The frame itself, with this net header.
    AsIs(Frame<'a>, NetHeader),
    /// The frame itself, with its checksum completed.
    Checksum {
        /// The frame as it was sent.
        frame: Frame<'a>,
        /// The changed headers of the frame.
        headers: &'a [u8],
        /// The position of the checksum, and the bytes that it covers.
        finish: FinishChecksum,
    },
    /// Several frames.
    Segments {
        /// The frame as it was sent.
        frame: Frame<'a>,
        /// The segments' headers and payload.
        plan: Plan<'a>,
        /// Whether the receiver completes the checksums.
        partial: bool,
    },
}

impl<'a> GsoOutput<'a> {
    /// The form of a frame for a receiver that accepts these offloads. `scratch` holds changed headers.
    ///
    /// # Errors
    /// The headers do not fit the offload, the head of the frame cannot be read, or the segments would need too
    /// many steps ([`DropReason::OffloadImpossible`]).
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
            (Delivery::Segment, _) => Self::segment(frame, accepts, scratch),
        }
    }

    fn with_checksum(
        frame: Frame<'a>,
        partial: PartialChecksum,
        scratch: &'a mut Scratch,
    ) -> Result<Self, DropReason> {
        let needed = FinishChecksum::head_needed(partial).max(SNAPSHOT_BYTES);
        let headers = extended_snapshot(&frame, needed, scratch)?;
        match FinishChecksum::new(partial, headers, frame.len_bytes() as u32) {
            Ok(finish) => Ok(GsoOutput::Checksum { frame, headers, finish }),
            Err(_) => Err(DropReason::OffloadImpossible),
        }
    }

    fn segment(frame: Frame<'a>, accepts: &Accepts, scratch: &'a mut Scratch) -> Result<Self, DropReason> {
        let offload = frame.offload();
        // Each step may show that the headers are longer; every window is longer than the last.
        let mut known_bytes = frame.snapshot().len();
        let mut needed = segment::headers_needed(frame.snapshot(), offload);
        while needed > known_bytes {
            let headers = extended_snapshot(&frame, needed, scratch)?;
            if headers.len() < needed {
                return Err(DropReason::OffloadImpossible);
            }
            known_bytes = needed;
            needed = segment::headers_needed(headers, offload);
        }
        let headers = extended_snapshot(&frame, known_bytes, scratch)?;
        let plan = Plan::new(headers, frame.len_bytes() as u32, offload, next_identification())
            .map_err(|_| DropReason::OffloadImpossible)?;
        if frame.slices().0.len() * plan.pieces() as usize > MAX_SEGMENT_STEPS {
            return Err(DropReason::OffloadImpossible);
        }
        Ok(GsoOutput::Segments { frame, plan, partial: accepts.checksum })
    }

    /// The number of frames.
    #[inline(always)]
    pub fn count(&self) -> usize {
        match self {
            GsoOutput::AsIs(..) | GsoOutput::Checksum { .. } => 1,
            GsoOutput::Segments { plan, .. } => plan.pieces() as usize,
        }
    }

    /// The length of frame `index` in bytes, without net header.
    #[inline(always)]
    pub fn len_bytes(&self, index: usize) -> usize {
        match self {
            GsoOutput::AsIs(frame, _) | GsoOutput::Checksum { frame, .. } => frame.len_bytes(),
            GsoOutput::Segments { plan, .. } => plan.segment(index as u32).map_or(0, |p| p.bytes() as usize),
        }
    }

    /// Writes the net header and frame `index` to `to`, which must have room for both. `buffers` is the number of
    /// buffers that the net header reports. Returns the bytes written.
    #[inline(always)]
    pub fn write(&self, index: usize, to: &[SharedSlice<'_>], layout: HeaderLayout, buffers: u16) -> usize {
        match self {
            GsoOutput::AsIs(frame, header) => {
                let header = NetHeader { num_buffers: buffers, ..*header };
                write_as_is(frame, &header.to_bytes()[..layout.bytes()], to)
            }
            GsoOutput::Checksum { frame, headers, finish } => {
                write_summed(frame, headers, finish, to, layout, buffers)
            }
            GsoOutput::Segments { frame, plan, partial } => {
                let buffers_of_segment = SegmentBuffers { to, layout, buffers };
                write_segment(frame, plan, *partial, index as u32, &buffers_of_segment)
            }
        }
    }
}

/// Marks the fragments of a frame (RFC 8200 §4.5). Counted only where a frame is segmented.
fn next_identification() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0x7a17_11e5);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The frame's first `bytes` bytes, if it has that many: the snapshot, and the bytes behind it, read once.
fn extended_snapshot<'s>(
    frame: &Frame<'_>,
    bytes: usize,
    scratch: &'s mut Scratch,
) -> Result<&'s mut [u8], DropReason> {
    let bytes = bytes.min(frame.len_bytes());
    let into = scratch.0.get_mut(..bytes).ok_or(DropReason::OffloadImpossible)?;
    let known = frame.snapshot().len().min(bytes);
    into[..known].copy_from_slice(&frame.snapshot()[..known]);
    if bytes > known {
        let (slices, skip) = frame.slices();
        SgList::new(slices).skip(skip + known).read(&mut into[known..]);
    }
    Ok(into)
}

/// Net header from here, the start from the snapshot, and the rest from where the sender put it.
#[inline(always)]
fn write_as_is(frame: &Frame<'_>, header: &[u8], to: &[SharedSlice<'_>]) -> usize {
    let snapshot = frame.snapshot();
    let front = header.len() + snapshot.len();
    match to {
        [first, ..] if first.len_bytes() >= front => {
            first.write(header);
            first.slice(header.len(), snapshot.len()).write(snapshot);
        }
        _ => {
            let to = SgList::new(to);
            to.write(header);
            to.skip(header.len()).write(snapshot);
        }
    }
    let rest = frame.len_bytes() - snapshot.len();
    if rest == 0 {
        return front;
    }
    let (slices, skip) = frame.slices();
    let (from, at) = (skip + SNAPSHOT_BYTES, front);
    if let ([from_piece], [to_piece]) = (slices, to) {
        return front + from_piece.slice(from, rest).copy_to(to_piece.slice(at, rest));
    }
    front + SgList::new(slices).skip(from).copy_to(SgList::new(to).skip(at), rest)
}

/// The rest first, for its sum goes into the headers.
fn write_summed(
    frame: &Frame<'_>,
    headers: &[u8],
    finish: &FinishChecksum,
    to: &[SharedSlice<'_>],
    layout: HeaderLayout,
    buffers: u16,
) -> usize {
    let rest = finish.rest();
    let front = layout.bytes() + rest.start as usize;
    let (slices, skip) = frame.slices();
    let from = skip + rest.start as usize;
    let to = SgList::new(to);
    let summed = SgList::new(slices).skip(from).copy_summed_to(to.skip(front), rest.len());
    let mut finished = Scratch::default();
    let finished = &mut finished.0[..headers.len()];
    finished.copy_from_slice(headers);
    finish.finish(finished, summed.sum);
    let header = NetHeader { num_buffers: buffers, ..NetHeader::default() };
    to.write(&header.to_bytes()[..layout.bytes()]);
    to.skip(layout.bytes()).write(finished);
    front + summed.bytes
}

/// The buffers of a segment.
struct SegmentBuffers<'t> {
    to: &'t [SharedSlice<'t>],
    layout: HeaderLayout,
    buffers: u16,
}

fn write_segment(
    frame: &Frame<'_>,
    plan: &Plan<'_>,
    partial: bool,
    index: u32,
    buffers_of_segment: &SegmentBuffers<'_>,
) -> usize {
    let SegmentBuffers { to, layout, buffers } = *buffers_of_segment;
    let mut headers = Headers::new();
    let Some(segment) = plan.write(index, &mut headers) else { return 0 };
    let front = layout.bytes() + segment.header_bytes;
    let (slices, skip) = frame.slices();
    let (payload, len) =
        (SgList::new(slices).skip(skip + segment.payload.start as usize), segment.payload.len());
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

/// The sum of the payload of all segments: a datagram's checksum is in its first fragment. Read ahead of the
/// copies; a sender that changes it meanwhile spoils its own checksum and nothing else.
fn whole_sum(frame: &Frame<'_>, plan: &Plan<'_>) -> u16 {
    let Some(first) = plan.segment(0) else { return 0 };
    let (slices, skip) = frame.slices();
    let (mut at, end) = (first.payload.start as usize, frame.len_bytes());
    let (mut sum, mut done) = (0, 0);
    let mut bytes = [0; 2048];
    while at < end {
        let len = bytes.len().min(end - at);
        let read = SgList::new(slices).skip(skip + at).read(&mut bytes[..len]);
        if read == 0 {
            break;
        }
        sum = checksum::concat(sum, done, checksum::sum(&bytes[..read]));
        at += read;
        done += read;
    }
    sum
}

/// Copies several pieces to one buffer.
#[inline(never)] // the loop around it keeps its registers for frames of one piece
fn copy_pieces(slices: &[SharedSlice<'_>], from: usize, to: SharedSlice<'_>) -> usize {
    // The layout of frames with another head: the head's end, and the slice behind it.
    if let [first, second] = slices
        && from <= first.len_bytes()
    {
        let done = first.slice(from, to.len_bytes()).copy_to(to);
        return done + second.copy_to(to.slice(done, usize::MAX));
    }
    SgList::new(slices).skip(from).copy_to(SgList::new(&[to]), to.len_bytes())
}

#[cfg(test)]
mod tests;
