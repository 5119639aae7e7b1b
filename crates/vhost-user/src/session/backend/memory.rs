//! The regions that a session knows: enough to refuse what cannot be a memory map.
use crate::codec::payload::MemoryRegion;
use crate::codec::table::Rule;
use crate::violation::Violation;

/// Regions that overlap nowhere, neither in the guest's nor in the front-end's address space.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryMap {
    regions: Vec<MemoryRegion>,
}

impl MemoryMap {
    pub(super) fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// A whole table.
    pub(super) fn of(rule: &Rule, regions: &[MemoryRegion]) -> Result<Self, Violation> {
        regions.iter().try_fold(Self::default(), |map, region| map.with(rule, *region))
    }

    /// One region more.
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
        for other in &self.regions {
            if overlap(other.guest_address, other.size_bytes, region.guest_address, region.size_bytes) {
                return Err(rule.violation("guest address", region.guest_address, "no overlap of regions"));
            }
            if overlap(other.user_address, other.size_bytes, region.user_address, region.size_bytes) {
                return Err(rule.violation("user address", region.user_address, "no overlap of regions"));
            }
        }
        self.regions.push(region);
        Ok(self)
    }

    /// One region less, named by its addresses and size; the offset is ignored (REM_MEM_REG). Gives
    /// the region as it was added.
    pub(super) fn without(
        mut self,
        rule: &Rule,
        region: MemoryRegion,
    ) -> Result<(Self, MemoryRegion), Violation> {
        let same = |other: &MemoryRegion| {
            (other.guest_address, other.user_address, other.size_bytes)
                == (region.guest_address, region.user_address, region.size_bytes)
        };
        let at = self.regions.iter().position(same).ok_or_else(|| {
            rule.violation("guest address", region.guest_address, "a region that was added")
        })?;
        let removed = self.regions.swap_remove(at);
        Ok((self, removed))
    }

    pub(super) fn len(&self) -> usize {
        self.regions.len()
    }
}

fn overlap(a: u64, a_size: u64, b: u64, b_size: u64) -> bool {
    // Neither sum overflows: both regions passed that check.
    a < b + b_size && b < a + a_size
}
