//! A batch of frames, borrowed where their sender put them.
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use memory::{Lent, SharedSlice};
use virtio::net::{HeaderLayout, NetHeader, Offload};
use virtqueue::Burst;

use crate::DropReason;
use crate::frame::{
    ETHERNET_HEADER_BYTES, Frame, FrameMeta, HeaderSnapshot, LARGEST_FRAME_BYTES, SHORTEST_FRAME_BYTES,
    SNAPSHOT_BYTES,
};

/// Segments that the frames of one batch may become until it is [full](FrameBatch::is_full): those of 33 frames of
/// 64 KiB with the smallest usual `gso_size`, 536 (RFC 9293 §3.7.1), or of 91 with 1460. Segmenting costs time by the
/// segment, and `gso_size` is the sender's to choose; Linux takes any above 0. With no limit but
/// [`MAX_PIECES`](virtio::net::segment::MAX_PIECES) for each frame, 32 of them would be 32 768 segments for every
/// receiver before anybody else gets a turn. Nothing is lost by this limit: what is left comes with the next burst.
const MAX_SEGMENTS: u32 = 4096;

/// What holds the frames' slices.
#[derive(Debug)]
enum Storage {
    /// Chains of a device queue.
    Queue(Burst),
    /// Memory of this process, or shared with a device half elsewhere.
    Own(Lent),
}

/// Images that frames are made of: see [`FrameBatch::of_images`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImagesId(NonZeroU64);

impl ImagesId {
    /// One that no other batch of this process has.
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        ImagesId(NonZeroU64::new(NEXT.fetch_add(1, Ordering::Relaxed)).unwrap_or(NonZeroU64::MAX))
    }
}

/// Frames that are borrowed until they are released, in the order in which their sender sent them.
///
/// Allocates while it grows to the size of the bursts and not afterwards.
#[derive(Debug)]
pub struct FrameBatch {
    storage: Storage,
    /// The first `len` are this burst's; those behind are left from others, so that each is written where it
    /// stays instead of being moved there.
    metas: Vec<FrameMeta>,
    len: usize,
    /// Segments that these frames may become.
    segments: u32,
    images: Option<ImagesId>,
}

/// What [`FrameBatch::push_chains`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushedChains {
    /// Chains of the burst that were looked at; behind them the burst was full.
    pub end: usize,
    /// Bytes of the frames made.
    pub bytes: u64,
}

impl FrameBatch {
    /// For the chains of a device queue, at most `max` at a time.
    pub fn of_queue(max: usize) -> Self {
        FrameBatch {
            storage: Storage::Queue(Burst::new(max)),
            metas: vec![FrameMeta::EMPTY; max],
            len: 0,
            segments: 0,
            images: None,
        }
    }

    /// For frames elsewhere.
    pub fn of_memory(max: usize) -> Self {
        FrameBatch {
            storage: Storage::Own(Lent::with_capacity(2 * max)),
            metas: vec![FrameMeta::EMPTY; max],
            len: 0,
            segments: 0,
            images: None,
        }
    }

    /// As [`FrameBatch::of_memory`], for a traffic generator: its frames never change but for the snapshots, and
    /// frames of one length are the same behind them. A port that keeps frames in buffers of its own then
    /// copies the bytes behind the head once, and not for each frame.
    pub fn of_images(max: usize) -> Self {
        FrameBatch { images: Some(ImagesId::new()), ..Self::of_memory(max) }
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
        Frame { meta: &self.metas[..self.len][index], arena: self.arena() }
    }

    /// How many frames, from the one at `index` on, follow each other from the same address to the same: most
    /// batches are one such run.
    #[inline]
    pub fn same_address_run(&self, index: usize) -> usize {
        let addresses = |meta: &FrameMeta| meta.snapshot.first_chunk::<{ 2 * 6 }>().copied();
        let metas = &self.metas[..self.len][index..];
        let first = metas.first().and_then(addresses);
        metas.iter().take_while(|meta| addresses(meta) == first).count()
    }

    /// The copied start of a frame, for senders that stamp frames of their own before they pass them on.
    #[inline(always)]
    pub fn snapshot_mut(&mut self, index: usize) -> &mut HeaderSnapshot {
        &mut self.metas[..self.len][index].snapshot
    }

