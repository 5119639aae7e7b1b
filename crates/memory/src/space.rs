//! A guest's memory: the sorted table of regions, and the IOTLB if there is one.

use std::sync::Arc;

use crate::access::{Access, FaultKind};
use crate::sg_run::Window;
use crate::{AtomicData, AtomicSlice, BindError, Fault, Iotlb, MAX_REGIONS, Region, SharedSlice};

/// An address, together with its address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// Guest-physical.
    Guest(u64),
    /// A virtual address of the front-end.
    User(u64),
    /// An I/O virtual address, which the IOTLB translates.
    Iova(u64),
}

impl Address {
    /// The number alone, for messages.
    pub fn value(self) -> u64 {
        match self {
            Address::Guest(address) | Address::User(address) | Address::Iova(address) => address,
        }
    }
}

/// Why the table of regions cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpaceError {
    /// Two regions share an address.
    #[error(
        "region of {size:#x} bytes at {kind} address {base:#x} overlaps one that is there; remove that first"
    )]
    Overlap {
        /// `guest` or `user`.
        kind: &'static str,
        /// The first address of the rejected region.
        base: u64,
        /// The region's size in bytes.
        size: u64,
    },
    /// There are more than [`MAX_REGIONS`] regions.
    #[error("{MAX_REGIONS} regions are there already; remove one first")]
    Full,
    /// There is no such region to remove.
    #[error("no region at guest address {guest:#x} with user address {user:#x} and {size:#x} bytes")]
    NotFound {
        /// The given guest-physical address.
        guest: u64,
        /// The given front-end virtual address.
        user: u64,
        /// The given size in bytes.
        size: u64,
    },
}

/// An immutable snapshot of a guest's memory.
///
/// Every change makes a new snapshot. Queues get the new one between bursts, so the data path takes no lock. Users of
/// the old one keep its mappings alive.
#[derive(Clone, Debug, Default)]
pub struct AddressSpace {
    /// Sorted by guest-physical address.
    regions: Vec<Region>,
    /// Indexes of `regions`, sorted by front-end virtual address.
    by_user: Vec<u16>,
    /// With an IOTLB, descriptors carry I/O virtual addresses.
    iotlb: Option<Arc<Iotlb>>,
}

impl AddressSpace {
    /// A space without memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// A space with these regions (`SET_MEM_TABLE`).
    ///
    /// # Errors
    /// Two regions overlap in guest-physical or front-end virtual addresses, or there are more than
    /// [`MAX_REGIONS`].
    pub fn from_regions(regions: impl IntoIterator<Item = Region>) -> Result<Self, SpaceError> {
        regions.into_iter().try_fold(Self::new(), |space, region| space.with_region(region))
    }

    /// The snapshot with one more region (`ADD_MEM_REG`).
    ///
    /// # Errors
    /// The region overlaps an existing one in guest-physical or front-end virtual addresses, or [`MAX_REGIONS`]
    /// regions exist already.
    pub fn with_region(&self, region: Region) -> Result<Self, SpaceError> {
        let size = region.size_bytes();
        let overlaps = |a: u64, b: u64, b_size: u64| a < b + b_size && b < a + size;
        for other in &self.regions {
            let other_size = other.size_bytes();
            if overlaps(region.guest_base(), other.guest_base(), other_size) {
                return Err(SpaceError::Overlap { kind: "guest", base: region.guest_base(), size });
            }
            if overlaps(region.user_base(), other.user_base(), other_size) {
                return Err(SpaceError::Overlap { kind: "user", base: region.user_base(), size });
            }
        }
        if self.regions.len() >= MAX_REGIONS {
            return Err(SpaceError::Full);
        }
        let mut regions = self.regions.clone();
        regions.insert(regions.partition_point(|r| r.guest_base() < region.guest_base()), region);
        Ok(self.rebuilt(regions))
    }

    /// The snapshot without one region (`REM_MEM_REG`). The region is unmapped when its last user has released it.
    ///
    /// # Errors
    /// No region has exactly these two addresses and this size.
    pub fn without_region(&self, guest: u64, user: u64, size: u64) -> Result<Self, SpaceError> {
        let mut regions = self.regions.clone();
        let at = regions
            .iter()
            .position(|r| (r.guest_base(), r.user_base(), r.size_bytes()) == (guest, user, size))
            .ok_or(SpaceError::NotFound { guest, user, size })?;
        regions.remove(at);
        Ok(self.rebuilt(regions))
    }

    /// The snapshot in which an IOTLB translates descriptors (`VIRTIO_F_ACCESS_PLATFORM`), or none does.
    #[must_use]
    pub fn with_iotlb(&self, iotlb: Option<Arc<Iotlb>>) -> Self {
        AddressSpace { iotlb, ..self.clone() }
    }

    fn rebuilt(&self, regions: Vec<Region>) -> Self {
        let mut by_user: Vec<u16> = (0..regions.len() as u16).collect();
        by_user.sort_by_key(|&i| regions[usize::from(i)].user_base());
        AddressSpace { regions, by_user, iotlb: self.iotlb.clone() }
    }

