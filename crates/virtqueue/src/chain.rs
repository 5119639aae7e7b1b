//! Chains: what a burst keeps of each, and how they are built and given back.

use memory::{Access, SgBuilder, SgRun};

use crate::tuning;

/// One chain of a burst: a buffer of the driver, in one or more pieces.
///
/// The order of the fields is fixed: fields that are equal for all simple chains of a queue lie together, and are
/// written with few stores.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Chain {
    /// The index of its first slice in the arena. Readable slices come before writable ones.
    pub first: u32,
    /// Head (split) or buffer id (packed).
    pub id: u16,
    /// The position from which it was popped: available index (split) or slot (packed).
    pub popped_at: u16,
    pub readable_pieces: u32,
    pub writable_pieces: u32,
    pub readable_bytes: u32,
    /// The number of bytes that will be reported as written.
    pub written: u32,
    pub writable_bytes: u32,
    /// Ring slots that it occupies (packed).
    pub slots: u16,
    pub done: bool,
}

impl Chain {
    /// The index of its piece, if it has exactly one in this direction and none in the other.
    #[inline(always)]
    pub fn only_piece(&self, writable: bool) -> Option<u32> {
        let pieces = if writable { (0, 1) } else { (1, 0) };
        ((self.readable_pieces, self.writable_pieces) == pieces).then_some(self.first)
    }

    #[inline(always)]
    pub fn first_writable(&self) -> u32 {
        self.first + self.readable_pieces
    }

    #[inline(always)]
    pub fn end(&self) -> u32 {
        self.first_writable() + self.writable_pieces
    }

    #[inline(always)]
    pub fn pieces(&self) -> u32 {
        self.readable_pieces + self.writable_pieces
    }

    /// Whether the chain has exactly one piece, in either direction.
    #[inline(always)]
    pub fn is_single(&self) -> bool {
        self.pieces() == 1
    }

    #[inline(always)]
    pub fn set_written(&mut self, bytes: u32) {
        self.written = bytes.min(self.writable_bytes);
    }
}

/// Builds chains of one descriptor each, all in one direction and all with buffers in the same memory window as the
/// last one. Most chains are such. What a chain needs besides its descriptor stays in registers.
pub(crate) struct Singles<'a, const WRITABLE: bool> {
    run: SgRun<'a>,
    first: u32,
}

impl<'a, const WRITABLE: bool> Singles<'a, WRITABLE> {
    const ACCESS: Access = if WRITABLE { Access::Write } else { Access::Read };

    /// A builder for at most `max` chains.
    #[inline(always)]
    pub fn new(builder: &'a mut SgBuilder<'_>, max: usize) -> Self {
        let first = builder.len();
        Singles { run: builder.run(Self::ACCESS, max), first }
    }

    /// Appends a buffer and writes its chain. Returns false and appends nothing if the chain is not that simple.
    #[inline(always)]
    pub fn push(&mut self, (address, len): (u64, u32), id: u16, popped_at: u16, to: &mut Chain) -> bool {
        let Some(buffer) = self.run.push(address, len) else { return false };
        if tuning::PREFETCH {
            // Used when the whole burst has been popped: meanwhile all its lines are on their way.
            buffer.prefetch(Self::ACCESS);
        }
        *to = Chain {
            first: self.first,
            id,
            popped_at,
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

    /// Removes the buffers of the last `count` chains.
    pub fn take_back(&mut self, count: usize) {
        self.run.take_back(count);
        self.first -= count as u32;
    }
}

/// Steps through chains that become used, and calls `used` for each batch with the used entry that stands for it.
///
/// Without IN_ORDER every chain has its own entry. With IN_ORDER, one entry stands for a run of chains, and the
/// driver takes the skipped ones as written to their full length (VIRTIO 1.3 §2.7.9, §2.8.8). A chain that was
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
