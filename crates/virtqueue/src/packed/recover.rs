//! Finds the position of a packed ring from its descriptors, for a device that was started again and whose front-end
//! does not know how far the previous device had come.

use super::flags::{NEXT, USED, WRAP_BITS, available, used};
use super::ring::PackedRing;
use crate::atomics::Atomics;
use crate::error::{Malformed, Place, RingError};
use crate::{FeatureSet, PackedPosition};

/// Whether the descriptors of a ring agree with the position that a front-end gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The ring can be at this position.
    Fits,
    /// The ring has been used further, exactly up to this position.
    UsedUpTo(PackedPosition),
    /// The ring has been used further, but its descriptors do not show how far.
    Unknown(RingError),
}

/// Whether a ring can be at `said`, the position of its next used descriptor; and its real position if not.
///
/// The driver may use the ring meanwhile: it makes slots available, which leaves their USED bits unchanged.
pub(crate) fn standing<R: PackedRing, F: FeatureSet>(ring: &R, said: PackedPosition) -> Standing {
    let flags: Vec<u16> = ring.descriptors().iter().map(|slot| R::Atomics::observe(&slot.flags)).collect();
    // A table holds what is longer than one slot, and no used descriptor stands for several chains.
    let single = F::INDIRECT && !F::IN_ORDER && flags.iter().all(|flags| flags & NEXT == 0);
    let Some(slot) = beyond(&flags, said, single) else { return Standing::Fits };
    match used_up_to(&flags).filter(|_| single) {
        Some(at) => Standing::UsedUpTo(at),
        None => Standing::Unknown(RingError {
            rule: Malformed::UsedBeyondBase,
            place: Place::Slot(slot as u16),
            value: flags[slot].into(),
        }),
    }
}

/// The first slot whose flags contradict a device at the position `said`: a slot that is used in a pass that this
/// device has not reached, or not used in a pass that it has. `single` is true if all chains have one slot.
fn beyond(flags: &[u16], said: PackedPosition, single: bool) -> Option<usize> {
    flags.iter().enumerate().position(|(slot, flags)| {
        let passed = slot < usize::from(said.slot);
        let bits = flags & WRAP_BITS;
        // In a ring that begins nothing is left over from a pass before. Only slots that were skipped would be, once
        // the position has come round.
        bits == used(said.wrap != passed)
            || single && said == PackedPosition::START && bits == available(false)
    })
}

/// A device writes a slot's USED bit once in a pass, and a driver leaves it. Where each chain is one slot, the bits
/// change just there where the device stands.
fn used_up_to(flags: &[u16]) -> Option<PackedPosition> {
    let is_set = |flags: &u16| flags & USED != 0;
    let first = is_set(flags.first()?);
    let edge = flags.iter().position(|flags| is_set(flags) != first);
    let rest = &flags[edge.unwrap_or(flags.len())..];
    let is_one_edge = rest.iter().all(|flags| is_set(flags) != first);
    is_one_edge.then_some(match edge {
        Some(slot) => PackedPosition { slot: slot as u16, wrap: first },
        None => PackedPosition { slot: 0, wrap: !first },
    })
}

#[cfg(test)]
mod tests {
    use super::super::flags::AVAIL;
    use super::*;

    const SIZE: u16 = 5;

    /// A ring of single-slot chains, used up to one position and made available up to another, with what the passes
    /// before have left.
    fn ring(uses: u32, ahead: u32) -> (Vec<u16>, PackedPosition) {
        let mut ring = vec![0; SIZE.into()];
        let at =
            |count: u32| (count as usize % usize::from(SIZE), (count / u32::from(SIZE)).is_multiple_of(2));
        for count in 0..uses + ahead {
            let (slot, wrap) = at(count);
            ring[slot] = if count < uses { used(wrap) } else { available(wrap) };
        }
        let (slot, wrap) = at(uses);
        (ring, PackedPosition { slot: slot as u16, wrap })
    }

    #[test]
    fn a_ring_says_where_it_is_used_up_to() {
        for uses in 0..4 * u32::from(SIZE) {
            for ahead in 0..=u32::from(SIZE) {
                let (ring, at) = ring(uses, ahead);
                assert_eq!(used_up_to(&ring), Some(at), "{uses} used, {ahead} available: {ring:#x?}");
                assert_eq!(beyond(&ring, at, true), None);
                // A front-end that says that nothing was used is believed where that is so, and nowhere else.
                let beyond = beyond(&ring, PackedPosition::START, true);
                assert_eq!(
                    beyond.is_some(),
                    at != PackedPosition::START,
                    "{uses} used, {ahead} available: {ring:#x?}"
                );
            }
        }
    }

    #[test]
    fn chains_of_several_slots_hide_it() {
        let skipped = [used(true), AVAIL | NEXT, AVAIL, used(true), AVAIL];
        assert_eq!(used_up_to(&skipped), None);
        assert_eq!(beyond(&skipped, PackedPosition::START, false), Some(0));
        // Where the ring really is, and a pass later, with the last of them in the last slot.
        assert_eq!(beyond(&skipped, PackedPosition { slot: 4, wrap: true }, false), None);
        let later = [used(false), used(false), used(false), used(false), available(false)];
        assert_eq!(beyond(&later, PackedPosition::START, false), None);
    }
}
