//! A burst of chains taken from a queue, lent where they lie.

use std::ops::{Deref, DerefMut};

use memory::{Access, Flush, Lender, Lent, Near, SharedSlice, copy_between};

use crate::error::{Malformed, Place, TakeError};
use crate::tuning;
use crate::work::{MAX_PIECES, Work};

/// One chain of a burst: a buffer of the driver, in one or more pieces.
///
/// The order of the fields is kept: what is the same for all simple chains of a queue lies together, and is
/// written with few stores.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Chain {
    /// First of its slices in the arena; readable ones come before writable ones.
    pub first: u32,
    /// Head (split) or buffer id (packed).
    pub id: u16,
    /// Where it was taken: available index (split) or slot (packed).
    pub taken_at: u16,
    pub readable_pieces: u32,
    pub writable_pieces: u32,
    pub readable_bytes: u32,
    /// What will be reported as written.
    pub written: u32,
    pub writable_bytes: u32,
    /// Ring slots that it occupies (packed).
    pub slots: u16,
    pub done: bool,
}

impl Chain {
    /// Where its piece lies, if it has but one, in this direction.
    #[inline(always)]
    fn only_piece(&self, writable: bool) -> Option<u32> {
        let pieces = if writable { (0, 1) } else { (1, 0) };
        ((self.readable_pieces, self.writable_pieces) == pieces).then_some(self.first)
    }

    #[inline(always)]
    fn first_writable(&self) -> u32 {
        self.first + self.readable_pieces
    }

    #[inline(always)]
    fn end(&self) -> u32 {
        self.first_writable() + self.writable_pieces
    }

    #[inline(always)]
    pub fn pieces(&self) -> u32 {
        self.readable_pieces + self.writable_pieces
    }

    /// Whether it has but one piece, in either direction.
    #[inline(always)]
    pub fn is_single(&self) -> bool {
        self.pieces() == 1
    }

    #[inline(always)]
    fn set_written(&mut self, bytes: u32) {
        self.written = bytes.min(self.writable_bytes);
    }
}

/// The chains of a burst. All slots are there from the beginning and written over, so that a loop that fills
/// them never asks whether there is room for the next.
#[derive(Debug)]
pub(crate) struct Chains {
    slots: Box<[Chain]>,
    len: usize,
}

impl Chains {
    fn new(limit: usize) -> Self {
        Chains { slots: vec![Chain::default(); limit].into(), len: 0 }
    }

    /// Most chains that fit.
    pub fn limit(&self) -> usize {
        self.slots.len()
    }

    /// The slots behind the last chain, to be written before they are [added](Chains::add).
    #[inline(always)]
    pub fn spare(&mut self) -> &mut [Chain] {
        &mut self.slots[self.len..]
    }

    /// The first `count` spare slots are chains now.
    #[inline(always)]
    pub fn add(&mut self, count: usize) {
        debug_assert!(count <= self.slots.len() - self.len);
        self.len = self.slots.len().min(self.len + count);
    }

    /// One more, of which there is room for.
    #[inline(always)]
    pub fn push(&mut self, chain: Chain) {
        self.spare()[0] = chain;
        self.len += 1;
    }

    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl Deref for Chains {
    type Target = [Chain];

    #[inline(always)]
    fn deref(&self) -> &[Chain] {
        &self.slots[..self.len]
    }
}

impl DerefMut for Chains {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [Chain] {
        &mut self.slots[..self.len]
    }
}

/// A reusable arena for the chains of one burst.
///
/// `take` appends chains, the worker reads and writes their buffers in place, `complete` gives them back.
/// The arena allocates while it grows to the size of the bursts and not afterwards. Chains stay valid
/// memory for as long as they are here, even if the guest's memory is unplugged meanwhile.
#[derive(Debug)]
pub struct Burst {
    pub(crate) lent: Lent,
    pub(crate) chains: Chains,
    /// The queue that the chains came from.
    pub(crate) owner: u64,
    /// Chains that are not yet completed.
    pub(crate) open: usize,
    /// See [`Burst::work`].
    pub(crate) work: Work,
}

impl Burst {
    /// An arena for at most `chains` chains at a time.
    pub fn new(chains: usize) -> Self {
        Burst {
            lent: Lent::with_capacity(chains * 2),
            chains: Chains::new(chains),
            owner: 0,
            open: 0,
            work: Work::default(),
        }
    }

