//! The driver's memory: the ranges that the kernel lists, mapped under their I/O virtual addresses.
//!
//! A driver of this kernel sees a bounce area and the memory of its rings, which the kernel offers through a file of
//! its own. The kernel adds the bounce area when the driver maps its first buffer, without a request. Memory of a
//! guest behind vhost-vdpa is in the guest's own files; the kernel announces each change.
use std::os::fd::OwnedFd;
use std::sync::Arc;

use linux::vduse::MemoryEntry;
use memory::{AddressSpace, MAX_REGIONS, PeerMemory, Region, RegionRange};
use rustix::fs::{FileType, fstat};
use vhost_user::session::Refusal;

use super::kernel::Kernel;

/// A range of memory, with its file.
pub(super) struct Found {
    pub entry: MemoryEntry,
    file: OwnedFd,
}

/// Lists the memory that the device may read and write.
///
/// # Errors
/// The kernel refuses the list, or the list is malformed or longer than a table of regions.
pub(super) fn list(kernel: &dyn Kernel) -> Result<Vec<Found>, Refusal> {
    let (mut found, mut start) = (Vec::new(), 0);
    for _ in 0..=MAX_REGIONS {
        let next = kernel.memory(start).map_err(|error| Refusal::new(format!("list memory: {error}")))?;
        let Some((entry, file)) = next else { return Ok(found) };
        if entry.last < entry.start || entry.last < start {
            return Err(Refusal::new(format!(
                "memory at {:#x} to {:#x} is no range",
                entry.start, entry.last
            )));
        }
        // Memory that may only be read holds no ring and no buffer to send, as a guest's firmware.
        if entry.is_writable {
            found.push(Found { entry, file });
        }
        let Some(behind) = entry.last.checked_add(1) else { return Ok(found) };
        start = behind;
    }
    Err(Refusal::new(format!("the driver's memory has more than {MAX_REGIONS} ranges")))
}

/// Maps memory. Ranges that `kept` has are not mapped again.
///
/// # Errors
/// A range cannot be mapped, or the ranges overlap.
pub(super) fn map(
    found: &[Found],
    kept: &AddressSpace,
    peer: &Arc<PeerMemory>,
) -> Result<AddressSpace, Refusal> {
    let regions = found.iter().map(|found| region(found, kept, peer)).collect::<Result<Vec<_>, _>>()?;
    AddressSpace::from_regions(regions).map_err(|error| Refusal::new(error.to_string()))
}

fn region(found: &Found, kept: &AddressSpace, peer: &Arc<PeerMemory>) -> Result<Region, Refusal> {
    let MemoryEntry { start, last, offset, .. } = found.entry;
    let refused = |error: &dyn std::fmt::Display| {
        Refusal::new(format!("memory at {start:#x} to {last:#x}: {error} (memory=SIZE is the limit)"))
    };
    let size = (last - start).checked_add(1).ok_or_else(|| refused(&"no mapping is so long"))?;
    let is_kept = |region: &&Region| region.guest_base() == start && region.size_bytes() == size;
    if let Some(region) = kept.regions().iter().find(is_kept) {
        return Ok(region.clone());
    }
    let range = RegionRange { offset, size, guest_base: start, user_base: start };
    let is_file = fstat(&found.file).is_ok_and(|status| FileType::from_raw_mode(status.st_mode).is_file());
    let mapped = match is_file {
        true => Region::of_peer(peer, &found.file, range),
        false => Region::of_device(peer, &found.file, range),
    };
    mapped.map_err(|error| refused(&error))
}
