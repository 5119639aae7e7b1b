//! The same work done by `virtio-queue`.

use std::time::Instant;

use virtio_queue::{Queue, QueueOwnedT, QueueT};
use virtqueue::mock::Arena;
use virtqueue::{DriverQueue, Layout, RingFeatures};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

use super::{Bench, Direction, Used};

pub struct Oracle {
    queue: Queue,
    memory: GuestMemoryMmap,
    ours: Bench,
    driver: Box<dyn DriverQueue>,
    used: Vec<Used>,
    bytes: u64,
    _arena: Arena,
}

impl Oracle {
    pub fn new(size: u32, burst: usize) -> Self {
        let arena = Arena::new(RingFeatures::plain(Layout::Split), size, 1 << 20);
        let ranges: Vec<_> = arena
            .files
            .iter()
            .map(|(guest, bytes, file)| {
                let file = file.try_clone().expect("a file can be duplicated");
                (GuestAddress(*guest), *bytes as usize, Some(FileOffset::new(file, 0)))
            })
            .collect();
        let memory = GuestMemoryMmap::from_ranges_with_files(ranges).expect("the files are as long");
        let driver = arena.driver();
        let mut queue = Queue::new(size as u16).expect("a power of two");
        queue.set_size(size as u16);
        let low = |address: memory::Address| Some(address.value() as u32);
        queue.set_desc_table_address(low(arena.config.descriptors), Some(0));
        queue.set_avail_ring_address(low(arena.config.driver_area), Some(0));
        queue.set_used_ring_address(low(arena.config.device_area), Some(0));
        queue.set_ready(true);
        assert!(queue.is_valid(&memory));
        let ours = Bench::new(RingFeatures::plain(Layout::Split), burst);
        Oracle {
            queue,
            memory,
            ours,
            driver,
            used: Vec::with_capacity(size as usize),
            bytes: 0,
            _arena: arena,
        }
    }

    /// The device half of a burst, as its own documentation shows it: iterate, follow, translate, add to
    /// the used ring one by one.
    #[inline(always)]
    fn serve(&mut self, n: usize) {
        for _ in 0..n {
            let chain = self.queue.iter(&self.memory).expect("sound").next().expect("available");
            let head = chain.head_index();
            for descriptor in chain {
                let slice =
                    self.memory.get_slice(descriptor.addr(), descriptor.len() as usize).expect("inside");
                self.bytes += slice.len() as u64;
            }
            self.queue.add_used(&self.memory, head, 0).expect("sound");
        }
    }

    pub fn round(&mut self, theirs: bool) {
        if !theirs {
            return self.ours.round();
        }
        let n = self.ours.buffers.len();
        assert_eq!(self.driver.add(&self.ours.buffers, Direction::ToDevice), n);
        self.serve(n);
        self.used.clear();
        assert_eq!(self.driver.reclaim(&mut self.used, n).expect("sound"), n);
    }

    pub fn device_round(&mut self) -> f64 {
        let size = usize::from(self.queue.size());
        let n = self.ours.buffers.len();
        let mut filled = 0;
        while filled < size {
            filled += self.driver.add(&self.ours.buffers, Direction::ToDevice);
        }
        let started = Instant::now();
        for _ in 0..size / n {
            self.serve(n);
        }
        let ns = started.elapsed().as_nanos() as f64;
        self.used.clear();
        assert_eq!(self.driver.reclaim(&mut self.used, usize::MAX).expect("sound"), size);
        ns
    }
}
