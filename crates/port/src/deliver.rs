//! From a lent frame to a receiver's buffers: the one copy.
//!
//! A sink asks [`Parcels::of`] what a frame becomes for its receiver (usually itself; several frames if it
//! has to be cut), finds room for each, and lets [`Parcels::write`] copy.
use memory::{SharedSlice, copy_between};
use virtio::net::{Accepts, Delivery, HeaderLayout, NetHeader};

use crate::{DropReason, Frame, HEAD_BYTES};

/// What a frame becomes on its way to one receiver.
#[derive(Debug)]
pub(crate) enum Parcels<'a> {
    /// Itself.
    AsIs(Frame<'a>),
}

impl<'a> Parcels<'a> {
    /// For a receiver that accepts these offloads.
    #[inline(always)]
    pub fn of(frame: Frame<'a>, accepts: &Accepts) -> Result<Self, DropReason> {
        match accepts.delivery(frame.offload()) {
            Delivery::AsIs => Ok(Parcels::AsIs(frame)),
            Delivery::FinishChecksum | Delivery::Segment => Err(DropReason::OffloadImpossible),
        }
    }

    /// How many frames.
    #[inline(always)]
    pub fn count(&self) -> usize {
        match self {
            Parcels::AsIs(_) => 1,
        }
    }

    /// Length of one of them in bytes, without net header.
    #[inline(always)]
    pub fn len_bytes(&self, _index: usize) -> usize {
        match self {
            Parcels::AsIs(frame) => frame.len_bytes(),
        }
    }

    /// Writes net header and frame `index` to `to`, which has room for both; `buffers` is what the net
    /// header says of the buffers used. Returns the bytes written.
    #[inline(always)]
    pub fn write(&self, _index: usize, to: &[SharedSlice<'_>], layout: HeaderLayout, buffers: u16) -> usize {
        match self {
            Parcels::AsIs(frame) => {
                let header = NetHeader { num_buffers: buffers, ..frame.offload().header() };
                write_as_is(frame, &header.to_bytes()[..layout.bytes()], to)
            }
        }
    }
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
            let at = write_between(header, to, 0);
            write_between(head, to, at);
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
    front + copy_between(pieces.iter().copied(), from, to.iter().copied(), at, rest)
}

/// Copies bytes of our own to a list of slices, `offset` bytes in; returns where they end.
fn write_between(from: &[u8], to: &[SharedSlice<'_>], offset: usize) -> usize {
    let (mut skip, mut at) = (offset, 0);
    for slice in to {
        let rest = slice.slice(skip, usize::MAX);
        skip -= slice.len_bytes() - rest.len_bytes();
        at += rest.write(&from[at..]);
    }
    offset + at
}