    /// The regions, by guest-physical address.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// The IOTLB, if descriptors are translated by one.
    pub fn iotlb(&self) -> Option<&Iotlb> {
        self.iotlb.as_deref()
    }

    fn region_of_guest(&self, address: u64) -> Option<&Region> {
        let at = self.regions.partition_point(|r| r.guest_base() <= address).checked_sub(1)?;
        Some(&self.regions[at]).filter(|r| address - r.guest_base() < r.size_bytes())
    }

    fn region_of_user(&self, address: u64) -> Option<&Region> {
        let region = |i: &u16| &self.regions[usize::from(*i)];
        let at = self.by_user.partition_point(|i| region(i).user_base() <= address).checked_sub(1)?;
        Some(region(&self.by_user[at])).filter(|r| address - r.user_base() < r.size_bytes())
    }

    /// `count` atomics at an address, for example those of a ring. The address is resolved once, when the ring
    /// starts.
    ///
    /// # Errors
    /// The address is in no region (or has no IOTLB entry), the atomics pass the end of its region, or the first one
    /// is not aligned to `T`.
    pub fn atomic_slice<T: AtomicData>(
        &self,
        address: Address,
        count: usize,
    ) -> Result<AtomicSlice<T>, BindError> {
        let bytes = (count * size_of::<T>()) as u64;
        let outside = BindError::Outside { address: address.value(), bytes };
        let (region, offset) = self.locate(address).ok_or(outside)?;
        AtomicSlice::new(region.mapping(), offset, count, address.value())
    }

    /// The region of an address and the offset in it.
    fn locate(&self, address: Address) -> Option<(&Region, u64)> {
        match address {
            Address::Guest(a) => self.region_of_guest(a).map(|r| (r, a - r.guest_base())),
            Address::User(a) => self.region_of_user(a).map(|r| (r, a - r.user_base())),
            Address::Iova(a) => {
                let entry = self.iotlb.as_ref()?.find(a)?;
                self.locate(Address::User(entry.user + (a - entry.iova)))
            }
        }
    }

    /// The guest-physical address of an address in any space, for the dirty log.
    pub fn guest_address(&self, address: Address) -> Option<u64> {
        self.locate(address).map(|(region, offset)| region.guest_base() + offset)
    }

    /// The guest-physical address of a slice that this snapshot handed out. `None` if its region is not in this one.
    pub fn guest_of(&self, slice: SharedSlice<'_>) -> Option<u64> {
        self.guest_of_host(slice.as_ptr())
    }

    /// The guest-physical address of a host pointer that this snapshot handed out, for the dirty log.
    pub(crate) fn guest_of_host(&self, host: *const u8) -> Option<u64> {
        self.regions.iter().find_map(|region| {
            let offset = (host as usize).wrapping_sub(region.mapping().start().as_ptr() as usize) as u64;
            (offset < region.size_bytes()).then(|| region.guest_base() + offset)
        })
    }

    /// The largest range around `address`, as descriptors give it, that is contiguous in this process and permits the
    /// access.
    pub(crate) fn window(&self, address: u64, access: Access) -> Result<Window, FaultKind> {
        let Some(iotlb) = &self.iotlb else {
            let region = self.region_of_guest(address).ok_or(FaultKind::Outside)?;
            return Ok(Window::new(region.guest_base(), region.size_bytes(), region.mapping().start()));
        };
        let entry = iotlb.find(address).ok_or(FaultKind::Miss)?;
        if !entry.permits(access) {
            // The front-end may grant more when asked: to it, a missing right is a miss as well.
            return Err(FaultKind::Miss);
        }
        let user = entry.user + (address - entry.iova);
        let region = self.region_of_user(user).ok_or(FaultKind::Outside)?;
        // The bytes that the entry and the region have in common, before and after `address`.
        let before = (address - entry.iova).min(user - region.user_base());
        let after =
            (entry.size - (address - entry.iova)).min(region.size_bytes() - (user - region.user_base()));
        let offset = user - before - region.user_base();
        let host = region.mapping().at(offset, before + after).ok_or(FaultKind::Outside)?;
        Ok(Window::new(address - before, before + after, host))
    }