    /// All frames.
    #[inline(always)]
    pub fn frames(&self) -> impl ExactSizeIterator<Item = Frame<'_>> {
        let arena = self.arena();
        self.metas[..self.len].iter().map(move |meta| Frame { meta, arena })
    }

    #[inline(always)]
    fn arena(&self) -> &Lent {
        match &self.storage {
            Storage::Queue(burst) => burst.lent(),
            Storage::Own(arena) => arena,
        }
    }

    /// The chains behind the frames, for [`virtqueue::DeviceQueue::take`] and `complete`; `None` unless
    /// made by [`FrameBatch::of_queue`].
    #[inline(always)]
    pub fn burst_mut(&mut self) -> Option<&mut Burst> {
        match &mut self.storage {
            Storage::Queue(burst) => Some(burst),
            Storage::Own(_) => None,
        }
    }

    /// The arena to put slices in before they are [pushed](FrameBatch::push); `None` unless made by
    /// [`FrameBatch::of_memory`].
    #[inline(always)]
    pub fn arena_mut(&mut self) -> Option<&mut Lent> {
        match &mut self.storage {
            Storage::Own(arena) => Some(arena),
            Storage::Queue(_) => None,
        }
    }

    /// Makes frames of the chains in the burst from `from` on, each with a net header in front, until it is
    /// [full](FrameBatch::is_full); at least of one. `refused` is told of each chain that holds none.
    #[inline]
    pub fn push_chains(
        &mut self,
        from: usize,
        layout: HeaderLayout,
        mut refused: impl FnMut(DropReason),
    ) -> PushedChains {
        let mut made_bytes = 0;
        let Storage::Queue(burst) = &self.storage else { return PushedChains { end: from, bytes: 0 } };
        let unused = self.metas.get_mut(self.len..).unwrap_or_default();
        let mut made = 0;
        let mut refusals = 0;
        for chain in burst.chains().skip(from) {
            // There is one for each chain of the burst; see `of_queue`.
            let Some(meta) = unused.get_mut(made) else { break };
            let simple = chain.only_readable().is_some_and(|whole| meta.parse_fast(whole, layout));
            if !simple {
                let (first, end) = chain.readable_range();
                let slices = burst.lent().slices(first..end);
                if let Err(reason) = meta.parse_header(slices, chain.readable_bytes(), layout) {
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

    /// Makes a frame, with a net header in front, of the slices from `first` on in [`FrameBatch::arena_mut`].
    #[inline]
    pub fn push(&mut self, first: u32, layout: HeaderLayout) -> Result<(), DropReason> {
        let Storage::Own(arena) = &self.storage else { return Err(DropReason::NotConnected) };
        self.push_slices((first, arena.len()), layout)
    }

    /// As [`FrameBatch::push`], but one of each slice; `refused` is told of each that holds none.
    #[inline]
    pub fn push_each(&mut self, first: u32, layout: HeaderLayout, mut refused: impl FnMut(DropReason)) {
        let Storage::Own(arena) = &self.storage else { return };
        for at in first..arena.len() {
            if let Err(reason) = self.push_slices((at, at + 1), layout) {
                refused(reason);
            }
        }
    }

    #[inline(always)]
    fn push_slices(&mut self, (first, end): (u32, u32), layout: HeaderLayout) -> Result<(), DropReason> {
        let Storage::Own(arena) = &self.storage else { return Err(DropReason::NotConnected) };
        let slices = arena.slices(first..end);
        let meta = next(&mut self.metas, self.len);
        let simple = matches!(slices, [whole] if meta.parse_fast(*whole, layout));
        if !simple {
            let bytes = slices.iter().map(|slice| slice.len_bytes() as u32).sum();
            meta.parse_header(slices, bytes, layout)?;
            self.segments = self.segments.saturating_add(meta.segments());
        }
        (meta.first, meta.end) = (first, end);
        self.len += 1;
        Ok(())
    }

    /// Forgets the frames, and the slices unless they are chains (which their queue completes).
    #[inline(always)]
    pub fn clear(&mut self) {
        (self.len, self.segments) = (0, 0);
        if let Storage::Own(arena) = &mut self.storage {
            arena.clear();
        }
    }
}

/// The one behind the last; makes it if it is the first of its kind.
#[inline(always)]
fn next(metas: &mut Vec<FrameMeta>, len: usize) -> &mut FrameMeta {
    if len == metas.len() {
        metas.push(FrameMeta::EMPTY);
    }
    &mut metas[len]
}

impl FrameMeta {
    /// As [`FrameMeta::parse_header`], of a simple frame that is no shorter than a snapshot, or the shortest of
    /// Ethernet, which is a little shorter. False, and nothing is to be believed of this, for others.
    #[inline(always)]
    fn parse_fast(&mut self, whole: SharedSlice<'_>, layout: HeaderLayout) -> bool {
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
        let is_read = match self.snapshot.first_chunk_mut::<SHORTEST_FRAME_BYTES>() {
            Some(shortest) if len == SHORTEST_FRAME_BYTES => whole.read_array(skip, shortest),
            _ => whole.read_array(skip, &mut self.snapshot),
        };
        (self.offload, self.simple) = (Offload::NONE, true);
        (self.skip, self.len) = (skip as u32, len as u32);
        is_read
    }

    /// How many segments it may become.
    fn segments(&self) -> u32 {
        self.offload.segmentation.map_or(1, |gso| self.len.div_ceil(u32::from(gso.segment_bytes.get())))
    }

    /// Reads net header and snapshot, once, and checks them.
    #[inline(never)] // the loops around it keep their registers for the simple frames
    fn parse_header(
        &mut self,
        slices: &[SharedSlice<'_>],
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
        match slices {
            // Nearly always. Of what follows a legacy header nothing is kept here.
            [whole]
                if len >= SNAPSHOT_BYTES as u32
                    && whole.read_array(0, &mut header)
                    && whole.read_array(skip as usize, &mut self.snapshot) => {}
            // The header in a slice of its own, as drivers do it that cannot write in front of the data.
            [front, whole, ..]
                if front.len_bytes() == skip as usize
                    && front.read_array(0, &mut header)
                    && whole.read_array(0, &mut self.snapshot) => {}
            _ => read_split_header(slices, &mut header, layout, &mut self.snapshot),
        }
        let header = NetHeader::from_bytes(&header, layout);
        self.offload = Offload::parse(header, len).map_err(|_| DropReason::MalformedHeader)?;
        self.simple = self.offload == Offload::NONE;
        (self.skip, self.len) = (skip, len);
        Ok(())
    }
}

#[inline(never)]
fn read_split_header(
    slices: &[SharedSlice<'_>],
    header: &mut [u8; NetHeader::BYTES],
    layout: HeaderLayout,
    snapshot: &mut HeaderSnapshot,
) {
    let skip = layout.bytes();
    memory::read_between(slices.iter().copied(), 0, &mut header[..skip]);
    memory::read_between(slices.iter().copied(), skip, snapshot);
}
