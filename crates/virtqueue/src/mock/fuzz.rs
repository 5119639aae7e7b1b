//! Harnesses that turn bytes into a hostile peer, for every fuzzer and for the replay of the corpus.
//!
//! An input names a queue and then has a script: what the peer writes to the rings, and what our half does in
//! between. The harness panics if our half trusts the peer too much: a slice outside the guest's memory, a buffer
//! returned twice, more work than the queue is long, a stopped ring that continues.

use std::collections::HashSet;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use memory::SharedSlice;

use super::{Arena, DATA, TABLES};
use crate::{
    Buffer, Burst, DeviceQueue, Direction, DriverQueue, Piece, PopError, Request, RingFeatures, RingLayout,
};

/// Which half is hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The driver is hostile, and our device half is tested.
    HostileDriver,
    /// The device is hostile, and our driver half is tested.
    HostileDevice,
}

/// Queue sizes of each layout that scripts choose from.
const SIZES: [[u32; 8]; 2] = [[1, 2, 4, 8, 16, 16, 32, 64], [1, 2, 3, 4, 5, 8, 13, 37]];
const DATA_BYTES: u64 = 16384;

/// The memory for scripts. It is made once, because mapping memory costs more than a script.
pub struct Harness {
    arenas: [Vec<Arena>; 2],
}

impl Default for Harness {
    fn default() -> Self {
        Self::new()
    }
}

/// Takes a script apart; past its end everything is 0.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn byte(&mut self) -> u8 {
        let (&first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        first
    }

    fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        bytes
    }
}

impl Harness {
    /// Memory for every layout and size.
    pub fn new() -> Self {
        let arenas = [RingLayout::Split, RingLayout::Packed].map(|layout| {
            // With INDIRECT, so that there are tables whatever the script negotiates.
            let features = RingFeatures { indirect: true, ..RingFeatures::plain(layout) };
            SIZES[layout as usize].iter().map(|&size| Arena::new(features, size, DATA_BYTES)).collect()
        });
        Harness { arenas }
    }

    /// The harness of a fuzz target, held by `own`. With `FUZZ_CONCURRENT` set, a thread overwrites the rings during
    /// each script.
    pub fn of_target(own: &'static LazyLock<Harness>) -> Self {
        if std::env::var_os("FUZZ_CONCURRENT").is_some() {
            std::thread::spawn(|| own.scribble(&AtomicBool::new(false), 1));
        }
        Self::new()
    }

    /// Runs one script.
    pub fn run(&self, target: Target, script: &[u8]) {
        let mut script = Script(script);
        let choice = script.byte();
        let layout = if choice & 1 == 0 { RingLayout::Split } else { RingLayout::Packed };
        let features = RingFeatures {
            event_idx: choice & 2 != 0,
            indirect: choice & 4 != 0,
            in_order: choice & 8 != 0,
            ..RingFeatures::plain(layout)
        };
        let arena = &self.arenas[layout as usize][usize::from(choice >> 4) % 8];
        let mut config = arena.config.clone();
        config.features = features;
        match target {
            Target::HostileDriver => {
                zero(arena.ring_bytes());
                zero(arena.table_bytes());
                let queue = config.activate_device(&arena.space, Default::default());
                hostile_driver(
                    arena,
                    queue.expect("the harness's rings are sound").as_mut(),
                    features,
                    script,
                );
            }
            Target::HostileDevice => {
                let tables =
                    features.indirect.then_some((memory::Address::Guest(TABLES), super::TABLE_ENTRIES));
                zero(arena.ring_bytes());
                let queue = config.activate_driver(&arena.space, tables);
                hostile_device(arena, queue.expect("the harness's rings are sound").as_mut(), script);
            }
        }
    }

    /// Overwrites all rings and tables until `stop` is set, as a peer that writes at any time.
    pub fn scribble(&self, stop: &AtomicBool, seed: u64) {
        let mut random = seed | 1;
        let mut next = move || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        while !stop.load(Ordering::Relaxed) {
            for arena in self.arenas.iter().flatten() {
                for memory in [arena.ring_bytes(), arena.table_bytes()] {
                    for _ in 0..4 {
                        let (at, value) = (next() as usize % memory.len_bytes(), next());
                        let len = [1, 2, 4, 8][next() as usize % 4];
                        memory.slice(at, len).write(&value.to_le_bytes());
                    }
                }
            }
        }
    }
}

fn zero(memory: SharedSlice<'_>) {
    const ZEROS: [u8; 256] = [0; 256];
    for at in (0..memory.len_bytes()).step_by(ZEROS.len()) {
        memory.slice(at, ZEROS.len()).write(&ZEROS);
    }
}

