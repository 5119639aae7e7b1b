//! The same work done by `virtio-queue`.

use std::time::Instant;

use virtio_queue::{Queue, QueueOwnedT, QueueT};
use virtqueue::mock::Arena;
use virtqueue::{DriverQueue, Used};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

use super::case::{Case, SIZE, Work, empty, fill};

/// Our driver half, their device half.
pub struct Oracle {
    case: Case,
    work: Work,
    queue: Queue,
    memory: GuestMemoryMmap,
    driver: Box<dyn DriverQueue>,
    used: Vec<Used>,
    pub bytes: u64,
    pub notifications: u64,
    _arena: Arena,
}

impl Oracle {
    /// `case` must be one of a split ring.
    pub fn new(case: Case, burst: usize) -> Self {
        let arena = Arena::new(case.features, SIZE, 1 << 20);
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
        let mut queue = Queue::new(SIZE as u16).expect("a power of two");
        queue.set_size(SIZE as u16);
        let low = |address: memory::Address| Some(address.value() as u32);
        queue.set_desc_table_address(low(arena.config.descriptors), Some(0));
        queue.set_avail_ring_address(low(arena.config.driver_area), Some(0));
        queue.set_used_ring_address(low(arena.config.device_area), Some(0));
        queue.set_event_idx(case.features.event_idx);
        queue.set_ready(true);
        assert!(queue.is_valid(&memory));
        Oracle {
            case,
            work: Work::new(case, burst),
            queue,
            memory,
            driver,
            used: Vec::with_capacity(SIZE as usize),
            bytes: 0,
            notifications: 0,
            _arena: arena,
        }
    }

    /// The device half of a burst, as its own documentation shows it: iterate, follow, translate, add to
    /// the used ring one by one.
    #[inline(always)]
    fn serve(&mut self, n: usize) {
        if self.case.asks {
            self.queue.disable_notification(&self.memory).expect("sound");
        }
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
        if self.case.asks {
            self.notifications += u64::from(self.queue.needs_notification(&self.memory).expect("sound"));
            std::hint::black_box(self.queue.enable_notification(&self.memory).expect("sound"));
        }
    }

    /// One burst there and back; the driver half does what it does in our own round.
    pub fn round(&mut self) {
        let n = self.work.len();
        self.notifications += self.case.publish(&self.work, self.driver.as_mut());
        self.serve(n);
        self.case.reclaim(self.driver.as_mut(), &mut self.used, n);
    }

    /// The device half alone, over a queue filled off the clock: nanoseconds per buffer.
    pub fn device_round(&mut self) -> f64 {
        let n = self.work.len();
        let bursts = fill(&self.work, self.driver.as_mut(), self.case);
        let started = Instant::now();
        for _ in 0..bursts {
            self.serve(n);
        }
        let ns = started.elapsed().as_nanos() as f64;
        empty(self.driver.as_mut(), &mut self.used, bursts * n, self.case);
        ns / (bursts * n) as f64
    }
}