    /// Most chains that fit.
    pub fn capacity(&self) -> usize {
        self.chains.limit()
    }

    /// Number of chains, completed ones included.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.chains.len()
    }

    /// Whether there is no chain.
    pub fn is_empty(&self) -> bool {
        self.chains.is_empty()
    }

    /// What it took to take chains from the beginning on, in descriptors followed and pieces lent of chains that
    /// have several; goes on from 0 behind the largest number. Each call of `take` adds a few thousand at most.
    pub fn work(&self) -> u32 {
        self.work.total()
    }

    /// Number of chains that are still to be completed.
    pub fn open(&self) -> usize {
        self.open
    }

    /// Where the chains' pieces are kept.
    #[inline(always)]
    pub fn lent(&self) -> &Lent {
        &self.lent
    }

    /// One chain.
    #[inline(always)]
    pub fn chain(&self, index: usize) -> ChainRef<'_> {
        ChainRef { burst: self, chain: &self.chains[index] }
    }

    /// All chains, in the order in which they were taken.
    pub fn chains(&self) -> impl ExactSizeIterator<Item = ChainRef<'_>> {
        self.chains.iter().map(|chain| ChainRef { burst: self, chain })
    }

    /// Says how many bytes were written to a chain's writable part; more than it holds is cut to that.
    #[inline(always)]
    pub fn set_written(&mut self, index: usize, bytes: u32) {
        self.chains[index].set_written(bytes);
    }

    /// Lets `fill` write to each chain from `from` on, as long as the chain is nothing but one piece that the
    /// device may write and `fill` says how many bytes it has written. Returns how many chains were filled.
    #[inline(always)]
    pub fn fill_singles(
        &mut self,
        from: usize,
        mut fill: impl FnMut(SharedSlice<'_>) -> Option<u32>,
    ) -> usize {
        let mut filled = 0;
        for chain in &mut self.chains[from..] {
            let Some(piece) = chain.only_piece(true).and_then(|at| self.lent.slice(at)) else { break };
            let Some(written) = fill(piece) else { break };
            chain.set_written(written);
            filled += 1;
        }
        filled
    }

    /// Gives up, of each chain that the driver wrote in one piece, the line `offset` bytes in.
    #[inline(never)]
    pub fn flush(&self, flush: Flush, offset: usize) {
        for piece in self.chains().filter_map(|chain| chain.only_readable()) {
            flush.slice(piece, offset);
        }
    }

    /// Forgets all chains, completed or not: for a queue that has been reset.
    pub fn clear(&mut self) {
        self.chains.truncate(0);
        self.lent.clear();
        self.open = 0;
    }

    /// As [`Burst::clear`], and lets go of the guest's memory.
    pub fn release(&mut self) {
        self.clear();
        self.lent.release();
    }

    /// Prepares for a burst from `owner`; what another queue left open can no longer be completed there.
    #[inline(always)]
    pub(crate) fn begin(&mut self, owner: u64) {
        if self.open == 0 || self.owner != owner {
            self.clear();
            self.owner = owner;
        }
    }

    #[inline(always)]
    pub(crate) fn room(&self) -> usize {
        self.chains.limit() - self.chains.len()
    }

    /// Whether there are chains from `from` on and none of them is completed.
    pub(crate) fn all_open(&self, from: usize) -> bool {
        from < self.chains.len() && self.chains[from..].iter().all(|chain| !chain.done)
    }

    /// Removes the chains from `from` on.
    pub(crate) fn cut(&mut self, from: usize) {
        if let Some(chain) = self.chains.get(from) {
            self.lent.truncate(chain.first);
            self.open -= self.chains[from..].iter().filter(|chain| !chain.done).count();
            self.chains.truncate(from);
        }
    }

    /// The writable slices of a chain, for the dirty log.
    pub(crate) fn writable(&self, chain: &Chain) -> &[SharedSlice<'_>] {
        self.lent.slices(chain.first_writable()..chain.end())
    }
}

