//! The words of a split ring and their positions.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use memory::{Address, AddressSpace, AtomicData, AtomicSlice, BindError};

use crate::QueueSize;
use crate::atomics::{Atomics, ProcessorAtomics, Smp, Word};

/// Descriptors per cache line.
pub(super) const LINE: u16 = 4;

/// A descriptor (§2.7.5).
#[repr(C, align(16))]
pub struct SplitDescriptor<A: Atomics> {
    pub(crate) address: A::U64,
    pub(crate) len: A::U32,
    pub(crate) flags: A::U16,
    pub(crate) next: A::U16,
}

/// An entry of the used ring (§2.7.8).
#[repr(C)]
pub struct UsedElement<A: Atomics> {
    pub(crate) id: A::U32,
    pub(crate) len: A::U32,
}

const _: () = assert!(size_of::<SplitDescriptor<Smp>>() == 16 && size_of::<UsedElement<Smp>>() == 8);

// SAFETY: 8 + 4 + 2 + 2 bytes of atomics, no padding.
unsafe impl<A: ProcessorAtomics> AtomicData for SplitDescriptor<A> {}
// SAFETY: 4 + 4 bytes of atomics, no padding.
unsafe impl<A: ProcessorAtomics> AtomicData for UsedElement<A> {}

/// Access to a split ring's words. Implemented for mapped memory, and by models that explore every order in which two
/// processors can see the words.
pub trait SplitRing {
    /// The ring's atomics.
    type Atomics: Atomics;
    /// The descriptor table; its length is the queue size.
    fn descriptors(&self) -> &[SplitDescriptor<Self::Atomics>];
    /// The available ring's `flags`, `idx`, entries and `used_event` (§2.7.6).
    fn available(&self) -> &[<Self::Atomics as Atomics>::U16];
    /// The used ring's `flags` and `idx` (§2.7.8).
    fn used_header(&self) -> &[<Self::Atomics as Atomics>::U16];
    /// The used ring's entries.
    fn used(&self) -> &[UsedElement<Self::Atomics>];
    /// The used ring's `avail_event`.
    fn available_event(&self) -> &<Self::Atomics as Atomics>::U16;
}

/// Offsets in `available()`.
pub(crate) const AVAILABLE_FLAGS: usize = 0;
pub(crate) const AVAILABLE_INDEX: usize = 1;
pub(crate) const AVAILABLE_ENTRIES: usize = 2;
/// Offsets in `used_header()`.
pub(crate) const USED_FLAGS: usize = 0;
pub(crate) const USED_INDEX: usize = 1;

/// A split ring in mapped memory.
pub struct MappedSplit<A = Smp>
where
    A: Atomics,
    SplitDescriptor<A>: AtomicData,
    UsedElement<A>: AtomicData,
{
    descriptors: AtomicSlice<SplitDescriptor<A>>,
    available: AtomicSlice<AtomicU16>,
    used_header: AtomicSlice<AtomicU16>,
    used: AtomicSlice<UsedElement<A>>,
    available_event: AtomicSlice<AtomicU16>,
    atomics: PhantomData<A>,
}

fn offset(address: Address, by: u64) -> Address {
    match address {
        Address::Guest(a) => Address::Guest(a.wrapping_add(by)),
        Address::User(a) => Address::User(a.wrapping_add(by)),
        Address::Iova(a) => Address::Iova(a.wrapping_add(by)),
    }
}

