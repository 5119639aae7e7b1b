//! The memory that the front-end shares: mapped within the device's limits, and watched for truncation.
use std::sync::Arc;

use memory::{
    AddressSpace, DirtyLog, Loss, LossCause, MapError, Mapping, PeerMemory, Region, RegionError, RegionRange,
    Size,
};
use vhost_user::SharedFd;
use vhost_user::codec::payload::{Inflight, LogArea, MemoryRegion};
use vhost_user::session::Refusal;
use vhost_user::session::backend::SharedRegion;

use crate::ring::InFlight;

/// The default limit of one table in bytes: larger than most guests. It is small enough that a hundred hostile
/// devices, each with a second table of the same size in preparation, leave most of the 128 TiB that a process can
/// address.
pub const DEFAULT_LIMIT_BYTES: u64 = 512 << 30;

/// All memory that one front-end has set up.
pub struct SharedMemory {
    peer: Arc<PeerMemory>,
    /// The table of regions.
    pub space: Arc<AddressSpace>,
    /// The dirty log of a migration.
    pub log: Option<Arc<DirtyLog>>,
    pub(crate) in_flight: Option<InFlight>,
}

impl SharedMemory {
    /// No memory yet.
    pub fn new(peer: Arc<PeerMemory>) -> Self {
        SharedMemory { peer, space: Arc::default(), log: None, in_flight: None }
    }

    /// Maps a whole table (SET_MEM_TABLE).
    ///
    /// # Errors
    /// The regions overlap or are too many, a region cannot be mapped ([`Region::of_peer`]), or the device's limit
    /// (memory=SIZE) would be exceeded, also with files that the front-end still holds.
    pub fn table(&self, regions: Vec<SharedRegion>) -> Result<AddressSpace, Refusal> {
        // Before anything is mapped.
        let sizes = regions.iter().map(|shared| shared.region.size_bytes);
        let bytes = sizes.fold(0, u64::saturating_add);
        self.check_limit(bytes, Part::Table)?;
        let regions: Vec<Region> = regions.into_iter().map(|r| self.region(r)).collect::<Result<_, _>>()?;
        self.check_kept(bytes, Part::Table)?;
        AddressSpace::from_regions(regions).map_err(refused)
    }

    /// The table with one more region (ADD_MEM_REG).
    ///
    /// # Errors
    /// The region overlaps another one or is one too many, it cannot be mapped ([`Region::of_peer`]), or the device's
    /// limit (memory=SIZE) would be exceeded, also with files that the front-end still holds.
    pub fn table_with(&self, shared: SharedRegion) -> Result<AddressSpace, Refusal> {
        let bytes = self.table_bytes().saturating_add(shared.region.size_bytes);
        self.check_limit(bytes, Part::Table)?;
        let region = self.region(shared)?;
        self.check_kept(bytes, Part::Table)?;
        self.space.with_region(region).map_err(refused)
    }

    /// The table without one of its regions (REM_MEM_REG).
    ///
    /// # Errors
    /// The table has no such region.
    pub fn table_without(&self, region: MemoryRegion) -> Result<AddressSpace, Refusal> {
        let MemoryRegion { guest_address, user_address, size_bytes, .. } = region;
        self.space.without_region(guest_address, user_address, size_bytes).map_err(refused)
    }

    /// Maps the dirty log (SET_LOG_BASE).
    ///
    /// # Errors
    /// The log cannot be mapped ([`DirtyLog::of_peer`]), or the device's limit (memory=SIZE) would be exceeded, also
    /// with files that the front-end still holds.
    pub fn new_log(&self, area: LogArea, file: &SharedFd) -> Result<DirtyLog, Refusal> {
        self.check_limit(area.size_bytes, Part::Log)?;
        let log = DirtyLog::of_peer(&self.peer, file, area.offset, area.size_bytes);
        let log = log.map_err(refused_mapping)?;
        log.mapping().count_file(file.clone());
        self.check_kept(area.size_bytes, Part::Log)?;
        Ok(log)
    }

