//! Our device half of the split ring against `virtio-queue`: the same driver's writes into two guests, the
//! same operations on both, and everything that either says or writes must agree.

use std::num::Wrapping;

use proptest::prelude::*;
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use virtqueue::mock::{Arena, DATA, TABLES, descriptor};
use virtqueue::{Burst, DeviceQueue, Piece, Request, RingFeatures, RingLayout, Used};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap};

#[derive(Clone, Debug)]
enum Step {
    /// A chain of so many readable and writable descriptors, in a table of its own or not.
    Add {
        readable: u16,
        writable: u16,
        indirect: bool,
    },
    Take(usize),
    /// Completes an open chain with a written length.
    Complete(usize, u32),
    NeedsCall,
    /// The driver wants to hear of the entry so far ahead.
    UsedEvent(u16),
    EnableKicks,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u16..4, 0u16..4, any::<bool>())
            .prop_filter("a chain has descriptors", |(r, w, _)| r + w > 0)
            .prop_map(|(readable, writable, indirect)| Step::Add { readable, writable, indirect }),
        4 => (1usize..9).prop_map(Step::Take),
        4 => (any::<usize>(), 0u32..20).prop_map(|(i, n)| Step::Complete(i, n)),
        1 => Just(Step::NeedsCall),
        1 => (0u16..8).prop_map(Step::UsedEvent),
        1 => Just(Step::EnableKicks),
    ]
}

/// A driver that writes a ring without any of our code.
struct RawDriver {
    arenas: [Arena; 2],
    size: u16,
    /// Free descriptors, used from the end, so that chains are linked in every order.
    free: Vec<u16>,
    chains: Vec<(u16, Vec<u16>)>,
    available: u16,
    salt: u64,
}

impl RawDriver {
    fn put(&self, at: usize, bytes: &[u8]) {
        for arena in &self.arenas {
            arena.ring_bytes().slice(at, bytes.len()).write(bytes);
        }
    }

    fn add(&mut self, readable: u16, writable: u16, indirect: bool) {
        let count = readable + writable;
        let needs = if indirect { 1 } else { count };
        if usize::from(needs) > self.free.len() {
            return;
        }
        let indexes = self.free.split_off(self.free.len() - usize::from(needs));
        let salt = self.salt;
        self.salt += 1;
        let piece = |i: u16, last: bool, next: u16| {
            let flags = if i >= readable { 2 } else { 0 } | if last { 0 } else { 1 };
            let address = DATA + (salt * 64 + u64::from(i) * 5) % 4000;
            descriptor(address, 1 + (salt as u32 + u32::from(i)) % 30, flags, next)
        };
        let head = indexes[0];
        if indirect {
            let table = u64::from(head) * 128;
            for i in 0..count {
                let bytes = piece(i, i + 1 == count, i + 1);
                for arena in &self.arenas {
                    arena.table_bytes().slice(table as usize + 16 * usize::from(i), 16).write(&bytes);
                }
            }
            let bytes = descriptor(TABLES + table, 16 * u32::from(count), 4, 0);
            self.put(16 * usize::from(head), &bytes);
        } else {
            for (i, &index) in indexes.iter().enumerate() {
                let next = indexes.get(i + 1);
                let bytes = piece(i as u16, next.is_none(), next.copied().unwrap_or(0));
                self.put(16 * usize::from(index), &bytes);
            }
        }
        let area = self.arenas[0].driver_area_offset();
        self.put(area + 4 + 2 * usize::from(self.available % self.size), &head.to_le_bytes());
        self.available = self.available.wrapping_add(1);
        self.put(area + 2, &self.available.to_le_bytes());
        self.chains.push((head, indexes));
    }
}

type Pieces = Vec<(u64, u32, bool)>;

