//! A burst of frames that a source lends.
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use memory::{SgArena, SharedSlice};
use virtio::net::{HeaderLayout, NetHeader, Offload};
use virtqueue::Burst;

use crate::DropReason;
use crate::frame::{
    ETHERNET_HEADER_BYTES, Frame, HEAD_BYTES, Head, LARGEST_FRAME_BYTES, Meta, SHORTEST_FRAME_BYTES,
};

/// Segments that the frames of one burst may be cut into until it is [full](Lending::is_full): those of 33 frames of
/// 64 KiB with the smallest usual `gso_size`, 536 (RFC 9293 §3.7.1), or of 91 with 1460. Cutting costs time by the
/// segment, and `gso_size` is the sender's to choose; Linux takes any above 0. With no limit but
/// [`MAX_PIECES`](virtio::net::segment::MAX_PIECES) for each frame, 32 of them would be 32 768 segments for every
/// receiver before anybody else gets a turn. Nothing is lost by this limit: what is left comes with the next burst.
const MAX_SEGMENTS: u32 = 4096;

/// Where the pieces of the frames are kept.
#[derive(Debug)]
enum Arena {
    /// Chains of a device queue.
    Queue(Burst),
    /// Memory of this process, or shared with a device half elsewhere.
    Own(SgArena),
}

/// Images that frames are made of: see [`Lending::of_images`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImagesId(NonZeroU64);

impl ImagesId {
    /// One that no other lending of this process has.
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        ImagesId(NonZeroU64::new(NEXT.fetch_add(1, Ordering::Relaxed)).unwrap_or(NonZeroU64::MAX))
    }
}

/// Frames that are lent until they are released, in the order in which their sender sent them.
///
/// Allocates while it grows to the size of the bursts and not afterwards.
#[derive(Debug)]
pub struct Lending {
    arena: Arena,
    /// The first `len` are this burst's; those behind are left from others, so that each is written where it
    /// stays instead of being moved there.
    metas: Vec<Meta>,
    len: usize,
    /// What these frames may be cut into.
    segments: u32,
    images: Option<ImagesId>,
}

/// What [`Lending::push_chains`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushedChains {
    /// Chains of the burst that were looked at; behind them the burst was full.
    pub end: usize,
    /// Bytes of the frames made.
    pub bytes: u64,
}

impl Lending {
    /// For the chains of a device queue, at most `max` at a time.
    pub fn of_queue(max: usize) -> Self {
        Lending {
            arena: Arena::Queue(Burst::new(max)),
            metas: vec![Meta::EMPTY; max],
            len: 0,
            segments: 0,
            images: None,
        }
    }

    /// For frames elsewhere.
    pub fn of_memory(max: usize) -> Self {
        Lending {
            arena: Arena::Own(SgArena::with_capacity(2 * max)),
            metas: vec![Meta::EMPTY; max],
            len: 0,
            segments: 0,
            images: None,
        }
    }

    /// As [`Lending::of_memory`], for a traffic generator: what it lends never changes but for the heads, and
    /// frames of one length are the same behind them. A port that keeps frames in buffers of its own then
    /// copies the bytes behind the head once, and not for each frame.
    pub fn of_images(max: usize) -> Self {
        Lending { images: Some(ImagesId::new()), ..Self::of_memory(max) }
    }

    /// Which images the frames are made of.
    #[inline(always)]
    pub(crate) fn images(&self) -> Option<ImagesId> {
        self.images
    }