    /// The fault for an address, for messages.
    pub(crate) fn fault(&self, kind: FaultKind, address: u64, len: u64, access: Access) -> Fault {
        match kind {
            FaultKind::Outside => Fault::Outside { address, len },
            FaultKind::Miss => Fault::Miss { iova: address, access },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RegionRange;
    use crate::truncate::tests::memfd;
    use crate::{IotlbEntry, SgArena, Translator};

    const PAGE: u64 = 4096;

    fn region(guest: u64, user: u64) -> Region {
        Region::map(memfd(PAGE), RegionRange { offset: 0, size: PAGE, guest_base: guest, user_base: user })
            .unwrap()
    }

    fn slices(
        space: &Arc<AddressSpace>,
        address: u64,
        len: u32,
        access: Access,
    ) -> Result<Vec<usize>, Fault> {
        let mut arena = SgArena::new();
        let mut translator = Translator::new(Arc::clone(space));
        translator.builder(&mut arena).push(address, len, access)?;
        Ok(arena.slices(0..arena.len()).iter().map(|s| s.len_bytes()).collect())
    }

    #[test]
    fn five_hundred_and_nine_regions_come_and_go_in_any_order() {
        let mut space = AddressSpace::new();
        let at = |i: u64| ((i * 211 % 509) * 2 * PAGE, (1 << 40) + (i * 97 % 509) * PAGE);
        for i in 0..509 {
            let (guest, user) = at(i);
            space = space.with_region(region(guest, user)).unwrap();
        }
        assert_eq!(space.with_region(region(1 << 50, 1 << 50)).unwrap_err(), SpaceError::Full);
        for i in 0..509 {
            let (guest, user) = at(i);
            assert_eq!(space.guest_address(Address::User(user + 5)), Some(guest + 5));
            assert_eq!(space.guest_address(Address::Guest(guest + PAGE)), None);
        }
        assert_eq!(space.guest_address(Address::User((1 << 40) + 509 * PAGE)), None, "behind the last");
        for i in (0..509).rev() {
            let (guest, user) = at(i);
            space = space.without_region(guest, user, PAGE).unwrap();
            assert_eq!(space.guest_address(Address::User(user)), None);
        }
        assert!(space.regions().is_empty());
    }

    #[test]
    fn overlaps_are_refused_in_both_spaces() {
        let space = AddressSpace::from_regions([region(0, 0)]).unwrap();
        let error = |r| space.with_region(r).unwrap_err();
        assert!(matches!(error(region(PAGE - 1, 1 << 30)), SpaceError::Overlap { kind: "guest", .. }));
        assert!(matches!(error(region(1 << 30, PAGE - 1)), SpaceError::Overlap { kind: "user", .. }));
        assert!(space.with_region(region(PAGE, PAGE)).is_ok());
    }

    /// Contiguous for the guest need not be contiguous for the host: the class of CVE-2018-1059.
    #[test]
    fn a_range_across_regions_is_split_and_a_hole_is_a_fault() {
        let space = Arc::new(
            AddressSpace::from_regions([region(0, 9 * PAGE), region(PAGE, 0), region(3 * PAGE, 5 * PAGE)])
                .unwrap(),
        );
        assert_eq!(slices(&space, 4000, 200, Access::Read).unwrap(), [96, 104]);
        assert_eq!(slices(&space, 0, 8192, Access::Write).unwrap(), [4096, 4096]);
        let fault = slices(&space, 8000, 200, Access::Read).unwrap_err();
        assert!(matches!(fault, Fault::Outside { address: 8192, len: 8 }), "{fault}");
        assert!(slices(&space, u64::MAX - 3, 8, Access::Read).is_err());
        assert_eq!(slices(&space, u64::MAX, 0, Access::Read).unwrap(), [0; 0], "nothing is nowhere");
    }

    #[test]
    fn removal_leaves_lent_slices_alive() {
        let space = Arc::new(AddressSpace::from_regions([region(0, 0)]).unwrap());
        let mut arena = SgArena::new();
        let mut translator = Translator::new(Arc::clone(&space));
        translator.builder(&mut arena).push(10, 4, Access::Write).unwrap();
        translator.set_space(Arc::new(space.without_region(0, 0, PAGE).unwrap()));
        drop(space);
        assert_eq!(arena.slices(0..1)[0].write(b"safe"), 4);
        assert!(translator.builder(&mut arena).push(10, 4, Access::Write).is_err());
    }

    #[test]
    fn the_iotlb_misses_permits_and_invalidates() {
        let base = AddressSpace::from_regions([region(0, 16 * PAGE), region(PAGE, 17 * PAGE)]).unwrap();
        let mut tlb = Iotlb::new();
        let with = |tlb: &Iotlb| Arc::new(base.with_iotlb(Some(Arc::new(tlb.clone()))));
        let miss = slices(&with(&tlb), 0x5000, 8, Access::Read).unwrap_err();
        assert_eq!(miss, Fault::Miss { iova: 0x5000, access: Access::Read });
        let entry =
            IotlbEntry { iova: 0x5000, size: 2 * PAGE, user: 16 * PAGE, readable: true, writable: false };
        tlb.update(entry).unwrap();
        assert_eq!(slices(&with(&tlb), 0x5ff0, 32, Access::Read).unwrap(), [16, 16]);
        let miss = slices(&with(&tlb), 0x5000, 8, Access::Write).unwrap_err();
        assert_eq!(miss, Fault::Miss { iova: 0x5000, access: Access::Write });
        tlb.invalidate(0x6000, PAGE);
        let miss = slices(&with(&tlb), 0x5ff0, 32, Access::Read).unwrap_err();
        assert_eq!(miss, Fault::Miss { iova: 0x6000, access: Access::Read });
        assert_eq!(with(&tlb).guest_address(Address::Iova(0x5010)), Some(0x10));
    }
}