/// What our half lends, said in guest addresses.
fn ours(arena: &Arena, burst: &Burst, from: usize) -> Vec<(u16, Pieces)> {
    let region = arena.space.regions().iter().find(|r| r.guest_base() == DATA).unwrap();
    let base = memory::SharedSlice::of_mapping(region.mapping()).as_ptr() as u64;
    (from..burst.len())
        .map(|i| {
            let chain = burst.chain(i);
            let said = |slice: &memory::SharedSlice<'_>, write| {
                (slice.as_ptr() as u64 - base + DATA, slice.len_bytes() as u32, write)
            };
            let readable = chain.readable().iter().map(|slice| said(slice, false));
            (chain.id(), readable.chain(chain.writable().iter().map(|slice| said(slice, true))).collect())
        })
        .collect()
}

fn run(size: u16, event_idx: bool, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let features = RingFeatures { event_idx, indirect: true, ..RingFeatures::plain(RingLayout::Split) };
    let arenas = [(); 2].map(|()| Arena::new(features, size.into(), 1 << 14));
    let mut device: Box<dyn DeviceQueue> = arenas[0].device();
    let (memory, mut theirs) = foreign_device(&arenas[1], event_idx)?;

    let mut driver =
        RawDriver { arenas, size, free: (0..size).collect(), chains: Vec::new(), available: 0, salt: 0 };
    let mut bursts: Vec<Burst> = Vec::new();
    let used_at = driver.arenas[0].device_area_offset();
    for step in steps {
        match step {
            Step::Add { readable, writable, indirect } => driver.add(readable, writable, indirect),
            Step::Take(max) => {
                let mut burst = Burst::new(max);
                let taken = device.pop(&mut burst, max).unwrap();
                let mut expected = Vec::new();
                for _ in 0..max {
                    let Some(chain) = theirs.iter(&memory).unwrap().next() else { break };
                    let head = chain.head_index();
                    expected.push((head, chain.map(|d| (d.addr().0, d.len(), d.is_write_only())).collect()));
                }
                prop_assert_eq!(taken, expected.len());
                prop_assert_eq!(ours(&driver.arenas[0], &burst, 0), expected);
                bursts.push(burst);
            }
            Step::Complete(which, written) => {
                let open: Vec<(usize, usize)> = (0..bursts.len())
                    .flat_map(|b| (0..bursts[b].len()).map(move |i| (b, i)))
                    .filter(|&(b, i)| !bursts[b].chain(i).is_done())
                    .collect();
                if open.is_empty() {
                    continue;
                }
                let (b, i) = open[which % open.len()];
                bursts[b].set_written(i, written);
                let written = written.min(bursts[b].chain(i).writable_bytes());
                let id = bursts[b].chain(i).id();
                device.add_used(&mut bursts[b], i..i + 1);
                theirs.add_used(&memory, id, written).unwrap();
                let at = driver.chains.iter().position(|(head, _)| *head == id).unwrap();
                let (_, indexes) = driver.chains.remove(at);
                driver.free.extend(indexes);
            }
            Step::NeedsCall => {
                // `virtio-queue` knows no VIRTQ_AVAIL_F_NO_INTERRUPT and answers yes also when nothing
                // was used since; there our answer may be the finer one.
                let used = device.position();
                let (a, b) = (device.needs_call(), theirs.needs_notification(&memory).unwrap());
                prop_assert!(!a || b, "a call that virtio-queue would not make, at {:?}", used);
                if event_idx {
                    prop_assert_eq!(a, b);
                }
            }
            Step::UsedEvent(ahead) => {
                let virtqueue::Position::Split { next_used, .. } = device.position() else { unreachable!() };
                let at = driver.arenas[0].driver_area_offset() + 4 + 2 * usize::from(size);
                driver.put(at, &next_used.wrapping_add(ahead).to_le_bytes());
            }
            Step::EnableKicks => {
                prop_assert_eq!(device.enable_kicks(), theirs.enable_notification(&memory).unwrap());
            }
        }
        // Both guests' used rings hold the same bytes.
        let bytes = |arena: &Arena| {
            let mut bytes = vec![0; 6 + 8 * usize::from(size)];
            arena.ring_bytes().slice(used_at, bytes.len()).read(&mut bytes);
            bytes
        };
        prop_assert_eq!(bytes(&driver.arenas[0]), bytes(&driver.arenas[1]));
        prop_assert_eq!(device.position().to_vring_base(), u32::from(Wrapping(theirs.next_avail()).0));
    }
    Ok(())
}

