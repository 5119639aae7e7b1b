//! Chains of several descriptors in a packed ring: slot by slot, each descriptor read once.

use std::sync::atomic::Ordering::Relaxed;

use memory::SgBuilder;

use super::flags::{self, INDIRECT, NEXT, WRAP_BITS, WRITE};
use super::ring::PackedDescriptor;
use crate::PackedPosition;
use crate::atomics::{Atomics, Word};
use crate::builder::{ChainBuilder, check_indirect, table_entries};
use crate::chain::Chain;
use crate::error::{Malformed, Place, PopError};
use crate::inflight::StoredBuffer;
use crate::work::{MAX_CHAIN, Work};
use crate::{FeatureSet, IndirectFlags, tuning};

/// Prefetches the indirect tables of the next `count` slots, up to the end of the available slots or of the ring. All
/// are requested at once, so that their latencies overlap.
#[inline(never)]
pub(super) fn prefetch_tables<A: Atomics>(
    builder: &SgBuilder<'_>,
    ring: &[PackedDescriptor<A>],
    at: PackedPosition,
    count: usize,
) {
    if !tuning::PREFETCH {
        return;
    }
    for slot in ring[usize::from(at.slot)..].iter().take(count) {
        // A hint: what is trusted is observed again.
        let flags = slot.flags.load(Relaxed);
        if flags & WRAP_BITS != flags::available(at.wrap) {
            break;
        }
        if flags & INDIRECT != 0 {
            builder.prefetch(slot.address.load(Relaxed));
        }
    }
}

/// Follows a chain from its first slot and appends its buffers to the arena. At most `room` more slots may become
/// outstanding.
#[cfg_attr(not(feature = "ablate-inline"), inline(always))]
#[cfg_attr(feature = "ablate-inline", inline(never))]
pub(super) fn walk<A: Atomics, F: FeatureSet>(
    builder: &mut SgBuilder<'_>,
    ring: &[PackedDescriptor<A>],
    first: u16,
    head: u16,
    room: u16,
    indirect_flags: IndirectFlags,
    work: &mut Work,
) -> Result<Chain, PopError> {
    let mut chain = ChainBuilder::new(builder);
    let (mut slot, mut flags, mut slots) = (first, head, 1);
    if room == 0 {
        return Err(PopError::malformed(Malformed::AvailableTooFarAhead, Place::Slot(first), first.into()));
    }
    loop {
        let descriptor = &ring[usize::from(slot)];
        let address = descriptor.address.load(Relaxed);
        let len = descriptor.len.load(Relaxed);
        let place = Place::Slot(slot);
        if flags & INDIRECT != 0 {
            check_indirect::<F>(flags & NEXT != 0, flags, place)?;
            walk_indirect(&mut chain, builder, (address, len), slot, indirect_flags, work)?;
        } else {
            chain.add(builder, address, len, flags & WRITE != 0, place)?;
        }
        if flags & NEXT == 0 {
            // The id counts only in the last descriptor (§2.8.6).
            let id = descriptor.id.load(Relaxed);
            if usize::from(id) >= ring.len() {
                return Err(PopError::malformed(Malformed::BufferIdOutOfRange, place, id.into()));
            }
            return Ok(chain.finish(builder, id, slots, first));
        }
        if slots == room.min(MAX_CHAIN) {
            return Err(PopError::malformed(Malformed::ChainTooLong, Place::Slot(first), slots.into()));
        }
        slots += 1;
        work.followed(1);
        slot = if usize::from(slot) + 1 == ring.len() { 0 } else { slot + 1 };
        // Relaxed: the head's flags, observed with acquire, came after these.
        flags = ring[usize::from(slot)].flags.load(Relaxed);
    }
}

/// A table of descriptors in a buffer of its own: all of its entries are the chain, in order (§2.8.7).
fn walk_indirect(
    chain: &mut ChainBuilder,
    builder: &mut SgBuilder<'_>,
    (table, len): (u64, u32),
    slot: u16,
    indirect_flags: IndirectFlags,
    work: &mut Work,
) -> Result<(), PopError> {
    let entries = table_entries(len, Place::Slot(slot))?;
    work.followed(entries);
    for entry in 0..entries as u16 {
        let place = Place::Indirect { of: slot, entry };
        let mut bytes = [0; 16];
        let address = table.wrapping_add(u64::from(entry) * 16);
        builder.read(address, &mut bytes).map_err(|fault| PopError::fault(fault, place))?;
        let whole = u128::from_le_bytes(bytes);
        let flags = (whole >> 112) as u16;
        if flags & INDIRECT != 0 {
            return Err(PopError::malformed(Malformed::IndirectInIndirect, place, flags.into()));
        }
        let writable = flags & WRITE != 0 && indirect_flags == IndirectFlags::Trusted;
        chain.add(builder, whole as u64, (whole >> 64) as u32, writable, place)?;
    }
    Ok(())
}

/// Follows a chain that the in-flight region recorded.
pub(super) fn walk_stored<F: FeatureSet>(
    builder: &mut SgBuilder<'_>,
    entry: u16,
    buffer: &StoredBuffer,
    indirect_flags: IndirectFlags,
    work: &mut Work,
) -> Result<Chain, PopError> {
    let mut chain = ChainBuilder::new(builder);
    let place = Place::InFlight(entry);
    let descriptors = buffer.descriptors.len();
    if descriptors > MAX_CHAIN.into() {
        return Err(PopError::malformed(Malformed::ChainTooLong, place, descriptors as u64));
    }
    work.followed(descriptors as u32);
    for &(address, len, flags) in &buffer.descriptors {
        if flags & INDIRECT != 0 {
            check_indirect::<F>(flags & NEXT != 0, flags, place)?;
            walk_indirect(&mut chain, builder, (address, len), entry, indirect_flags, work)?;
        } else {
            chain.add(builder, address, len, flags & WRITE != 0, place)?;
        }
    }
    Ok(chain.finish(builder, buffer.id, descriptors as u16, buffer.slot))
}
