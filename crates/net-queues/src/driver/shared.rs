//! The memory of a driver: rings, indirect tables and buffers of all queues, in one file that the device
//! maps.
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use memory::{Address, AddressSpace, Backing, Mapping, PeerMemory, Region, RegionRange, SharedSlice};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, memfd_create};
use virtio::net::HeaderLayout;
use virtqueue::{ActivateError, DriverQueue, Position, QueueConfig, RingFeatures, RingLayout};

/// The start of the memory, in guest addresses and in user addresses, which are the same here. The start is not 0,
/// because some back-ends treat 0 as "no address".
const BASE: u64 = 1 << 32;

/// The bytes that the processors of all peers move at once.
const LINE_BYTES: u64 = 64;

/// The offset of each buffer in its first line: its net header ends with that line, and the frame begins with the next.
/// Headers mostly stay as they are, so their line need not travel between the cores, and the smallest frames take one
/// line and not two.
const LEAD_BYTES: u64 = LINE_BYTES - HeaderLayout::Full.bytes() as u64;

/// The pages of the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// The system's pages, usually 4 KiB.
    #[default]
    Small,
    /// Pages of 2 MiB from the system's pool (`vm.nr_hugepages`).
    Huge2M,
    /// Pages of 1 GiB from the system's pool.
    Huge1G,
}

impl Pages {
    fn bytes(self) -> u64 {
        match self {
            Pages::Small => rustix::param::page_size() as u64,
            Pages::Huge2M => 2 << 20,
            Pages::Huge1G => 1 << 30,
        }
    }

    fn flags(self) -> MemfdFlags {
        match self {
            Pages::Small => MemfdFlags::empty(),
            Pages::Huge2M => MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB,
            Pages::Huge1G => MemfdFlags::HUGETLB | MemfdFlags::HUGE_1GB,
        }
    }
}

/// The requirements of one queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueShape {
    /// Split or packed.
    pub layout: RingLayout,
    /// Descriptors.
    pub size: u16,
    /// The most buffers that are posted or sent at a time.
    pub buffers: u16,
    /// Bytes of each buffer.
    pub buffer_bytes: u32,
    /// Descriptors of each indirect table; 0 for no tables.
    pub table_entries: u16,
}

/// The offsets of the parts of one queue.
#[derive(Clone, Copy, Debug)]
struct QueueOffsets {
    descriptors: u64,
    driver_area: u64,
    device_area: u64,
    tables: Option<u64>,
    buffers: u64,
}

/// Allocates parts one after another, each at the start of a cache line.
#[derive(Debug, Default)]
struct Allocator(u64);

impl Allocator {
    fn allocate(&mut self, bytes: u64) -> u64 {
        let at = BASE + self.0;
        self.0 += bytes.next_multiple_of(LINE_BYTES);
        at
    }
}

impl QueueShape {
    /// Bytes of the parts: descriptors, driver's area, device's area (VIRTIO 1.3 §2.7, §2.8.10.1).
    fn ring_bytes(&self) -> [u64; 3] {
        let size = u64::from(self.size);
        match self.layout {
            RingLayout::Split => [16 * size, 6 + 2 * size, 6 + 8 * size],
            RingLayout::Packed => [16 * size, 4, 4],
        }
    }

    /// From one buffer to the next: an odd number of cache lines. With a power of two, the first lines of
    /// all buffers, the only ones that small frames touch, would share a few sets of the caches.
    fn stride_bytes(&self) -> u64 {
        let lines = (LEAD_BYTES + u64::from(self.buffer_bytes)).div_ceil(LINE_BYTES);
        (lines | 1) * LINE_BYTES
    }

    fn allocate(&self, allocator: &mut Allocator) -> QueueOffsets {
        let [descriptors, driver_area, device_area] =
            self.ring_bytes().map(|bytes| allocator.allocate(bytes));
        let tables = 16 * u64::from(self.table_entries) * u64::from(self.size);
        let tables = (tables > 0).then(|| allocator.allocate(tables));
        let buffers = allocator.allocate(self.stride_bytes() * u64::from(self.buffers)) + LEAD_BYTES;
        QueueOffsets { descriptors, driver_area, device_area, tables, buffers }
    }
}

/// Returns the pages of the file to the system when it is dropped, even if a peer keeps the file open. Pages that the
/// peer touches afterwards are charged to the peer.
#[derive(Debug)]
pub struct LentPages(File);

impl Drop for LentPages {
    fn drop(&mut self) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // Neither call fails for a memory file. If one does, the pages stay until the peer closes the file.
        let _ = self.0.metadata().map(|metadata| fallocate(&self.0, flags, 0, metadata.len()));
    }
}

