//! The usual copy: a frame without offloads, into one buffer.
use frame::{Frame, SHORTEST_FRAME_BYTES, SNAPSHOT_BYTES};
use memory::SharedSlice;
use virtio::net::{HeaderLayout, NetHeader};

use super::copy_pieces;
use crate::cache_policy::Stores;

/// The usual case: a frame without offloads, into one buffer. Returns the bytes written, including the net header.
/// Returns `None` and writes nothing in all other cases.
#[inline(always)]
pub fn write_plain(
    stores: impl Stores,
    frame: &Frame<'_>,
    to: SharedSlice<'_>,
    layout: HeaderLayout,
    buffers: u16,
) -> Option<usize> {
    let bytes = write_front(stores, frame, to, layout, buffers)?;
    let (front, len) = (layout.bytes() + SNAPSHOT_BYTES, frame.len_bytes());
    if len > SNAPSHOT_BYTES {
        let to = to.slice(front, len - SNAPSHOT_BYTES);
        let (slices, skip) = frame.slices();
        match slices {
            [piece] => stores.copy(piece.slice(skip + SNAPSHOT_BYTES, to.len_bytes()), to),
            _ => copy_pieces(slices, skip + SNAPSHOT_BYTES, to),
        };
    }
    Some(bytes)
}

/// As [`write_plain`], except that the bytes behind the snapshot are not written and stay as they are in the buffer.
#[inline(always)]
pub(crate) fn write_front(
    stores: impl Stores,
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
        stores.write(frame.full_snapshot(), to, header_bytes);
    } else if let Some(shortest) = frame.full_snapshot().first_chunk::<SHORTEST_FRAME_BYTES>()
        && len == SHORTEST_FRAME_BYTES
    {
        to.write_array(header_bytes, shortest);
    } else {
        to.slice(header_bytes, len).write(frame.snapshot());
    }
    Some(bytes)
}

/// Writes a header at the start of a buffer, unless the same header is there: it often has a separate cache line, which
/// then need not move between the cores. If a peer changes the header at this moment, only its own frame is affected.
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
