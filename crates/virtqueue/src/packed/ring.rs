//! The words of a packed ring and their positions.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::sync::atomic::Ordering::Relaxed;

use memory::{Address, AddressSpace, AtomicData, AtomicSlice, BindError, prefetch};

use super::event;
use crate::PackedPosition;
use crate::atomics::{Atomics, ProcessorAtomics, Smp, Word};
use crate::position::event_passed;
use crate::{QueueSize, tuning};

/// Descriptors per cache line.
pub(super) const LINE: u16 = 4;

/// A descriptor (§2.8.13).
#[repr(C, align(16))]
pub struct PackedDescriptor<A: Atomics> {
    pub(crate) address: A::U64,
    pub(crate) len: A::U32,
    pub(crate) id: A::U16,
    pub(crate) flags: A::U16,
}

/// An event suppression structure (§2.8.14).
#[repr(C, align(4))]
pub struct Event<A: Atomics> {
    pub(crate) position: A::U16,
    pub(crate) flags: A::U16,
}

const _: () = assert!(size_of::<PackedDescriptor<Smp>>() == 16 && size_of::<Event<Smp>>() == 4);

// SAFETY: 8 + 4 + 2 + 2 bytes of atomics, no padding.
unsafe impl<A: ProcessorAtomics> AtomicData for PackedDescriptor<A> {}
// SAFETY: 2 + 2 bytes of atomics, no padding.
unsafe impl<A: ProcessorAtomics> AtomicData for Event<A> {}

/// Access to a packed ring's words. Implemented for mapped memory and by models.
pub trait PackedRing {
    /// The ring's atomics.
    type Atomics: Atomics;
    /// The descriptors; their number is the queue size.
    fn descriptors(&self) -> &[PackedDescriptor<Self::Atomics>];
    /// The driver's event suppression structure: for which slots it wants to be called.
    fn driver_event(&self) -> &Event<Self::Atomics>;
    /// The device's event suppression structure: for which slots it wants to be kicked.
    fn device_event(&self) -> &Event<Self::Atomics>;
}

/// A packed ring in mapped memory.
pub struct MappedPacked<A = Smp>
where
    A: Atomics,
    PackedDescriptor<A>: AtomicData,
    Event<A>: AtomicData,
{
    descriptors: AtomicSlice<PackedDescriptor<A>>,
    driver_event: AtomicSlice<Event<A>>,
    device_event: AtomicSlice<Event<A>>,
    atomics: PhantomData<A>,
}

impl<A: Atomics> MappedPacked<A>
where
    PackedDescriptor<A>: AtomicData,
    Event<A>: AtomicData,
{
    /// Finds the ring and the two event suppression structures, each inside one region and aligned (VIRTIO 1.3
    /// §2.8).
    ///
    /// # Errors
    /// The address of an area is in no region, the area passes the end of its region, or it is not aligned.
    pub fn bind(
        space: &AddressSpace,
        size: QueueSize,
        descriptors: Address,
        driver_event: Address,
        device_event: Address,
    ) -> Result<Self, BindError> {
        Ok(MappedPacked {
            descriptors: space.atomic_slice(descriptors, usize::from(size.get()))?,
            driver_event: space.atomic_slice(driver_event, 1)?,
            device_event: space.atomic_slice(device_event, 1)?,
            atomics: PhantomData,
        })
    }
}

impl<A: Atomics> PackedRing for MappedPacked<A>
where
    PackedDescriptor<A>: AtomicData,
    Event<A>: AtomicData,
{
    type Atomics = A;

    #[inline(always)]
    fn descriptors(&self) -> &[PackedDescriptor<A>] {
        &self.descriptors
    }
    #[inline(always)]
    fn driver_event(&self) -> &Event<A> {
        &self.driver_event[0]
    }
    #[inline(always)]
    fn device_event(&self) -> &Event<A> {
        &self.device_event[0]
    }
}

impl<A: Atomics> PackedDescriptor<A> {
    /// A descriptor for rings that are not in mapped memory.
    pub fn from_words(address: A::U64, len: A::U32, id: A::U16, flags: A::U16) -> Self {
        PackedDescriptor { address, len, id, flags }
    }

    /// Writes everything but the flags. The stores are relaxed: the flags of this or an earlier slot publish them.
    #[inline(always)]
    pub(crate) fn write(&self, address: u64, len: u32, id: u16) {
        self.address.store(address, Relaxed);
        self.len.store(len, Relaxed);
        self.id.store(id, Relaxed);
    }

    /// Prefetches the second cache line after this descriptor.
    #[inline(always)]
    pub(super) fn prefetch_ahead(&self) {
        if tuning::PREFETCH {
            // Wrapping round is not worth a branch: past the end it is a hint that misses.
            prefetch(std::ptr::from_ref(self).wrapping_add(2 * usize::from(LINE)));
        }
    }
}

impl<A: Atomics> Event<A> {
    /// An event structure for rings that are not in mapped memory.
    pub fn from_words(position: A::U16, flags: A::U16) -> Self {
        Event { position, flags }
    }

    /// Asks for a notification: at any descriptor, or once `at` has been passed.
    #[inline(always)]
    pub(crate) fn arm(&self, at: PackedPosition, by_position: bool) {
        if by_position {
            self.position.store(at.to_bits(), Relaxed);
            // Release pairs with the acquire in `wants`: a thread that sees the flags sees the position.
            A::publish(&self.flags, event::AT_DESCRIPTOR);
        } else {
            self.flags.store(event::ENABLE, Relaxed);
        }
    }

    /// Asks for no notification.
    #[inline(always)]
    pub(crate) fn disarm(&self) {
        self.flags.store(event::DISABLE, Relaxed);
    }

    /// Whether the peer wants a notification for the slots `old .. new` in a ring of `size` (§2.8.10.1).
    #[inline(always)]
    pub(crate) fn wants(
        &self,
        old: PackedPosition,
        new: PackedPosition,
        size: u16,
        by_position: bool,
    ) -> bool {
        match A::observe(&self.flags) {
            event::DISABLE => false,
            event::AT_DESCRIPTOR if by_position => {
                let at = PackedPosition::from_bits(self.position.load(Relaxed));
                // Slots count on across the wrap: what lies in the pass before is negative.
                let place =
                    |c: PackedPosition| if c.wrap == new.wrap { c.slot } else { c.slot.wrapping_sub(size) };
                event_passed(place(at), new.slot, place(old))
            }
            // A reserved value from a broken peer: a notification too many does no harm.
            _ => true,
        }
    }
}
