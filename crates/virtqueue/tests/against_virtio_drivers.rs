//! Our device half against the driver half of `virtio-drivers`, which knows nothing of ours: random
//! sequences of requests, each echoed by the device and checked by the driver.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::Arc;

use memory::{Address, AddressSpace, Region, RegionRange, SharedSlice, sealed_memfd};
use proptest::prelude::*;
use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::{DeviceStatus, DeviceType, InterruptStatus, Transport};
use virtio_drivers::{BufferDirection, Hal, PAGE_SIZE, PhysAddr};
use virtqueue::{Burst, DeviceOptions, Position, QueueConfig, RingFeatures, RingLayout};

const QUEUE: usize = 8;
const POOL_PAGES: usize = 512;
const BASE: u64 = 0x10_0000;

/// The guest's memory: pages are handed out once and never again, so that stale use shows.
struct Pool {
    space: Arc<AddressSpace>,
    next: usize,
}

thread_local! {
    static POOL: RefCell<Option<Pool>> = const { RefCell::new(None) };
}

fn fresh_pool() -> Arc<AddressSpace> {
    let bytes = (POOL_PAGES * PAGE_SIZE) as u64;
    let region = Region::map(sealed_memfd(c"guest", bytes).unwrap(), RegionRange::at(BASE, bytes)).unwrap();
    let space = Arc::new(AddressSpace::from_regions([region]).unwrap());
    POOL.set(Some(Pool { space: Arc::clone(&space), next: 0 }));
    space
}

/// Pages from the pool: their guest-physical address and where they are here.
fn pages(count: usize) -> (u64, NonNull<u8>) {
    POOL.with_borrow_mut(|pool| {
        let pool = pool.as_mut().expect("a pool was made");
        let at = pool.next * PAGE_SIZE;
        pool.next += count;
        assert!(pool.next <= POOL_PAGES, "the test needs a larger pool");
        let all = SharedSlice::of_mapping(pool.space.regions()[0].mapping());
        (BASE + at as u64, NonNull::new(all.slice(at, count * PAGE_SIZE).as_ptr()).unwrap())
    })
}

fn bounce(paddr: u64, bytes: usize) -> NonNull<u8> {
    POOL.with_borrow(|pool| {
        let all =
            SharedSlice::of_mapping(pool.as_ref().expect("a pool was made").space.regions()[0].mapping());
        NonNull::new(all.slice((paddr - BASE) as usize, bytes).as_ptr()).unwrap()
    })
}

struct TestHal;

// SAFETY: pages come from a mapping that outlives the queue, are page-aligned, zeroed when new and handed
// out once; shared buffers are copied to pages of their own.
unsafe impl Hal for TestHal {
    fn dma_alloc(count: usize, _direction: BufferDirection) -> (PhysAddr, NonNull<u8>) {
        pages(count)
    }

    // SAFETY: frees nothing, so that any arguments do; the pool goes with the thread.
    unsafe fn dma_dealloc(_paddr: PhysAddr, _vaddr: NonNull<u8>, _pages: usize) -> i32 {
        0
    }

    // SAFETY: never returns.
    unsafe fn mmio_phys_to_virt(_paddr: PhysAddr, _size: usize) -> NonNull<u8> {
        unreachable!("there are no registers in this test")
    }

    // SAFETY: asks of the caller what the trait does: that `buffer` is valid for reads.
    unsafe fn share(buffer: NonNull<[u8]>, _direction: BufferDirection) -> PhysAddr {
        let len = buffer.len();
        let (paddr, vaddr) = pages(len.div_ceil(PAGE_SIZE).max(1));
        // SAFETY: the caller vouches for `buffer`; the pages are new and long enough.
        unsafe { vaddr.as_ptr().copy_from_nonoverlapping(buffer.as_ptr().cast(), len) };
        paddr
    }

    unsafe fn unshare(paddr: PhysAddr, buffer: NonNull<[u8]>, direction: BufferDirection) {
        if direction != BufferDirection::DriverToDevice {
            let from = bounce(paddr, buffer.len());
            // SAFETY: the caller vouches for `buffer`; the pages were given out by `share` for this length.
            unsafe { from.as_ptr().copy_to_nonoverlapping(buffer.as_ptr().cast(), buffer.len()) };
        }
    }
}

/// A transport that only remembers where the driver put its ring.
#[derive(Default)]
struct TestTransport {
    ring: Option<(u32, u64, u64, u64)>,
}