    /// Number of frames.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether these frames are enough work for one burst, however few they are.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.segments >= MAX_SEGMENTS
    }

    /// One frame.
    #[inline(always)]
    pub fn frame(&self, index: usize) -> Frame<'_> {
        Frame { meta: &self.metas[..self.len][index], lent: self.lent() }
    }

    /// How many frames, from the one at `index` on, follow each other from the same address to the same: a burst
    /// is mostly one conversation.
    #[inline]
    pub fn conversation(&self, index: usize) -> usize {
        let addresses = |meta: &Meta| meta.head.first_chunk::<{ 2 * 6 }>().copied();
        let metas = &self.metas[..self.len][index..];
        let first = metas.first().and_then(addresses);
        metas.iter().take_while(|meta| addresses(meta) == first).count()
    }

    /// The copied start of a frame, for senders that stamp frames of their own before they pass them on.
    #[inline(always)]
    pub fn head_mut(&mut self, index: usize) -> &mut Head {
        &mut self.metas[..self.len][index].head
    }

    /// All frames.
    #[inline(always)]
    pub fn frames(&self) -> impl ExactSizeIterator<Item = Frame<'_>> {
        let lent = self.lent();
        self.metas[..self.len].iter().map(move |meta| Frame { meta, lent })
    }

    #[inline(always)]
    fn lent(&self) -> &SgArena {
        match &self.arena {
            Arena::Queue(burst) => burst.arena(),
            Arena::Own(lent) => lent,
        }
    }

    /// The chains behind the frames, for [`virtqueue::DeviceQueue::pop`] and `complete`; `None` unless
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
    pub fn lent_mut(&mut self) -> Option<&mut SgArena> {
        match &mut self.arena {
            Arena::Own(lent) => Some(lent),
            Arena::Queue(_) => None,
        }
    }

    /// Makes frames of the chains in the burst from `from` on, each with a net header in front, until it is
    /// [full](Lending::is_full); at least of one. `refused` hears of each chain that holds none.
    #[inline]
    pub fn push_chains(
        &mut self,
        from: usize,
        layout: HeaderLayout,
        mut refused: impl FnMut(DropReason),
    ) -> PushedChains {
        let mut made_bytes = 0;
        let Arena::Queue(burst) = &self.arena else { return PushedChains { end: from, bytes: 0 } };
        let unused = self.metas.get_mut(self.len..).unwrap_or_default();
        let mut made = 0;
        let mut refusals = 0;
        for chain in burst.chains().skip(from) {
            // There is one for each chain of the burst; see `of_queue`.
            let Some(meta) = unused.get_mut(made) else { break };
            let simple = chain.only_readable().is_some_and(|whole| meta.look_simple(whole, layout));
            if !simple {
                let (first, end) = chain.readable_range();
                let pieces = burst.arena().slices(first..end);
                if let Err(reason) = meta.look(pieces, chain.readable_bytes(), layout) {
                    refused(reason);
                    refusals += 1;
                    continue;
                }
                // A driver must not say so (VIRTIO 1.3 §5.1.6.2), and receivers would believe it.
                meta.offload.verified = false;
                self.segments = self.segments.saturating_add(meta.segments());
                if self.segments >= MAX_SEGMENTS {
                    (meta.first, meta.end) = chain.readable_range();
                    made_bytes += u64::from(meta.len);
                    made += 1;
                    break;
                }
            }
            (meta.first, meta.end) = chain.readable_range();
            made_bytes += u64::from(meta.len);
            made += 1;
        }
        self.len += made;
        PushedChains { end: from + made + refusals, bytes: made_bytes }
    }

    /// Makes a frame, with a net header in front, of the pieces from `first` on that were lent to
    /// [`Lending::lent_mut`].
    #[inline]
    pub fn push(&mut self, first: u32, layout: HeaderLayout) -> Result<(), DropReason> {
        let Arena::Own(lent) = &self.arena else { return Err(DropReason::NotConnected) };
        self.push_pieces((first, lent.len()), layout)
    }

    /// As [`Lending::push`], but one of each piece; `refused` hears of each that holds none.
    #[inline]
    pub fn push_each(&mut self, first: u32, layout: HeaderLayout, mut refused: impl FnMut(DropReason)) {
        let Arena::Own(lent) = &self.arena else { return };
        for at in first..lent.len() {
            if let Err(reason) = self.push_pieces((at, at + 1), layout) {
                refused(reason);
            }
        }
    }

    #[inline(always)]
    fn push_pieces(&mut self, (first, end): (u32, u32), layout: HeaderLayout) -> Result<(), DropReason> {
        let Arena::Own(lent) = &self.arena else { return Err(DropReason::NotConnected) };
        let pieces = lent.slices(first..end);
        let meta = next(&mut self.metas, self.len);
        let simple = matches!(pieces, [whole] if meta.look_simple(*whole, layout));
        if !simple {
            let bytes = pieces.iter().map(|piece| piece.len_bytes() as u32).sum();
            meta.look(pieces, bytes, layout)?;
            self.segments = self.segments.saturating_add(meta.segments());
        }
        (meta.first, meta.end) = (first, end);
        self.len += 1;
        Ok(())
    }

    /// Forgets the frames, and the pieces unless they are chains (which their queue completes).
    #[inline(always)]
    pub fn clear(&mut self) {
        (self.len, self.segments) = (0, 0);
        if let Arena::Own(lent) = &mut self.arena {
            lent.clear();
        }
    }
}