/// The device half of `virtio-queue` over an arena's ring.
fn foreign_device(arena: &Arena, event_idx: bool) -> Result<(GuestMemoryMmap, Queue), TestCaseError> {
    let size = arena.config.size as u16;
    let ranges: Vec<_> = arena
        .files
        .iter()
        .map(|(guest, bytes, file)| {
            let file = FileOffset::new(file.try_clone().unwrap(), 0);
            (GuestAddress(*guest), *bytes as usize, Some(file))
        })
        .collect();
    let memory: GuestMemoryMmap = GuestMemoryMmap::from_ranges_with_files(ranges).unwrap();
    let mut theirs = Queue::new(size).unwrap();
    theirs.set_size(size);
    let low = |address: memory::Address| Some(address.value() as u32);
    theirs.set_desc_table_address(low(arena.config.descriptors), Some(0));
    theirs.set_avail_ring_address(low(arena.config.driver_area), Some(0));
    theirs.set_used_ring_address(low(arena.config.device_area), Some(0));
    theirs.set_event_idx(event_idx);
    theirs.set_ready(true);
    prop_assert!(theirs.is_valid(&memory));
    Ok((memory, theirs))
}

/// Our driver half served by `virtio-queue`: what it finds is what was asked, in every shape, and what it
/// gives back, in any order, comes back.
fn serve(size: u16, indirect: bool, rounds: Vec<Vec<(u16, u16, usize)>>) -> Result<(), TestCaseError> {
    let features = RingFeatures { indirect, ..RingFeatures::plain(RingLayout::Split) };
    let arena = Arena::new(features, size.into(), 1 << 14);
    let mut driver = arena.driver();
    let (memory, mut theirs) = foreign_device(&arena, false)?;
    let mut open: Vec<(u32, u16, u32)> = Vec::new();
    let mut cookie = 0;
    for round in rounds {
        for (readable, writable, give_back) in round {
            let piece = |i: u16| Piece {
                address: DATA + u64::from(cookie * 7 % 500) + 8 * u64::from(i),
                len: 1 + (cookie + u32::from(i)) % 8,
            };
            let from: Vec<Piece> = (0..readable).map(piece).collect();
            let into: Vec<Piece> = (readable..readable + writable).map(piece).collect();
            if driver.add_requests(&[Request { readable: &from, writable: &into, cookie }]) == 1 {
                let chain = theirs.iter(&memory).unwrap().next().expect("what was added is found");
                let head = chain.head_index();
                let found: Pieces = chain.map(|d| (d.addr().0, d.len(), d.is_write_only())).collect();
                let asked = from.iter().map(|p| (p.address, p.len, false));
                let asked: Pieces = asked.chain(into.iter().map(|p| (p.address, p.len, true))).collect();
                prop_assert_eq!(found, asked);
                open.push((cookie, head, into.iter().map(|p| p.len).sum()));
                cookie += 1;
            }
            if open.len() > give_back {
                let (expected, head, written) = open.remove(give_back);
                theirs.add_used(&memory, head, written).unwrap();
                let mut used = Vec::new();
                prop_assert_eq!(driver.reclaim(&mut used, 8), Ok(1));
                prop_assert_eq!(used[0], Used { cookie: expected, written });
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, ..ProptestConfig::default() })]

    #[test]
    fn both_device_halves_agree(
        size in (0u32..6).prop_map(|n| 1u16 << n),
        event_idx: bool,
        steps in prop::collection::vec(any_step(), 1..120),
    ) {
        run(size, event_idx, steps)?;
    }

    #[test]
    fn a_foreign_device_serves_our_driver_half(
        size in (0u32..6).prop_map(|n| 1u16 << n),
        indirect: bool,
        rounds in prop::collection::vec(
            prop::collection::vec((0u16..4, 0u16..4, 0usize..6), 1..20),
            1..6,
        ),
    ) {
        serve(size, indirect, rounds)?;
    }
}
