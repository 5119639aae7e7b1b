//! A burst of frames that a source lends.
use memory::{Lent, SharedSlice};
use virtio::net::{HeaderLayout, NetHeader, Offload};
use virtqueue::Burst;

use crate::DropReason;
use crate::frame::{ETHERNET_HEADER_BYTES, Frame, HEAD_BYTES, Head, Meta};

/// Where the pieces of the frames are kept.
#[derive(Debug)]
enum Arena {
    /// Chains of a device queue.
    Queue(Burst),
    /// Memory of this process, or shared with a device half elsewhere.
    Own(Lent),
}

/// Frames that are lent until they are released, in the order in which their sender sent them.
///
/// Allocates while it grows to the size of the bursts and not afterwards.
#[derive(Debug)]
pub struct Lending {
    arena: Arena,
    frames: Vec<Meta>,
}

impl Lending {
    /// For the chains of a device queue, at most `max` at a time.
    pub fn of_queue(max: usize) -> Self {
        Lending { arena: Arena::Queue(Burst::new(max)), frames: Vec::with_capacity(max) }
    }

    /// For frames elsewhere.
    pub fn of_memory(max: usize) -> Self {
        Lending { arena: Arena::Own(Lent::with_capacity(2 * max)), frames: Vec::with_capacity(max) }
    }

    /// Number of frames.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether there is none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// One frame.
    #[inline(always)]
    pub fn frame(&self, index: usize) -> Frame<'_> {
        let meta = &self.frames[index];
        Frame { meta, pieces: self.pieces(meta.first, meta.end) }
    }

    /// The copied start of a frame, for senders that stamp frames of their own before they pass them on.
    #[inline(always)]
    pub fn head_mut(&mut self, index: usize) -> &mut Head {
        &mut self.frames[index].head
    }

    /// All frames.
    #[inline(always)]
    pub fn frames(&self) -> impl ExactSizeIterator<Item = Frame<'_>> {
        self.frames.iter().map(|meta| Frame { meta, pieces: self.pieces(meta.first, meta.end) })
    }

    #[inline(always)]
    fn pieces(&self, first: u32, end: u32) -> &[SharedSlice<'_>] {
        match &self.arena {
            Arena::Queue(burst) => burst.lent().slices(first..end),
            Arena::Own(lent) => lent.slices(first..end),
        }
    }

    /// The chains behind the frames, for [`virtqueue::DeviceQueue::take`] and `complete`; `None` unless
    /// made by [`Lending::of_queue`].
    #[inline(always)]
    pub fn burst_mut(&mut self) -> Option<&mut Burst> {
        match &mut self.arena {
            Arena::Queue(burst) => Some(burst),
            Arena::Own(_) => None,
        }
    }

    /// The arena to lend pieces to before they are [pushed](Lending::push); `None` unless made by
    /// [`Lending::of_memory`].
    #[inline(always)]
    pub fn lent_mut(&mut self) -> Option<&mut Lent> {
        match &mut self.arena {
            Arena::Own(lent) => Some(lent),
            Arena::Queue(_) => None,
        }
    }

    /// Makes frames of the chains in the burst from `from` on, each with a net header in front; `refused`
    /// hears of each chain that holds none. Returns the bytes of the frames made.
    #[inline]
    pub fn push_chains(
        &mut self,
        from: usize,
        layout: HeaderLayout,
        mut refused: impl FnMut(DropReason),
    ) -> u64 {
        let mut made_bytes = 0;
        let Arena::Queue(burst) = &self.arena else { return made_bytes };
        for chain in burst.chains().skip(from) {
            let (first, end) = chain.readable_range();
            let bytes = chain.readable_bytes();
            match meta(burst.lent().slices(first..end), bytes, layout) {
                Ok(mut meta) => {
                    // A driver must not say so (VIRTIO 1.3 §5.1.6.2), and receivers would believe it.
                    meta.offload.verified = false;
                    made_bytes += u64::from(meta.len);
                    self.frames.push(Meta { first, end, ..meta });
                }
                Err(reason) => refused(reason),
            }
        }
        made_bytes
    }

    /// Makes a frame, with a net header in front, of the pieces from `first` on that were lent to
    /// [`Lending::lent_mut`].
    #[inline]
    pub fn push(&mut self, first: u32, layout: HeaderLayout) -> Result<(), DropReason> {
        let Arena::Own(lent) = &self.arena else { return Err(DropReason::NotConnected) };
        let end = lent.len();
        let pieces = lent.slices(first..end);
        let bytes = pieces.iter().map(|piece| piece.len_bytes() as u32).sum();
        let meta = meta(pieces, bytes, layout)?;
        self.frames.push(Meta { first, end, ..meta });
        Ok(())
    }

    /// Forgets the frames, and the pieces unless they are chains (which their queue completes).
    #[inline(always)]
    pub fn clear(&mut self) {
        self.frames.clear();
        if let Arena::Own(lent) = &mut self.arena {
            lent.clear();
        }
    }
}

/// Reads net header and head, once, and checks them.
#[inline(always)]
fn meta(pieces: &[SharedSlice<'_>], bytes: u32, layout: HeaderLayout) -> Result<Meta, DropReason> {
    let skip = layout.bytes();
    let len = (bytes as usize).checked_sub(skip).filter(|len| *len >= ETHERNET_HEADER_BYTES);
    let len = len.ok_or(DropReason::TooShort)?;
    let mut header = [0; NetHeader::BYTES];
    let mut head = [0; HEAD_BYTES];
    // Nearly always header and frame lie in one piece, or in two of their own.
    match pieces {
        [whole] => {
            whole.read(&mut header[..skip]);
            whole.slice(skip, HEAD_BYTES).read(&mut head);
        }
        [front, rest, ..] if front.len_bytes() == skip && rest.len_bytes() >= len.min(HEAD_BYTES) => {
            front.read(&mut header[..skip]);
            rest.read(&mut head);
        }
        _ => {
            memory::read_between(pieces.iter().copied(), 0, &mut header[..skip]);
            memory::read_between(pieces.iter().copied(), skip, &mut head);
        }
    }
    let header = NetHeader::from_bytes(&header, layout);
    let offload = Offload::parse(header, len as u32).map_err(|_| DropReason::MalformedHeader)?;
    Ok(Meta { head, offload, first: 0, end: 0, skip: skip as u32, len: len as u32 })
}
