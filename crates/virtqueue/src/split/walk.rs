//! Chains of several descriptors in a split ring: followed link by link, each descriptor read once.

use std::sync::atomic::Ordering::Relaxed;

use memory::SgBuilder;

use super::SplitDescriptor;
use super::flags::{INDIRECT, NEXT, WRITE};
use super::ring::Descriptor;
use crate::atomics::{Atomics, Word};
use crate::builder::{ChainBuilder, check_indirect, table_entries};
use crate::chain::Chain;
use crate::error::{Malformed, Place, PopError};
use crate::work::{MAX_CHAIN, Work};
use crate::{FeatureSet, tuning};

/// Prefetches the indirect tables of the next `count` chains. All are requested at once, so that their latencies
/// overlap.
#[inline(never)]
pub(super) fn prefetch_tables<A: Atomics>(
    builder: &SgBuilder<'_>,
    table: &[SplitDescriptor<A>],
    entries: &[A::U16],
    (at, count): (u16, u16),
) {
    if !tuning::PREFETCH {
        return;
    }
    let mask = table.len() - 1;
    for i in 0..count {
        let head = entries[usize::from(at.wrapping_add(i)) & mask].load(Relaxed);
        // A hint: what is trusted is read again.
        if let Some(descriptor) = table.get(usize::from(head)).map(SplitDescriptor::read)
            && descriptor.flags & INDIRECT != 0
        {
            builder.prefetch(descriptor.address);
        }
    }
}

/// Follows a chain from its head and appends its buffers to the arena.
pub(super) fn walk<A: Atomics, F: FeatureSet>(
    builder: &mut SgBuilder<'_>,
    table: &[SplitDescriptor<A>],
    head: u16,
    place: Place,
    popped_at: u16,
    work: &mut Work,
) -> Result<Chain, PopError> {
    let Some(first) = table.get(usize::from(head)) else {
        return Err(PopError::malformed(Malformed::DescriptorOutOfRange, place, head.into()));
    };
    let mut chain = ChainBuilder::new(builder);
    walk_linked::<A, F>(&mut chain, builder, table, head, first.read(), work)?;
    Ok(chain.finish(builder, head, 1, popped_at))
}

/// The rest of [`walk`]: all but the simplest chains. Bounded by the queue size (§2.7.5.2), and by less where
/// that is long.
#[inline(never)]
fn walk_linked<A: Atomics, F: FeatureSet>(
    chain: &mut ChainBuilder,
    builder: &mut SgBuilder<'_>,
    table: &[SplitDescriptor<A>],
    head: u16,
    first: Descriptor,
    work: &mut Work,
) -> Result<(), PopError> {
    let (mut index, mut descriptor) = (head, first);
    let most = table.len().min(MAX_CHAIN.into());
    for followed in 0..most {
        let place = Place::Descriptor(index);
        if descriptor.flags & INDIRECT != 0 {
            check_indirect::<F>(descriptor.flags & NEXT != 0, descriptor.flags, place)?;
            work.followed(followed as u32);
            return walk_indirect(chain, builder, index, descriptor, work);
        }
        chain.add(builder, descriptor.address, descriptor.len, descriptor.flags & WRITE != 0, place)?;
        if descriptor.flags & NEXT == 0 {
            work.followed(followed as u32);
            return Ok(());
        }
        index = descriptor.next;
        descriptor = table
            .get(usize::from(index))
            .ok_or_else(|| PopError::malformed(Malformed::DescriptorOutOfRange, place, index.into()))?
            .read();
    }
    Err(PopError::malformed(Malformed::ChainTooLong, Place::Descriptor(head), most as u64))
}

/// A table of descriptors in a buffer of its own (§2.7.5.3).
fn walk_indirect(
    chain: &mut ChainBuilder,
    builder: &mut SgBuilder<'_>,
    head: u16,
    table: Descriptor,
    work: &mut Work,
) -> Result<(), PopError> {
    let entries = table_entries(table.len, Place::Descriptor(head))?;
    let mut index = 0u16;
    for followed in 0..entries {
        let place = Place::Indirect { of: head, entry: index };
        let mut bytes = [0; 16];
        let address = table.address.wrapping_add(u64::from(index) * 16);
        builder.read(address, &mut bytes).map_err(|fault| PopError::fault(fault, place))?;
        let descriptor = Descriptor::from_bytes(bytes);
        if descriptor.flags & INDIRECT != 0 {
            return Err(PopError::malformed(Malformed::IndirectInIndirect, place, descriptor.flags.into()));
        }
        chain.add(builder, descriptor.address, descriptor.len, descriptor.flags & WRITE != 0, place)?;
        if descriptor.flags & NEXT == 0 {
            work.followed(1 + followed);
            return Ok(());
        }
        index = descriptor.next;
        if u32::from(index) >= entries {
            return Err(PopError::malformed(Malformed::DescriptorOutOfRange, place, index.into()));
        }
    }
    Err(PopError::malformed(Malformed::ChainTooLong, Place::Descriptor(head), entries.into()))
}