/// The peer writes: raw bytes anywhere, or words that look right enough to be followed.
fn scribble_once(arena: &Arena, kind: u8, script: &mut Script<'_>) {
    let ring = arena.ring_bytes();
    let size = arena.config.size as usize;
    let (driver, device) = (arena.driver_area_offset(), arena.device_area_offset());
    match kind % 8 {
        0 => {
            let at = usize::from(script.word()) % ring.len_bytes();
            let len = usize::from(script.byte() % 32);
            ring.slice(at, len).write(script.bytes(len));
        }
        1 | 2 => {
            // A plausible descriptor: an address in the data regions, near their joint or at an end.
            let slot = usize::from(script.byte());
            let shape = script.byte();
            let base = match shape & 3 {
                0 => DATA + u64::from(script.word()) % DATA_BYTES,
                1 => DATA + DATA_BYTES / 2 - u64::from(script.byte()),
                2 => DATA + DATA_BYTES - u64::from(script.byte()),
                _ => TABLES + u64::from(script.byte()) * 16,
            };
            let len = if shape & 4 == 0 { u32::from(script.byte()) } else { u32::from(script.byte()) * 16 };
            let words = (script.word(), script.word());
            let mut descriptor = [0; 16];
            descriptor[..8].copy_from_slice(&base.to_le_bytes());
            descriptor[8..12].copy_from_slice(&len.to_le_bytes());
            descriptor[12..14].copy_from_slice(&words.0.to_le_bytes());
            descriptor[14..].copy_from_slice(&words.1.to_le_bytes());
            let memory = if kind & 8 == 0 { ring } else { arena.table_bytes() };
            let slots = if kind & 8 == 0 { size } else { memory.len_bytes() / 16 };
            memory.slice(slot % slots * 16, 16).write(&descriptor);
        }
        3 => {
            // The available index moves on by a little, entries as they come (split).
            let (entry, head) = (script.byte(), script.byte());
            ring.slice(driver + 4 + 2 * (usize::from(entry) % size), 2).write(&[head, 0]);
            bump(ring, driver + 2, script.byte());
        }
        4 => {
            // A used entry (split), and the index with it.
            let (entry, id, len) = (script.byte(), script.byte(), script.byte());
            let at = device + 4 + 8 * (usize::from(entry) % size);
            ring.slice(at, 8).write(&[id, 0, 0, 0, len, 0, 0, 0]);
            bump(ring, device + 2, script.byte());
        }
        5 => {
            // Wrap bits of a slot's flags (packed).
            let at = usize::from(script.byte()) % size * 16;
            ring.slice(at + 14, 2).write(&script.word().to_le_bytes());
        }
        6 => {
            let area = if script.byte() & 1 == 0 { driver } else { device };
            ring.slice(area, 4).write(script.bytes(4));
        }
        _ => {
            // An id and a length (packed).
            let at = usize::from(script.byte()) % size * 16;
            ring.slice(at + 8, 6).write(&[script.byte(), 0, 0, 0, script.byte(), 0]);
        }
    }
}

fn bump(ring: SharedSlice<'_>, at: usize, by: u8) {
    let mut index = [0; 2];
    ring.slice(at, 2).read(&mut index);
    let by = if by < 0xf0 { u16::from(by % 5) } else { u16::from(by) << 8 };
    ring.slice(at, 2).write(&u16::from_le_bytes(index).wrapping_add(by).to_le_bytes());
}

/// Every slice must lie in the guest's memory, and add up.
fn check_chains(arena: &Arena, burst: &Burst, from: usize) {
    for index in from..burst.len() {
        let chain = burst.chain(index);
        for (slices, total) in
            [(chain.readable(), chain.readable_bytes()), (chain.writable(), chain.writable_bytes())]
        {
            let mut sum = 0;
            for slice in slices {
                let inside = arena.space.regions().iter().any(|region| {
                    let all = SharedSlice::of_mapping(region.mapping());
                    let offset = (slice.as_ptr() as usize).wrapping_sub(all.as_ptr() as usize);
                    offset <= all.len_bytes() && slice.len_bytes() <= all.len_bytes() - offset
                });
                assert!(inside, "a slice outside the guest's memory: {slice:?}");
                sum += slice.len_bytes();
                let mut ends = [0; 1];
                slice.read(&mut ends);
                slice.slice(slice.len_bytes() - 1, 1).read(&mut ends);
            }
            assert_eq!(sum, total as usize);
        }
    }
}