/// A chain of a burst, to be read and written in place.
#[derive(Clone, Copy, Debug)]
pub struct ChainRef<'a> {
    burst: &'a Burst,
    chain: &'a Chain,
}

impl<'a> ChainRef<'a> {
    /// The pieces that the driver wrote for the device, in order.
    #[inline(always)]
    pub fn readable(&self) -> &'a [SharedSlice<'a>] {
        self.burst.lent.slices(self.chain.first..self.chain.first_writable())
    }

    /// First and end of the readable pieces in [`Burst::lent`].
    #[inline(always)]
    pub fn readable_range(&self) -> (u32, u32) {
        (self.chain.first, self.chain.first_writable())
    }

    /// The pieces that the device may write, in order.
    #[inline(always)]
    pub fn writable(&self) -> &'a [SharedSlice<'a>] {
        self.burst.lent.slices(self.chain.first_writable()..self.chain.end())
    }

    /// The piece that the driver wrote, if the chain is nothing but one such piece.
    #[inline(always)]
    pub fn only_readable(&self) -> Option<SharedSlice<'a>> {
        self.chain.only_piece(false).and_then(|at| self.burst.lent.slice(at))
    }

    /// Bytes in the readable pieces.
    #[inline(always)]
    pub fn readable_bytes(&self) -> u32 {
        self.chain.readable_bytes
    }

    /// Bytes in the writable pieces.
    #[inline(always)]
    pub fn writable_bytes(&self) -> u32 {
        self.chain.writable_bytes
    }

    /// The chain's head (split) or buffer id (packed): what identifies it to the driver.
    pub fn id(&self) -> u16 {
        self.chain.id
    }

    /// Whether it has been completed.
    pub fn is_done(&self) -> bool {
        self.chain.done
    }

    /// Copies from the readable part, `offset` bytes in, each byte read once; returns how many bytes.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> usize {
        let (mut skip, mut at) = (offset, 0);
        for slice in self.readable() {
            let rest = slice.slice(skip, usize::MAX);
            skip -= slice.len_bytes() - rest.len_bytes();
            at += rest.read(&mut into[at..]);
        }
        at
    }

    /// Copies to the writable part, `offset` bytes in; returns how many bytes.
    pub fn write(&self, offset: usize, from: &[u8]) -> usize {
        let (mut skip, mut at) = (offset, 0);
        for slice in self.writable() {
            let rest = slice.slice(skip, usize::MAX);
            skip -= slice.len_bytes() - rest.len_bytes();
            at += rest.write(&from[at..]);
        }
        at
    }

    /// The one copy between two guests: from this chain's readable part, `offset` bytes in, to the
    /// writable part of another guest's chain; at most `len` bytes; returns how many.
    pub fn copy_to(&self, offset: usize, to: ChainRef<'_>, to_offset: usize, len: usize) -> usize {
        let (from, into) = (self.readable().iter().copied(), to.writable().iter().copied());
        copy_between(from, offset, into, to_offset, len)
    }
}

/// Chains of one descriptor each in the making, all of one direction and all with buffers that lie where the
/// last one did: most are. What a chain needs beside its descriptor is in registers meanwhile.
pub(crate) struct Singles<'a, const WRITABLE: bool> {
    near: Near<'a>,
    first: u32,
}

impl<'a, const WRITABLE: bool> Singles<'a, WRITABLE> {
    const ACCESS: Access = if WRITABLE { Access::Write } else { Access::Read };

    /// At most `max` chains.
    #[inline(always)]
    pub fn new(lender: &'a mut Lender<'_>, max: usize) -> Self {
        let first = lender.len();
        Singles { near: lender.near(Self::ACCESS, max), first }
    }