/// One file, mapped and zeroed.
///
/// Each connection has memory of its own: a former peer cannot write to it.
#[derive(Debug)]
pub struct DriverMemory {
    file: File,
    /// The account of the memory. The device can release pages of the memory: it may punch holes in the file, and
    /// huge pages that it frees return to the system's pool.
    peer: Arc<PeerMemory>,
    space: Arc<AddressSpace>,
    queues: Vec<(QueueShape, QueueOffsets)>,
}

impl DriverMemory {
    /// Allocates zeroed memory for queues of these shapes, and maps every page.
    ///
    /// # Errors
    /// The memory file cannot be made or its pages allocated (`memfd_create`, `fallocate`, `fcntl(F_ADD_SEALS)`),
    /// for example because the pool has too few huge pages; or it cannot be mapped.
    pub fn new(pages: Pages, shapes: &[QueueShape]) -> io::Result<Self> {
        let mut allocator = Allocator::default();
        let queues: Vec<_> = shapes.iter().map(|shape| (*shape, shape.allocate(&mut allocator))).collect();
        let bytes = allocator.0.max(1).next_multiple_of(pages.bytes());
        Self::over(memory_file(pages, bytes)?, bytes, queues)
    }

    fn over(file: File, bytes: u64, queues: Vec<(QueueShape, QueueOffsets)>) -> io::Result<Self> {
        let peer = PeerMemory::new(bytes, Backing::Ram)?;
        let region = Region::of_peer(&peer, &file, RegionRange::at(BASE, bytes)).map_err(io::Error::other)?;
        touch(region.mapping());
        let space = AddressSpace::from_regions([region]).map_err(io::Error::other)?;
        Ok(DriverMemory { file, peer, space: Arc::new(space), queues })
    }

    /// The account whose descriptor becomes readable when memory is lost.
    pub fn peer(&self) -> &Arc<PeerMemory> {
        &self.peer
    }

    /// The base address, both guest-physical and front-end virtual, and the length in bytes.
    pub fn range(&self) -> (u64, u64) {
        (BASE, self.mapping().len_bytes())
    }

    /// A descriptor of the file, for the peer to map from offset 0.
    ///
    /// # Errors
    /// `dup` is refused: the open-files limit is reached.
    pub fn share(&self) -> io::Result<OwnedFd> {
        Ok(self.file.try_clone()?.into())
    }

    /// A guard that must be kept as long as the queues are used. Dropping it returns the pages.
    ///
    /// # Errors
    /// `dup` is refused: the open-files limit is reached.
    pub fn lend(&self) -> io::Result<LentPages> {
        Ok(LentPages(self.file.try_clone()?))
    }

    /// The memory, as a device translates its addresses.
    pub fn space(&self) -> &Arc<AddressSpace> {
        &self.space
    }

    fn mapping(&self) -> &Arc<Mapping> {
        self.space.regions()[0].mapping()
    }

    /// The configuration of a queue, as the device is told it. `queue` is an index into the shapes of
    /// [`DriverMemory::new`].
    pub fn config(&self, queue: usize, features: RingFeatures) -> QueueConfig {
        let (shape, offsets) = self.queues[queue];
        QueueConfig {
            features,
            size: shape.size.into(),
            descriptors: Address::User(offsets.descriptors),
            driver_area: Address::User(offsets.driver_area),
            device_area: Address::User(offsets.device_area),
            position: Position::start(features.layout),
        }
    }

    /// The driver half of queue number `queue`, over cleared rings.
    ///
    /// # Errors
    /// A part of the queue is not aligned as its layout demands, or its size is not one that the layout can have.
    pub fn driver(
        &self,
        queue: usize,
        features: RingFeatures,
    ) -> Result<Box<dyn DriverQueue>, ActivateError> {
        let (shape, offsets) = self.queues[queue];
        let tables = offsets.tables.map(|address| (Address::User(address), shape.table_entries));
        self.config(queue, features).activate_driver(&self.space, tables)
    }

    /// A queue's buffers.
    pub fn buffers(&self, queue: usize) -> Buffers {
        let (shape, offsets) = self.queues[queue];
        Buffers {
            mapping: Arc::clone(self.mapping()),
            base: offsets.buffers,
            stride: shape.stride_bytes(),
            bytes: shape.buffer_bytes,
            count: shape.buffers,
        }
    }
}

/// A file that cannot be shortened, with all of its pages allocated: touching a huge page that the pool does not have
/// would end the process.
fn memory_file(pages: Pages, bytes: u64) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | pages.flags();
    let file = memfd_create("tautline driver", flags)?;
    fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file.into())
}

/// Maps every page now, so that no frame waits for a page fault.
fn touch(mapping: &Mapping) {
    let whole = SharedSlice::of_mapping(mapping);
    for at in (0..whole.len_bytes()).step_by(rustix::param::page_size()) {
        whole.slice(at, 1).write(&[0]);
    }
}

