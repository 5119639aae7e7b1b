//! The guest's memory, and what of it the device has.
use std::collections::BTreeMap;
use std::sync::Arc;
use std::{fs, io};

use linux::vhost_vdpa::MemoryChange;
use memory::{AddressSpace, DirtyLog, Mapping, PeerMemory, Size};
use rustix::process::{Resource, getrlimit};
use vhost_device::SharedMemory;
use vhost_user::SharedFd;
use vhost_user::codec::payload::{LogArea, MemoryRegion};
use vhost_user::session::Refusal;
use vhost_user::session::backend::SharedRegion;

use crate::hardware::Hardware;

const PAGE_BYTES: u64 = 4096;

/// A place in a file: regions at the same guest address with the same place and size have the same pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    file_system: u64,
    inode: u64,
    offset: u64,
}

impl Place {
    fn of(shared: &SharedRegion) -> Result<Self, Refusal> {
        let status = rustix::fs::fstat(&shared.file).map_err(|error| Refusal::new(error.to_string()))?;
        Ok(Place { file_system: status.st_dev, inode: status.st_ino, offset: shared.region.mmap_offset })
    }
}

/// A region that the device has at its guest address.
#[derive(Clone, Debug)]
struct MappedRegion {
    bytes: u64,
    place: Place,
    mapping: Arc<Mapping>,
}

impl MappedRegion {
    fn is_same(&self, other: &MappedRegion) -> bool {
        (self.bytes, self.place) == (other.bytes, other.place)
    }
}

/// Regions by their first guest address.
type Regions = BTreeMap<u64, MappedRegion>;

/// A table of regions that was checked, and that the device does not have yet.
pub(crate) struct Table {
    pub space: AddressSpace,
    regions: Regions,
}

/// The memory of one front-end.
pub(crate) struct GuestMemory {
    shared: SharedMemory,
    regions: Regions,
}

impl GuestMemory {
    pub fn new(peer: Arc<PeerMemory>) -> Self {
        GuestMemory { shared: SharedMemory::new(peer), regions: Regions::new() }
    }

    pub fn space(&self) -> &Arc<AddressSpace> {
        &self.shared.space
    }

    /// The dirty log.
    pub fn log(&self) -> Option<&Arc<DirtyLog>> {
        self.shared.log.as_ref()
    }

    /// Maps the dirty log (SET_LOG_BASE).
    ///
    /// # Errors
    /// The causes of [`SharedMemory::new_log`].
    pub fn set_log(&mut self, area: LogArea, file: &SharedFd) -> Result<(), Refusal> {
        self.shared.log = Some(Arc::new(self.shared.new_log(area, file)?));
        Ok(())
    }

    /// Forgets the dirty log. The next migration has another one.
    pub fn end_log(&mut self) {
        self.shared.log = None;
    }

    /// The table with these regions alone (SET_MEM_TABLE).
    ///
    /// # Errors
    /// The causes of [`SharedMemory::table`], or the device does not reach a region.
    pub fn table(&self, shared: Vec<SharedRegion>, hardware: &Hardware) -> Result<Table, Refusal> {
        let places = places(&shared, hardware)?;
        Ok(self.with_places(self.shared.table(shared)?, &places))
    }

    /// The table with one more region (ADD_MEM_REG).
    ///
    /// # Errors
    /// The causes of [`SharedMemory::table_with`], or the device does not reach the region.
    pub fn table_with(&self, shared: SharedRegion, hardware: &Hardware) -> Result<Table, Refusal> {
        let places = places(std::slice::from_ref(&shared), hardware)?;
        Ok(self.with_places(self.shared.table_with(shared)?, &places))
    }

    /// The table without one of its regions (REM_MEM_REG).
    ///
    /// # Errors
    /// The table has no such region.
    pub fn table_without(&self, region: MemoryRegion) -> Result<Table, Refusal> {
        Ok(self.with_places(self.shared.table_without(region)?, &BTreeMap::new()))
    }

    /// A region without a new place is one that the device has already.
    fn with_places(&self, space: AddressSpace, places: &BTreeMap<u64, Place>) -> Table {
        let region = |region: &memory::Region| {
            let at = region.guest_base();
            let Some(place) = places.get(&at) else { return Some((at, self.regions.get(&at)?.clone())) };
            let mapping = Arc::clone(region.mapping());
            Some((at, MappedRegion { bytes: region.size_bytes(), place: *place, mapping }))
        };
        let regions = space.regions().iter().filter_map(region).collect();
        Table { space, regions }
    }