impl Transport for TestTransport {
    fn device_type(&self) -> DeviceType {
        DeviceType::Network
    }
    fn read_device_features(&mut self) -> u64 {
        0
    }
    fn write_driver_features(&mut self, _features: u64) {}
    fn max_queue_size(&mut self, _queue: u16) -> u32 {
        QUEUE as u32
    }
    fn notify(&mut self, _queue: u16) {}
    fn get_status(&self) -> DeviceStatus {
        DeviceStatus::empty()
    }
    fn set_status(&mut self, _status: DeviceStatus) {}
    fn set_guest_page_size(&mut self, _size: u32) {}
    fn requires_legacy_layout(&self) -> bool {
        false
    }
    fn queue_set(&mut self, _queue: u16, size: u32, table: PhysAddr, driver: PhysAddr, device: PhysAddr) {
        self.ring = Some((size, table, driver, device));
    }
    fn queue_unset(&mut self, _queue: u16) {}
    fn queue_used(&mut self, _queue: u16) -> bool {
        self.ring.is_some()
    }
    fn ack_interrupt(&mut self) -> InterruptStatus {
        InterruptStatus::empty()
    }
    fn read_config_generation(&self) -> u32 {
        0
    }
    fn read_config_space<T>(&self, _offset: usize) -> virtio_drivers::Result<T> {
        Err(virtio_drivers::Error::ConfigSpaceMissing)
    }
    fn write_config_space<T>(&mut self, _offset: usize, _value: T) -> virtio_drivers::Result<()> {
        Err(virtio_drivers::Error::ConfigSpaceMissing)
    }
}

/// A request of the driver: what it sends, room for the answer.
struct Sent {
    token: u16,
    sent: Vec<Vec<u8>>,
    room: Vec<Vec<u8>>,
}

fn run(
    indirect: bool,
    event_idx: bool,
    rounds: Vec<Vec<(usize, usize, usize)>>,
) -> Result<(), TestCaseError> {
    let space = fresh_pool();
    let mut transport = TestTransport::default();
    let mut driver = VirtQueue::<TestHal, QUEUE>::new(&mut transport, 0, indirect, event_idx).unwrap();
    let (size, table, driver_area, device_area) = transport.ring.unwrap();
    let config = QueueConfig {
        features: RingFeatures { event_idx, indirect, ..RingFeatures::plain(RingLayout::Split) },
        size,
        descriptors: Address::Guest(table),
        driver_area: Address::Guest(driver_area),
        device_area: Address::Guest(device_area),
        position: Position::start(RingLayout::Split),
    };
    let mut device = config.activate_device(&space, DeviceOptions::default()).unwrap();
    let mut burst = Burst::new(QUEUE);
    for round in rounds {
        let mut under_way: Vec<Sent> = Vec::new();
        for (inputs, outputs, len) in round {
            let sent: Vec<Vec<u8>> = (0..inputs).map(|i| vec![(len + i) as u8; len]).collect();
            let mut room: Vec<Vec<u8>> = (0..outputs).map(|_| vec![0; len]).collect();
            let inputs: Vec<&[u8]> = sent.iter().map(Vec::as_slice).collect();
            let mut outputs: Vec<&mut [u8]> = room.iter_mut().map(Vec::as_mut_slice).collect();
            // SAFETY: the buffers live in `under_way` until they are popped.
            match unsafe { driver.add(&inputs, &mut outputs) } {
                Ok(token) => under_way.push(Sent { token, sent, room }),
                Err(error) => prop_assert_eq!(error, virtio_drivers::Error::QueueFull),
            }
        }
        prop_assert_eq!(device.pop(&mut burst, QUEUE).unwrap(), under_way.len());
        for (i, request) in under_way.iter().enumerate() {
            let chain = burst.chain(i);
            let whole: Vec<u8> = request.sent.concat();
            let mut heard = vec![0; whole.len() + 1];
            prop_assert_eq!(chain.read(0, &mut heard), whole.len());
            prop_assert_eq!(&heard[..whole.len()], &whole[..]);
            let answer: Vec<u8> = (0..chain.writable_bytes()).map(|n| n as u8 ^ 0x5a).collect();
            prop_assert_eq!(chain.write(0, &answer), answer.len());
            burst.set_written(i, answer.len() as u32);
        }
        // The later half first, where the driver must cope with any order.
        let half = burst.len() / 2;
        let all = burst.len();
        device.add_used(&mut burst, half..all);
        device.add_used(&mut burst, 0..half);
        under_way.rotate_left(half);
        for mut request in under_way {
            prop_assert_eq!(driver.peek_used(), Some(request.token));
            let inputs: Vec<&[u8]> = request.sent.iter().map(Vec::as_slice).collect();
            let mut outputs: Vec<&mut [u8]> = request.room.iter_mut().map(Vec::as_mut_slice).collect();
            let expected: usize = outputs.iter().map(|room| room.len()).sum();
            // SAFETY: the same buffers as were added under this token.
            let written = unsafe { driver.pop_used(request.token, &inputs, &mut outputs) }.unwrap();
            prop_assert_eq!(written as usize, expected);
            let answer: Vec<u8> = (0..expected).map(|n| n as u8 ^ 0x5a).collect();
            prop_assert_eq!(request.room.concat(), answer);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_foreign_driver_is_served(
        indirect: bool,
        event_idx: bool,
        rounds in prop::collection::vec(
            prop::collection::vec(
                (0usize..4, 0usize..4, 1usize..40).prop_filter("no empty request", |(i, o, _)| i + o > 0),
                1..6,
            ),
            1..10,
        ),
    ) {
        run(indirect, event_idx, rounds)?;
    }
}
