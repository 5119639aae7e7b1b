//! A burst of chains taken from a queue, lent where they lie.

use memory::{Access, Lender, Lent, SharedSlice, copy_between};

use crate::error::{Malformed, Place, TakeError};
use crate::tuning;

/// One chain of a burst: a buffer of the driver, in one or more pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    /// First of its slices in the arena; readable ones come before writable ones.
    pub first: u32,
    pub first_writable: u32,
    pub end: u32,
    pub readable_bytes: u32,
    pub writable_bytes: u32,
    /// What will be reported as written.
    pub written: u32,
    /// Head (split) or buffer id (packed).
    pub id: u16,
    /// Ring slots that it occupies (packed).
    pub slots: u16,
    /// Where it was taken: available index (split) or slot (packed).
    pub taken_at: u16,
    pub done: bool,
}

/// A reusable arena for the chains of one burst.
///
/// `take` appends chains, the worker reads and writes their buffers in place, `complete` gives them back.
/// The arena allocates while it grows to the size of the bursts and not afterwards. Chains stay valid
/// memory for as long as they are here, even if the guest's memory is unplugged meanwhile.
#[derive(Debug)]
pub struct Burst {
    pub(crate) lent: Lent,
    pub(crate) chains: Vec<Chain>,
    /// The queue that the chains came from.
    pub(crate) owner: u64,
    /// Chains that are not yet completed.
    pub(crate) open: usize,
    limit: usize,
}

impl Burst {
    /// An arena for at most `chains` chains at a time.
    pub fn new(chains: usize) -> Self {
        Burst {
            lent: Lent::with_capacity(chains * 2),
            chains: Vec::with_capacity(chains),
            owner: 0,
            open: 0,
            limit: chains,
        }
    }

    /// Most chains that fit.
    pub fn capacity(&self) -> usize {
        self.limit
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
        let chain = &mut self.chains[index];
        chain.written = bytes.min(chain.writable_bytes);
    }

    /// Forgets all chains, completed or not: for a queue that has been reset.
    pub fn clear(&mut self) {
        self.chains.clear();
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
        self.limit - self.chains.len()
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
        self.lent.slices(chain.first_writable..chain.end)
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
        self.burst.lent.slices(self.chain.first..self.chain.first_writable)
    }

    /// First and end of the readable pieces in [`Burst::lent`].
    #[inline(always)]
    pub fn readable_range(&self) -> (u32, u32) {
        (self.chain.first, self.chain.first_writable)
    }

    /// The pieces that the device may write, in order.
    #[inline(always)]
    pub fn writable(&self) -> &'a [SharedSlice<'a>] {
        self.burst.lent.slices(self.chain.first_writable..self.chain.end)
    }

    /// The piece that the device may write, if the chain is nothing but one such piece.
    #[inline(always)]
    pub fn only_writable(&self) -> Option<SharedSlice<'a>> {
        let Chain { first, first_writable, end, .. } = *self.chain;
        match self.burst.lent.slices(first..end) {
            [whole] if first == first_writable => Some(*whole),
            _ => None,
        }
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

/// A chain of one descriptor whose buffer lies where the last one did: most are. `None`, and nothing is
/// lent, for all others.
#[inline(always)]
pub(crate) fn single(
    lender: &mut Lender<'_>,
    (address, len): (u64, u32),
    writable: bool,
    id: u16,
    taken_at: u16,
) -> Option<Chain> {
    let first = lender.len();
    let access = if writable { Access::Write } else { Access::Read };
    let buffer = lender.push_near(address, len, access)?;
    if tuning::PREFETCH {
        // Used when the whole burst has been taken: meanwhile all its lines are on their way.
        buffer.prefetch(access);
    }
    let (readable_bytes, writable_bytes) = if writable { (0, len) } else { (len, 0) };
    let first_writable = first + u32::from(!writable);
    let end = first + 1;
    let written = 0;
    Some(Chain {
        first,
        first_writable,
        end,
        readable_bytes,
        writable_bytes,
        written,
        id,
        slots: 1,
        taken_at,
        done: false,
    })
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
        lender.push(address, len, access).map_err(|fault| TakeError::fault(fault, place))
    }

    #[inline(always)]
    pub fn finish(self, lender: &Lender<'_>, id: u16, slots: u16, taken_at: u16) -> Chain {
        let end = lender.len();
        Chain {
            first: self.first,
            first_writable: self.first_writable.unwrap_or(end),
            end,
            readable_bytes: self.readable_bytes,
            writable_bytes: self.writable_bytes,
            written: 0,
            id,
            slots,
            taken_at,
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