    /// Changes to another table. Regions with the same pages stay as they are, so that a device that runs on them goes
    /// on.
    ///
    /// # Errors
    /// The kernel refuses to map or unmap a region. What the device has is then unknown, and it must be closed.
    pub fn change(&mut self, table: Table, hardware: &Hardware) -> Result<(), String> {
        let Table { space, mut regions } = table;
        let mut changes = Vec::new();
        for (at, old) in &self.regions {
            match regions.get_mut(at).filter(|new| new.is_same(old)) {
                // The pages are those that were mapped first.
                Some(new) => new.mapping = Arc::clone(&old.mapping),
                None => changes.push(unmap(*at, old)),
            }
        }
        let is_new = |at: &u64, new: &MappedRegion| !self.regions.get(at).is_some_and(|old| old.is_same(new));
        changes.extend(regions.iter().filter(|(at, new)| is_new(at, new)).map(|(at, new)| map(*at, new)));
        hardware.change_memory(&changes).map_err(|error| {
            let bytes = regions.values().map(|region| region.bytes).sum();
            failed(bytes, &error)
        })?;
        self.shared.space = Arc::new(space);
        self.regions = regions;
        Ok(())
    }

    /// Maps all again, for a device that forgets its memory at each reset.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn map_again(&self, hardware: &Hardware) -> Result<(), String> {
        let unmapped = self.regions.iter().map(|(at, region)| unmap(*at, region));
        let mapped = self.regions.iter().map(|(at, region)| map(*at, region));
        let changes: Vec<_> = unmapped.chain(mapped).collect();
        let bytes = self.regions.values().map(|region| region.bytes).sum();
        hardware.change_memory(&changes).map_err(|error| failed(bytes, &error))
    }
}

fn places(shared: &[SharedRegion], hardware: &Hardware) -> Result<BTreeMap<u64, Place>, Refusal> {
    let place = |shared: &SharedRegion| {
        let MemoryRegion { guest_address, size_bytes, .. } = shared.region;
        if !hardware.reaches(guest_address, size_bytes) {
            return Err(Refusal::new(format!(
                "the device does not reach the region of {size_bytes:#x} bytes at guest address {guest_address:#x}"
            )));
        }
        Ok((guest_address, Place::of(shared)?))
    };
    shared.iter().map(place).collect()
}

fn map(at: u64, region: &MappedRegion) -> MemoryChange {
    MemoryChange::Map { iova: at, bytes: region.bytes, address: region.mapping.address() }
}

fn unmap(at: u64, region: &MappedRegion) -> MemoryChange {
    MemoryChange::Unmap { iova: at, bytes: region.bytes }
}

/// The kernel refuses to map memory. The error does not tell why: `vhost_chr_write_iter` answers every refusal with
/// `EFAULT`.
fn failed(bytes: u64, error: &io::Error) -> String {
    let limit = getrlimit(Resource::Memlock).current.filter(|limit| *limit < bytes);
    let entries = fs::read_to_string("/sys/module/vhost_vdpa/parameters/max_iotlb_entries").ok();
    let entries = entries.and_then(|number| number.trim().parse().ok());
    let remedy = remedy(bytes, limit, entries);
    format!("the kernel does not map the guest's {} for the device: {error}; {remedy}", Size(bytes))
}

/// What the user can do: about a limit of locked memory that is too low, or about the number of pieces that the module
/// `vhost_vdpa` maps for one device.
fn remedy(bytes: u64, limit: Option<u64>, entries: Option<u64>) -> String {
    if let Some(limit) = limit {
        return format!(
            "all of it is pinned, and this process may lock {}: raise the limit (ulimit -l)",
            Size(limit)
        );
    }
    match entries.filter(|entries| entries.saturating_mul(PAGE_BYTES) < bytes) {
        Some(entries) => format!(
            "the module vhost_vdpa maps at most {entries} pieces whose pages are neighbours: give the guest huge pages, or \
             load the module with max_iotlb_entries={}",
            bytes.div_ceil(PAGE_BYTES)
        ),
        None => "all of it is pinned, which needs as much free memory".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_limit_that_is_too_low() {
        assert!(remedy(1 << 30, Some(8 << 20), Some(2048)).contains("8 MiB"));
        let pieces = remedy(1 << 30, None, Some(2048));
        assert!(
            pieces.contains("at most 2048 pieces") && pieces.contains("max_iotlb_entries=262144"),
            "{pieces}"
        );
        assert!(remedy(8 << 20, None, Some(2048)).contains("free memory"));
        assert!(remedy(1 << 30, None, None).contains("free memory"));
    }
}