/// The buffers of one queue, all of one size, by number.
#[derive(Debug)]
pub struct Buffers {
    mapping: Arc<Mapping>,
    base: u64,
    stride: u64,
    bytes: u32,
    count: u16,
}

impl Buffers {
    /// The number of buffers.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// The bytes of each buffer.
    #[inline(always)]
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// The address of a buffer, as the device knows it.
    #[inline(always)]
    pub fn address(&self, index: u16) -> u64 {
        self.base + self.stride * u64::from(index)
    }

    /// A buffer as memory of this process.
    #[inline(always)]
    pub fn slice(&self, index: u16) -> SharedSlice<'_> {
        let offset = (self.address(index) - BASE) as usize;
        SharedSlice::of_mapping(&self.mapping).slice(offset, self.bytes as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(layout: RingLayout) -> QueueShape {
        QueueShape { layout, size: 256, buffers: 300, buffer_bytes: 2048, table_entries: 33 }
    }

    #[test]
    fn no_two_parts_share_a_byte_and_all_lie_inside() {
        let memory =
            DriverMemory::new(Pages::Small, &[shape(RingLayout::Split), shape(RingLayout::Packed)]).unwrap();
        let (base, bytes) = memory.range();
        let mut parts = Vec::new();
        for queue in 0..2 {
            let (shape, offsets) = memory.queues[queue];
            let [descriptors, driver, device] = shape.ring_bytes();
            parts.push((offsets.descriptors, descriptors));
            parts.push((offsets.driver_area, driver));
            parts.push((offsets.device_area, device));
            parts.push((offsets.tables.unwrap(), 16 * 33 * 256));
            let buffers = memory.buffers(queue);
            parts.extend((0..buffers.count()).map(|i| (buffers.address(i), u64::from(buffers.bytes()))));
        }
        parts.sort_unstable();
        let (buffers, rings): (Vec<_>, Vec<_>) = parts.iter().partition(|(_, bytes)| *bytes == 2048);
        assert!(rings.iter().all(|(at, _)| at % 64 == 0));
        assert!(buffers.iter().all(|(at, _)| (at + 12) % 64 == 0), "frames begin with a line");
        assert!(parts.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{parts:x?}");
        let (at, len) = parts[parts.len() - 1];
        assert!(parts[0].0 >= base && at + len <= base + bytes);
    }

    #[test]
    fn one_name_for_every_byte() {
        let memory = DriverMemory::new(Pages::Small, &[shape(RingLayout::Packed)]).unwrap();
        let buffers = memory.buffers(0);
        let last = buffers.address(buffers.count() - 1);
        assert_eq!(memory.space().guest_address(Address::User(last)), Some(last));
        buffers.slice(299).write(b"the last");
        let other = memory::Mapping::shared(memory.share().unwrap(), last - BASE, 8).unwrap();
        let mut seen = [0; 8];
        SharedSlice::of_mapping(&other).read(&mut seen);
        assert_eq!(&seen, b"the last");
        assert_eq!(other.shrinkable(), memory::Shrinkable::Sealed);
    }

    #[test]
    fn a_peer_that_keeps_the_file_keeps_no_pages() {
        let memory = DriverMemory::new(Pages::Small, &[shape(RingLayout::Packed)]).unwrap();
        let (file, lent) = (File::from(memory.share().unwrap()), memory.lend().unwrap());
        let pages = || std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap());
        assert!(pages() > 0);
        drop(memory);
        assert!(pages() > 0, "the queues run on");
        drop(lent);
        assert_eq!(pages(), 0);
    }

    /// Huge pages go when the device punches holes and the pool has no others. A file that is not sealed can lose
    /// small ones.
    #[test]
    fn pages_that_are_taken_away_are_told() {
        let _guard = memory::TruncationGuard::install().unwrap();
        let bytes = 16 * rustix::param::page_size() as u64;
        let file = File::from(memfd_create("of a test", MemfdFlags::CLOEXEC).unwrap());
        file.set_len(bytes).unwrap();
        let memory = DriverMemory::over(file, bytes, Vec::new()).unwrap();
        assert_eq!(memory.peer().take_loss(), None);
        memory.file.set_len(0).unwrap();
        SharedSlice::of_mapping(memory.mapping()).slice(5000, 4).write(b"gone");
        assert_eq!(memory.peer().take_loss().unwrap().bytes, bytes);
    }

    /// Whether the pool holds pages or not, the process lives and hears the reason.
    #[test]
    fn huge_pages_that_are_not_there_are_an_error() {
        match DriverMemory::new(Pages::Huge2M, &[shape(RingLayout::Packed)]) {
            Ok(memory) => assert_eq!(memory.range().1 % (2 << 20), 0),
            Err(error) => assert!(error.raw_os_error().is_some(), "{error}"),
        }
    }
}