/// The one behind the last; makes it if it is the first of its kind.
#[inline(always)]
fn next(metas: &mut Vec<Meta>, len: usize) -> &mut Meta {
    if len == metas.len() {
        metas.push(Meta::EMPTY);
    }
    &mut metas[len]
}

impl Meta {
    /// As [`Meta::look`], of a simple frame that is no shorter than a head, or the shortest of Ethernet, which is a
    /// little shorter. False, and nothing is to be believed of this, for others.
    #[inline(always)]
    fn look_simple(&mut self, whole: SharedSlice<'_>, layout: HeaderLayout) -> bool {
        let skip = layout.bytes();
        let len = whole.len_bytes().wrapping_sub(skip);
        // Too short and too long in one comparison.
        if len.wrapping_sub(SHORTEST_FRAME_BYTES) > LARGEST_FRAME_BYTES - SHORTEST_FRAME_BYTES {
            return false;
        }
        // Of a header that says nothing the other fields mean nothing.
        if !whole.begins_with(&[0, NetHeader::GSO_NONE]) {
            return false;
        }
        let is_read = match self.head.first_chunk_mut::<SHORTEST_FRAME_BYTES>() {
            Some(shortest) if len == SHORTEST_FRAME_BYTES => whole.read_array(skip, shortest),
            _ => whole.read_array(skip, &mut self.head),
        };
        (self.offload, self.simple) = (Offload::NONE, true);
        (self.skip, self.len) = (skip as u32, len as u32);
        is_read
    }

    /// Into how many frames it may be cut.
    fn segments(&self) -> u32 {
        self.offload.segmentation.map_or(1, |cut| self.len.div_ceil(u32::from(cut.segment_bytes.get())))
    }

    /// Reads net header and head, once, and checks them.
    #[inline(never)] // the loops around it keep their registers for the simple frames
    fn look(
        &mut self,
        pieces: &[SharedSlice<'_>],
        bytes: u32,
        layout: HeaderLayout,
    ) -> Result<(), DropReason> {
        let skip = layout.bytes() as u32;
        let len = bytes.checked_sub(skip).filter(|len| *len >= ETHERNET_HEADER_BYTES as u32);
        let len = len.ok_or(DropReason::TooShort)?;
        if len > LARGEST_FRAME_BYTES as u32 {
            return Err(DropReason::TooLong);
        }
        let mut header = [0; NetHeader::BYTES];
        match pieces {
            // Nearly always. Of what follows a legacy header nothing is kept here.
            [whole]
                if len >= HEAD_BYTES as u32
                    && whole.read_array(0, &mut header)
                    && whole.read_array(skip as usize, &mut self.head) => {}
            // The header in a piece of its own, as drivers do it that cannot write in front of the data.
            [front, whole, ..]
                if front.len_bytes() == skip as usize
                    && front.read_array(0, &mut header)
                    && whole.read_array(0, &mut self.head) => {}
            _ => read_head(pieces, &mut header, layout, &mut self.head),
        }
        let header = NetHeader::from_bytes(&header, layout);
        self.offload = Offload::parse(header, len).map_err(|_| DropReason::MalformedHeader)?;
        self.simple = self.offload == Offload::NONE;
        (self.skip, self.len) = (skip, len);
        Ok(())
    }
}

#[inline(never)]
fn read_head(
    pieces: &[SharedSlice<'_>],
    header: &mut [u8; NetHeader::BYTES],
    layout: HeaderLayout,
    head: &mut [u8; HEAD_BYTES],
) {
    let skip = layout.bytes();
    memory::SgList::new(pieces).read(&mut header[..skip]);
    memory::SgList::new(pieces).skip(skip).read(head);
}