    /// Maps and keeps the in-flight region (SET_INFLIGHT_FD).
    ///
    /// # Errors
    /// The region cannot be mapped ([`PeerMemory::map`]), or the device's limit (memory=SIZE) would be exceeded, also
    /// with files that the front-end still holds.
    pub(crate) fn set_in_flight(&mut self, inflight: Inflight, file: &SharedFd) -> Result<(), Refusal> {
        let Inflight { size_bytes, offset, queue_count, queue_size } = inflight;
        self.check_limit(size_bytes, Part::InFlight)?;
        let mapping: Mapping = self.peer.map(file, offset, size_bytes).map_err(refused_mapping)?;
        mapping.count_file(file.clone());
        self.check_kept(size_bytes, Part::InFlight)?;
        self.in_flight = Some(InFlight { mapping: Arc::new(mapping), queue_count, queue_size });
        Ok(())
    }

    fn region(&self, SharedRegion { region, file }: SharedRegion) -> Result<Region, Refusal> {
        let MemoryRegion { guest_address, size_bytes, user_address, mmap_offset } = region;
        let mapped = Region::of_peer(
            &self.peer,
            &file,
            RegionRange {
                offset: mmap_offset,
                size: size_bytes,
                guest_base: guest_address,
                user_base: user_address,
            },
        );
        let region = mapped.map_err(|error| match error {
            RegionError::Map(error) => refused_mapping(error),
            error => refused(error),
        })?;
        region.mapping().count_file(file);
        Ok(region)
    }

    fn table_bytes(&self) -> u64 {
        self.space.regions().iter().map(Region::size_bytes).sum()
    }

    /// Checks that all parts together are within the limit when `changed` has this size in bytes. [`PeerMemory`]
    /// counts the parts that are being replaced.
    fn check_limit(&self, bytes: u64, changed: Part) -> Result<(), Refusal> {
        let (all, limit) = (self.bytes_with(bytes, changed), self.peer.limit_bytes());
        if all <= limit {
            return Ok(());
        }
        Err(refused(format_args!(
            "{} of shared memory are more than the {} of this port; share less, or raise the port's option memory=SIZE",
            Size(all),
            Size(limit)
        )))
    }

    /// Checks that all parts are within the limit together with the pages of files that were shared before, also in
    /// other connections. Called after mapping: a file that is mapped again is not counted twice.
    fn check_kept(&self, bytes: u64, changed: Part) -> Result<(), Refusal> {
        let (all, limit) = (self.bytes_with(bytes, changed), self.peer.limit_bytes());
        let kept = self.peer.kept_bytes();
        if all.saturating_add(kept) <= limit {
            return Ok(());
        }
        Err(refused(format_args!(
            "{} of shared memory, and up to {} in files that were shared before and still exist, are more than the {} \
             of this port; close and remove those files, raise the port's option memory=SIZE, or start the port again",
            Size(all),
            Size(kept),
            Size(limit)
        )))
    }

    fn bytes_with(&self, bytes: u64, changed: Part) -> u64 {
        let other = |part: Part, bytes: u64| if part == changed { 0 } else { bytes };
        let log = self.log.as_ref().map_or(0, |log| log.len_bytes());
        let in_flight = self.in_flight.as_ref().map_or(0, |buffer| buffer.mapping.len_bytes());
        bytes
            .saturating_add(other(Part::Table, self.table_bytes()))
            .saturating_add(other(Part::Log, log))
            .saturating_add(other(Part::InFlight, in_flight))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Table,
    Log,
    InFlight,
}

fn refused(error: impl ToString) -> Refusal {
    Refusal::new(error.to_string())
}

/// With the option of the device that would allow it.
fn refused_mapping(error: MapError) -> Refusal {
    match error {
        MapError::Backing { .. } => refused(format_args!("{error} (memory-backing=any)")),
        MapError::OverLimit { .. } => refused(format_args!("{error} (memory=SIZE)")),
        error => refused(error),
    }
}

/// Describes a loss of memory, and what the user can do.
pub fn lost(loss: &Loss) -> String {
    let size = Size(loss.bytes);
    match loss.cause {
        LossCause::Shortened => format!(
            "the front-end shortened its shared memory file of {size}, or the file system had no page left for it: \
             its memory reads as zeros now; share a memfd sealed with F_SEAL_SHRINK or reserve all pages (QEMU: \
             prealloc=on), and restart the guest"
        ),
        LossCause::HardwareError => format!(
            "this machine's memory has failed under {size} that the front-end shares: they read as zeros now; see \
             the kernel's log for the failed memory, and restart the guest"
        ),
    }
}
