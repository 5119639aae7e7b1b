//! A burst of chains popped from a queue, with the addresses of their buffers.

use memory::{Demotion, SgArena, SgList, SharedSlice};

use crate::chain::Chain;
use crate::chains::Chains;
use crate::work::Work;

/// A reusable arena for the chains of one burst.
///
/// `pop` appends chains, the worker reads and writes their buffers in place, `add_used` gives them back.
/// The arena allocates while it grows to the size of the bursts and not afterwards. The buffers of chains stay mapped
/// as long as the chains are in the burst, even if the guest's memory is unplugged meanwhile.
#[derive(Debug)]
pub struct Burst {
    pub(crate) arena: SgArena,
    pub(crate) chains: Chains,
    /// The queue that the chains came from.
    pub(crate) owner: u64,
    /// How many chains the queue had popped in total when it popped the last of these.
    pub(crate) popped_to: u64,
    /// Chains that are not yet used.
    pub(crate) open: usize,
    /// See [`Burst::work`].
    pub(crate) work: Work,
    /// See [`Burst::set_descriptor_demotion`].
    pub(crate) demotion: Option<Demotion>,
}

impl Burst {
    /// An arena for at most `chains` chains at a time.
    pub fn new(chains: usize) -> Self {
        Burst {
            arena: SgArena::with_capacity(chains * 2),
            chains: Chains::new(chains),
            owner: 0,
            popped_to: 0,
            open: 0,
            work: Work::default(),
            demotion: None,
        }
    }

    /// The most chains that fit.
    pub fn capacity(&self) -> usize {
        self.chains.limit()
    }

    /// The number of chains, including used ones.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.chains.len()
    }

    /// Whether there is no chain.
    pub fn is_empty(&self) -> bool {
        self.chains.is_empty()
    }

    /// The work of popping all chains so far: descriptors followed, and pieces of chains with several pieces. The
    /// counter wraps around to 0. Each call of `pop` adds a few thousand at most.
    pub fn work(&self) -> u32 {
        self.work.total()
    }

    /// The number of chains that are not yet used.
    pub fn open(&self) -> usize {
        self.open
    }

    /// The arena with the chains' pieces.
    #[inline(always)]
    pub fn arena(&self) -> &SgArena {
        &self.arena
    }

    /// One chain.
    #[inline(always)]
    pub fn chain(&self, index: usize) -> ChainRef<'_> {
        ChainRef { burst: self, chain: &self.chains[index] }
    }

    /// All chains, in the order in which they were popped.
    pub fn chains(&self) -> impl ExactSizeIterator<Item = ChainRef<'_>> {
        self.chains.iter().map(|chain| ChainRef { burst: self, chain })
    }

    /// Sets how many bytes were written to a chain's writable part. A number above the part's size is reduced to it.
    #[inline(always)]
    pub fn set_written(&mut self, index: usize, bytes: u32) {
        self.chains[index].set_written(bytes);
    }

    /// Lets `fill` write to each chain from `from` on. It stops at a chain that is not one piece writable by the
    /// device, and when `fill` does not return how many bytes it has written. Returns how many chains were filled.
    #[inline(always)]
    pub fn fill_singles(
        &mut self,
        from: usize,
        mut fill: impl FnMut(SharedSlice<'_>) -> Option<u32>,
    ) -> usize {
        let mut filled = 0;
        for chain in &mut self.chains[from..] {
            let Some(piece) = chain.only_piece(true).and_then(|at| self.arena.slice(at)) else { break };
            let Some(written) = fill(piece) else { break };
            chain.set_written(written);
            filled += 1;
        }
        filled
    }

    /// Sets how the cache lines of descriptors are demoted when their chains are given back. Only queues that
    /// [support it](crate::DeviceQueue::demotes_descriptors) do so.
    #[inline(always)]
    pub fn set_descriptor_demotion(&mut self, demotion: Option<Demotion>) {
        self.demotion = demotion;
    }

    /// Demotes the line at `offset` bytes into each chain that the driver wrote in one piece.
    #[inline(never)]
    pub fn demote_readable(&self, demotion: Demotion, offset: usize) {
        for piece in self.chains().filter_map(|chain| chain.only_readable()) {
            demotion.slice(piece, offset);
        }
    }

    /// Forgets all chains, used or not: for a queue that has been reset.
    pub fn clear(&mut self) {
        self.chains.truncate(0);
        self.arena.clear();
        self.open = 0;
    }

    /// As [`Burst::clear`], and also releases the guest's memory.
    pub fn release(&mut self) {
        self.clear();
        self.arena.release();
    }

    /// Prepares for a burst from `owner`. Chains of another queue that are still open become unusable.
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

    /// Whether there are chains from `from` on and all of them are unused.
    pub(crate) fn all_open(&self, from: usize) -> bool {
        from < self.chains.len() && self.chains[from..].iter().all(|chain| !chain.done)
    }

    /// Removes the chains from `from` on.
    pub(crate) fn truncate(&mut self, from: usize) {
        if let Some(chain) = self.chains.get(from) {
            self.arena.truncate(chain.first);
            self.open -= self.chains[from..].iter().filter(|chain| !chain.done).count();
            self.chains.truncate(from);
        }
    }

    /// The writable slices of a chain, for the dirty log.
    pub(crate) fn writable(&self, chain: &Chain) -> &[SharedSlice<'_>] {
        self.arena.slices(chain.first_writable()..chain.end())
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
        self.burst.arena.slices(self.chain.first..self.chain.first_writable())
    }

    /// First and end of the readable pieces in [`Burst::arena`].
    #[inline(always)]
    pub fn readable_range(&self) -> (u32, u32) {
        (self.chain.first, self.chain.first_writable())
    }

    /// The pieces that the device may write, in order.
    #[inline(always)]
    pub fn writable(&self) -> &'a [SharedSlice<'a>] {
        self.burst.arena.slices(self.chain.first_writable()..self.chain.end())
    }

    /// The piece that the driver wrote, if the chain consists of only that piece.
    #[inline(always)]
    pub fn only_readable(&self) -> Option<SharedSlice<'a>> {
        self.chain.only_piece(false).and_then(|at| self.burst.arena.slice(at))
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

    /// Whether the chain has been used.
    pub fn is_done(&self) -> bool {
        self.chain.done
    }

    /// Copies from the readable part, starting at byte `offset`. Reads each byte once, and returns the number of bytes.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> usize {
        SgList::new(self.readable()).skip(offset).read(into)
    }

    /// Copies to the writable part, starting `offset` bytes into it. Returns how many bytes.
    pub fn write(&self, offset: usize, from: &[u8]) -> usize {
        SgList::new(self.writable()).skip(offset).write(from)
    }

    /// The only copy between two guests: copies at most `len` bytes from this chain's readable part, starting at
    /// `offset`, to the writable part of another guest's chain. Returns how many.
    pub fn copy_to(&self, offset: usize, to: ChainRef<'_>, to_offset: usize, len: usize) -> usize {
        SgList::new(self.readable()).skip(offset).copy_to(SgList::new(to.writable()).skip(to_offset), len)
    }
}
