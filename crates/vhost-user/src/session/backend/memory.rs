//! The regions that a session knows, for rejecting invalid memory maps.
use crate::codec::payload::MemoryRegion;
use crate::codec::table::Rule;
use crate::violation::Violation;

/// Regions that do not overlap, neither in the guest's nor in the front-end's address space.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryMap {
    regions: Vec<Added>,
}

#[derive(Clone, Copy, Debug)]
struct Added {
    region: MemoryRegion,
    /// How often the region was added, minus how often it was removed.
    times: u64,
}

impl MemoryMap {
    pub(super) fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// A whole table.
    pub(super) fn of(rule: &Rule, regions: &[MemoryRegion]) -> Result<Self, Violation> {
        regions.iter().try_fold(Self::default(), |map, region| map.with(rule, *region))
    }

    /// The map with one more region.
    pub(super) fn with(mut self, rule: &Rule, region: MemoryRegion) -> Result<Self, Violation> {
        if region.size_bytes == 0 {
            return Err(rule.violation("region size", 0u64, "at least one byte"));
        }
        for (field, start) in [
            ("guest address", region.guest_address),
            ("user address", region.user_address),
            ("mmap offset", region.mmap_offset),
        ] {
            if start.checked_add(region.size_bytes).is_none() {
                return Err(rule.violation(field, start, "a start that the size does not overflow"));
            }
        }
        for Added { region: other, .. } in &self.regions {
            if overlap(other.guest_address, other.size_bytes, region.guest_address, region.size_bytes) {
                return Err(rule.violation("guest address", region.guest_address, "no overlap of regions"));
            }
            if overlap(other.user_address, other.size_bytes, region.user_address, region.size_bytes) {
                return Err(rule.violation("user address", region.user_address, "no overlap of regions"));
            }
        }
        self.regions.push(Added { region, times: 1 });
        Ok(self)
    }

    /// The map without one region, which is named by its addresses and size; the offset is ignored (REM_MEM_REG).
    /// Returns the region as it was added.
    pub(super) fn without(
        mut self,
        rule: &Rule,
        region: MemoryRegion,
    ) -> Result<(Self, MemoryRegion), Violation> {
        let at =
            self.regions.iter().position(|added| same_place(&added.region, &region)).ok_or_else(|| {
                rule.violation("guest address", region.guest_address, "a region that was added")
            })?;
        let removed = self.regions.swap_remove(at);
        Ok((self, removed.region))
    }

    /// Counts a region that is added again. Returns false if the map does not have exactly this region. QEMU before
    /// 8.0 adds and removes each region once for every queue pair, over their one connection.
    pub(super) fn add_again(&mut self, region: &MemoryRegion) -> bool {
        let known = self.regions.iter_mut().find(|added| added.region == *region);
        known.map(|added| added.times += 1).is_some()
    }

    /// Sets how often an existing region was added.
    pub(super) fn set_count(&mut self, region: &MemoryRegion, times: u32) {
        if let Some(added) = self.regions.iter_mut().find(|added| added.region == *region) {
            added.times = times.into();
        }
    }

    /// Counts the removal of a region that was added more often than removed and therefore stays. Returns false if
    /// the region must be removed.
    pub(super) fn remove_once(&mut self, region: &MemoryRegion) -> bool {
        let known =
            self.regions.iter_mut().find(|added| same_place(&added.region, region) && added.times > 1);
        known.map(|added| added.times -= 1).is_some()
    }

    pub(super) fn len(&self) -> usize {
        self.regions.len()
    }
}

fn same_place(one: &MemoryRegion, other: &MemoryRegion) -> bool {
    (one.guest_address, one.user_address, one.size_bytes)
        == (other.guest_address, other.user_address, other.size_bytes)
}

fn overlap(a: u64, a_size: u64, b: u64, b_size: u64) -> bool {
    // Neither sum overflows: both regions passed that check.
    a < b + b_size && b < a + a_size
}