impl<A: Atomics<U16 = AtomicU16>> MappedSplit<A>
where
    SplitDescriptor<A>: AtomicData,
    UsedElement<A>: AtomicData,
{
    /// Finds the three areas, each inside one region and aligned (VIRTIO 1.3 §2.7).
    ///
    /// # Errors
    /// The address of an area is in no region, the area passes the end of its region, or it is not aligned.
    pub fn bind(
        space: &AddressSpace,
        size: QueueSize,
        descriptors: Address,
        available: Address,
        used: Address,
    ) -> Result<Self, BindError> {
        let entries = usize::from(size.get());
        Ok(MappedSplit {
            descriptors: space.atomic_slice(descriptors, entries)?,
            available: space.atomic_slice(available, AVAILABLE_ENTRIES + entries + 1)?,
            used_header: space.atomic_slice(used, 2)?,
            used: space.atomic_slice(offset(used, 4), entries)?,
            available_event: space.atomic_slice(offset(used, 4 + 8 * entries as u64), 1)?,
            atomics: PhantomData,
        })
    }
}

impl<A: Atomics<U16 = AtomicU16>> SplitRing for MappedSplit<A>
where
    SplitDescriptor<A>: AtomicData,
    UsedElement<A>: AtomicData,
{
    type Atomics = A;

    #[inline(always)]
    fn descriptors(&self) -> &[SplitDescriptor<A>] {
        &self.descriptors
    }
    #[inline(always)]
    fn available(&self) -> &[AtomicU16] {
        &self.available
    }
    #[inline(always)]
    fn used_header(&self) -> &[AtomicU16] {
        &self.used_header
    }
    #[inline(always)]
    fn used(&self) -> &[UsedElement<A>] {
        &self.used
    }
    #[inline(always)]
    fn available_event(&self) -> &AtomicU16 {
        &self.available_event[0]
    }
}

/// A descriptor, read once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptor {
    pub address: u64,
    pub len: u32,
    pub flags: u16,
    pub next: u16,
}

impl Descriptor {
    /// Reads a descriptor from an indirect table's bytes.
    #[inline(always)]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let whole = u128::from_le_bytes(bytes);
        Descriptor {
            address: whole as u64,
            len: (whole >> 64) as u32,
            flags: (whole >> 96) as u16,
            next: (whole >> 112) as u16,
        }
    }
}

impl<A: Atomics> SplitDescriptor<A> {
    /// A descriptor for rings that are not in mapped memory.
    pub fn from_words(address: A::U64, len: A::U32, flags: A::U16, next: A::U16) -> Self {
        SplitDescriptor { address, len, flags, next }
    }

    /// Relaxed loads suffice: the available index that led here was loaded with acquire.
    #[inline(always)]
    pub(crate) fn read(&self) -> Descriptor {
        Descriptor {
            address: self.address.load(Relaxed),
            len: self.len.load(Relaxed),
            flags: self.flags.load(Relaxed),
            next: self.next.load(Relaxed),
        }
    }

    /// Address, length and flags of a descriptor that should have no next one. Relaxed loads suffice, as for
    /// [`Self::read`].
    #[inline(always)]
    pub(crate) fn read_unlinked(&self) -> (u64, u32, u16) {
        (self.address.load(Relaxed), self.len.load(Relaxed), self.flags.load(Relaxed))
    }

    /// Relaxed stores suffice: the available index that leads here is stored with release.
    #[inline(always)]
    pub(crate) fn write(&self, address: u64, len: u32, flags: u16, next: u16) {
        self.address.store(address, Relaxed);
        self.len.store(len, Relaxed);
        self.flags.store(flags, Relaxed);
        self.next.store(next, Relaxed);
    }
}

impl<A: Atomics> UsedElement<A> {
    /// An element for rings that are not in mapped memory.
    pub fn from_words(id: A::U32, len: A::U32) -> Self {
        UsedElement { id, len }
    }

    /// Relaxed stores suffice: the used index is stored with release afterwards.
    #[inline(always)]
    pub(crate) fn write(&self, id: u32, len: u32) {
        self.id.store(id, Relaxed);
        self.len.store(len, Relaxed);
    }

    /// Relaxed loads suffice: the used index was loaded with acquire before.
    #[inline(always)]
    pub(crate) fn read(&self) -> (u32, u32) {
        (self.id.load(Relaxed), self.len.load(Relaxed))
    }
}