    /// Lends a buffer and writes its chain; false, and nothing is lent, for all that is not so simple.
    #[inline(always)]
    pub fn push(&mut self, (address, len): (u64, u32), id: u16, taken_at: u16, to: &mut Chain) -> bool {
        let Some(buffer) = self.near.push(address, len) else { return false };
        if tuning::PREFETCH {
            // Used when the whole burst has been taken: meanwhile all its lines are on their way.
            buffer.prefetch(Self::ACCESS);
        }
        *to = Chain {
            first: self.first,
            id,
            taken_at,
            readable_pieces: u32::from(!WRITABLE),
            writable_pieces: u32::from(WRITABLE),
            readable_bytes: if WRITABLE { 0 } else { len },
            written: 0,
            writable_bytes: if WRITABLE { len } else { 0 },
            slots: 1,
            done: false,
        };
        self.first += 1;
        true
    }

    /// Takes back the last `count` chains' buffers.
    pub fn take_back(&mut self, count: usize) {
        self.near.take_back(count);
        self.first -= count as u32;
    }
}

/// Adds up a chain's descriptors and checks the rules that all layouts share.
pub(crate) struct ChainBuilder {
    first: u32,
    first_writable: Option<u32>,
    readable_bytes: u32,
    writable_bytes: u32,
}

impl ChainBuilder {
    #[inline(always)]
    pub fn new(lender: &Lender<'_>) -> Self {
        ChainBuilder { first: lender.len(), first_writable: None, readable_bytes: 0, writable_bytes: 0 }
    }

    #[inline(always)]
    pub fn add(
        &mut self,
        lender: &mut Lender<'_>,
        address: u64,
        len: u32,
        writable: bool,
        place: Place,
    ) -> Result<(), TakeError> {
        let (access, bytes) = if writable {
            if self.first_writable.is_none() {
                self.first_writable = Some(lender.len());
            }
            (Access::Write, &mut self.writable_bytes)
        } else {
            if self.first_writable.is_some() {
                return Err(TakeError::malformed(Malformed::ReadableAfterWritable, place, address));
            }
            (Access::Read, &mut self.readable_bytes)
        };
        let total = bytes.checked_add(len);
        *bytes = total.ok_or_else(|| TakeError::malformed(Malformed::LengthOverflow, place, len.into()))?;
        let pushed = lender.push_up_to(self.first + MAX_PIECES, address, len, access);
        pushed.map_err(|fault| TakeError::fault(fault, place))?;
        if tuning::PREFETCH
            && let Some(buffer) = lender.last()
        {
            buffer.prefetch(access);
        }
        Ok(())
    }

    #[inline(always)]
    pub fn finish(self, lender: &Lender<'_>, id: u16, slots: u16, taken_at: u16) -> Chain {
        let first_writable = self.first_writable.unwrap_or(lender.len());
        Chain {
            first: self.first,
            id,
            taken_at,
            readable_pieces: first_writable - self.first,
            writable_pieces: lender.len() - first_writable,
            readable_bytes: self.readable_bytes,
            written: 0,
            writable_bytes: self.writable_bytes,
            slots,
            done: false,
        }
    }
}

/// Steps through the chains of a completion and says for each batch which used entry stands for it.
///
/// Without IN_ORDER every chain has its own. With it, one entry stands for a run of chains, and the driver
/// takes the skipped ones as written to their full length (VIRTIO 1.3 §2.7.9, §2.8.8); a chain that was
/// written only in part therefore ends its batch.
pub(crate) fn batches(chains: &mut [Chain], in_order: bool, mut used: impl FnMut(BatchEnd)) {
    let mut batch = BatchEnd::default();
    let count = chains.len();
    for (i, chain) in chains.iter_mut().enumerate() {
        chain.done = true;
        batch.chains += 1;
        batch.slots += chain.slots;
        if !in_order || i + 1 == count || chain.written != chain.writable_bytes {
            batch.id = chain.id;
            batch.written = chain.written;
            batch.writable = chain.writable_bytes > 0;
            used(batch);
            batch = BatchEnd::default();
        }
    }
}

/// One used entry and the chains it stands for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BatchEnd {
    pub id: u16,
    pub written: u32,
    pub writable: bool,
    pub chains: u16,
    pub slots: u16,
}