fn hostile_driver(
    arena: &Arena,
    queue: &mut dyn DeviceQueue,
    features: RingFeatures,
    mut script: Script<'_>,
) {
    let mut bursts = [Burst::new(8), Burst::new(8)];
    let size = usize::from(queue.size().get());
    while !script.0.is_empty() {
        let step = script.byte();
        match step % 16 {
            0..=7 => scribble_once(arena, step >> 3, &mut script),
            8..=10 => {
                let which = if features.in_order { 0 } else { usize::from(step >> 4) & 1 };
                let burst = &mut bursts[which];
                let (before, room) = (burst.len(), burst.capacity());
                let all_done = burst.open() == 0;
                match queue.pop(burst, usize::from(script.byte() % 12)) {
                    Ok(taken) => {
                        let from = if all_done { 0 } else { before };
                        assert_eq!(burst.len() - from, taken);
                        assert!(burst.len() <= room);
                        check_chains(arena, burst, from);
                    }
                    Err(PopError::Malformed(error)) => {
                        assert_eq!(queue.broken(), Some(error));
                        assert!(!error.to_string().is_empty());
                    }
                    Err(PopError::Miss { .. }) => unreachable!("there is no IOTLB"),
                }
                let open: usize = bursts.iter().map(Burst::open).sum();
                assert!(open <= size, "{open} chains of a queue of {size} at once");
            }
            11 | 12 => {
                let which = if features.in_order { 0 } else { usize::from(step >> 4) & 1 };
                let burst = &mut bursts[which];
                let open: Vec<usize> = (0..burst.len()).filter(|&i| !burst.chain(i).is_done()).collect();
                let Some(&first) = open.first() else { continue };
                let count = usize::from(script.byte()) % (open.len() + 1);
                let start = if features.in_order {
                    first
                } else {
                    open[open.len() - count..][..].first().copied().unwrap_or(first)
                };
                let end = (start + count).min(burst.len());
                for i in start..end {
                    burst.set_written(i, u32::from(script.byte()) * 8);
                }
                queue.add_used(burst, start..end);
            }
            13 => {
                let burst = &mut bursts[usize::from(step >> 4) & 1];
                queue.rewind(burst, usize::from(script.byte() % 8));
            }
            14 => {
                let _ = queue.needs_call();
            }
            _ => {
                if step & 16 == 0 {
                    queue.disable_kicks();
                } else {
                    let _ = queue.enable_kicks();
                }
            }
        }
    }
}

fn hostile_device(arena: &Arena, queue: &mut dyn DriverQueue, mut script: Script<'_>) {
    let size = queue.size().get();
    let mut outstanding = HashSet::new();
    let mut lengths = Vec::new();
    let mut used = Vec::new();
    while !script.0.is_empty() {
        let step = script.byte();
        match step % 16 {
            0..=7 => scribble_once(arena, step >> 3, &mut script),
            8 | 9 => {
                let direction = if step & 16 == 0 { Direction::ToDevice } else { Direction::FromDevice };
                let len = u32::from(script.byte());
                let buffers: Vec<Buffer> = (0..script.byte() % 9)
                    .map(|i| Buffer { address: DATA, len, cookie: lengths.len() as u32 + u32::from(i) })
                    .collect();
                let added = queue.add(&buffers, direction);
                for buffer in &buffers[..added] {
                    outstanding.insert(buffer.cookie);
                    lengths.push(if direction == Direction::FromDevice { len } else { 0 });
                }
            }
            10 => {
                let piece = Piece { address: DATA, len: u32::from(script.byte()) };
                let pieces = [piece; 9];
                let shape = script.byte();
                let (readable, writable) = (usize::from(shape & 7), usize::from(shape >> 4 & 7));
                let request = Request {
                    readable: &pieces[..readable],
                    writable: &pieces[..writable],
                    cookie: lengths.len() as u32,
                };
                if queue.add_requests(&[request]) == 1 {
                    outstanding.insert(request.cookie);
                    lengths.push(piece.len * writable as u32);
                }
            }
            11..=13 => {
                used.clear();
                let before = outstanding.len();
                let _ = queue.reclaim(&mut used, usize::from(script.byte() % 12));
                assert!(used.len() <= before);
                for used in &used {
                    assert!(outstanding.remove(&used.cookie), "cookie {} came back twice", used.cookie);
                    assert!(used.written <= lengths[used.cookie as usize]);
                }
            }
            14 => {
                let _ = queue.needs_kick();
            }
            _ => match step >> 4 {
                0 => queue.disable_calls(),
                1..=14 => {
                    let _ = queue.enable_calls();
                }
                _ => {
                    let mut left = queue.reset();
                    left.sort_unstable();
                    let mut expected: Vec<u32> = outstanding.drain().collect();
                    expected.sort_unstable();
                    assert_eq!(left, expected);
                    assert_eq!(queue.free_descriptors(), size);
                }
            },
        }
    }
}
