//! A batch of frames, borrowed in their sender's memory.
mod edited;
mod images;
mod log;
mod memory;
mod metadata;
mod parse;
mod runs;
mod work;

use ::memory::SgArena;
use deliveries::SenderLog;
use virtio::net::HeaderLayout;
use virtqueue::Burst;

use crate::frame::{Frame, FrameMeta};
use crate::{DropReason, Metadata};

use work::{MAX_WORK, enough, of_popped};
pub use {edited::EditedFrames, images::ImagesId};

/// The owner of the frames' slices.
#[derive(Debug)]
enum Storage {
    Queue(Burst),
    /// Memory of this process, which a device half in another process may share.
    Own(SgArena),
}

/// Frames that are borrowed until they are released, in the order in which their sender sent them.
#[derive(Debug)]
pub struct FrameBatch {
    storage: Storage,
    /// The first `len` are this burst's. Entries behind them are left from others, so that each is written in place.
    metas: Vec<FrameMeta>,
    len: usize,
    work: u32,
    images: Option<ImagesId>,
    /// Notes deliveries of these frames.
    log: Option<SenderLog>,
    /// By frame; empty if no frame has any.
    metadata: Vec<Option<Metadata>>,
}

/// The result of [`FrameBatch::push_chains`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushedChains {
    /// The number of chains that were read. The chains behind them did not fit into the burst.
    pub end: usize,
    /// Bytes of the frames made.
    pub bytes: u64,
}

impl FrameBatch {
    /// A batch for at most `max` chains of a device queue.
    pub fn of_queue(max: usize) -> Self {
        Self::of(Storage::Queue(Burst::new(max)), max)
    }

    /// A batch for frames in other memory.
    pub fn of_memory(max: usize) -> Self {
        Self::of(Storage::Own(SgArena::with_capacity(2 * max)), max)
    }

    fn of(storage: Storage, max: usize) -> Self {
        let metas = vec![FrameMeta::EMPTY; max];
        FrameBatch { storage, metas, len: 0, work: 0, images: None, log: None, metadata: Vec::new() }
    }

    /// Number of frames.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no frames.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The cost of these frames, in bytes copied.
    #[inline(always)]
    pub fn work(&self) -> u32 {
        self.work
    }

    /// Whether these frames cost enough to end the burst, however few they are.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.work >= MAX_WORK
    }

    /// How many chains roughly fill a batch, given that these frames from `chains` chains cost what they do.
    pub fn enough(&self, chains: usize) -> usize {
        enough(chains, self.work)
    }

    /// Counts the cost of popping the chains for these frames, including chains that hold no frame or are left for
    /// the next burst.
    pub fn count_popped(&mut self, descriptors_and_pieces: u32) {
        self.work += of_popped(descriptors_and_pieces);
    }

    /// One frame.
    #[inline(always)]
    pub fn frame(&self, index: usize) -> Frame<'_> {
        Frame { meta: &self.metas[..self.len][index], arena: self.arena() }
    }

    /// All frames.
    #[inline(always)]
    pub fn frames(&self) -> impl ExactSizeIterator<Item = Frame<'_>> {
        let arena = self.arena();
        self.metas[..self.len].iter().map(move |meta| Frame { meta, arena })
    }

    #[inline(always)]
    fn arena(&self) -> &SgArena {
        match &self.storage {
            Storage::Queue(burst) => burst.arena(),
            Storage::Own(arena) => arena,
        }
    }

    /// The chains behind the frames, for [`virtqueue::DeviceQueue::pop`] and `add_used`; `None` unless
    /// made by [`FrameBatch::of_queue`].
    #[inline(always)]
    pub fn burst_mut(&mut self) -> Option<&mut Burst> {
        match &mut self.storage {
            Storage::Queue(burst) => Some(burst),
            Storage::Own(_) => None,
        }
    }

    /// Makes frames of the chains in the burst from `from` on, each with a net header in front, until the batch is
    /// [full](FrameBatch::is_full). Takes at least one chain. `refused` is called for each chain that holds no
    /// valid frame.
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
                let slices = burst.arena().slices(first..end);
                if let Err(reason) = meta.parse_header(slices, chain.readable_bytes(), layout) {
                    refused(reason);
                    refusals += 1;
                    continue;
                }
                // A driver must not set this bit (VIRTIO 1.3 §5.1.6.2), and receivers would rely on it.
                meta.offload.verified = false;
                self.work += meta.extra_work();
                if self.work + made_bytes as u32 + meta.len >= MAX_WORK {
                    (meta.first, meta.end) = (first, end);
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
        self.work += made_bytes as u32;
        PushedChains { end: from + made + refusals, bytes: made_bytes }
    }

    /// Forgets the frames, and their slices unless these are chains, which their queue completes.
    #[inline(always)]
    pub fn clear(&mut self) {
        (self.len, self.work) = (0, 0);
        if let Storage::Own(arena) = &mut self.storage {
            arena.clear();
            self.metadata.clear();
        }
    }
}
