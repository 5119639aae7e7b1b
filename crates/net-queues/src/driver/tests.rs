//! Both halves of a device's queues in one thread: the driver half, which is tested, and a device half.
use std::sync::Arc;

use frame::{
    DropReason, FrameBatch, LARGEST_FRAME_BYTES, QueueCounters, QueueError, SNAPSHOT_BYTES, Sink, Source,
};
use memory::{Access, AddressSpace, Region, RegionRange, SharedSlice, Translator, sealed_memfd};
use vhost_device::EventFd;
use virtio::net::{Accepts, HeaderLayout, NetHeader};
use virtqueue::{Burst, DeviceOptions, DeviceQueue, RingFeatures, RingLayout};

use super::*;
use crate::cache_policy::CopyTuner;
use crate::device::{ToGuest, ToGuestOptions};

mod hostile;

const RECEIVEQ: usize = 0;
const TRANSMITQ: usize = 1;
const SIZE: u16 = 16;
const BUFFER_BYTES: u32 = 1088;

fn every_feature() -> impl Iterator<Item = RingFeatures> {
    (0..16).map(|bits| RingFeatures {
        event_idx: bits & 1 != 0,
        indirect: bits & 2 != 0,
        in_order: bits & 4 != 0,
        ..RingFeatures::plain(if bits & 8 != 0 { RingLayout::Packed } else { RingLayout::Split })
    })
}

struct Rig {
    memory: DriverMemory,
    features: RingFeatures,
    receive: Receive,
    transmit: Transmit,
    /// The device's halves.
    fills: Box<dyn DeviceQueue>,
    takes: Box<dyn DeviceQueue>,
}

impl Rig {
    fn new(features: RingFeatures, mergeable: bool) -> Self {
        Self::of_size(SIZE, features, mergeable)
    }

    fn of_size(size: u16, features: RingFeatures, mergeable: bool) -> Self {
        let shape = QueueShape {
            layout: features.layout,
            size,
            buffers: size,
            buffer_bytes: BUFFER_BYTES,
            table_entries: if features.indirect { 61 } else { 0 },
        };
        let memory = DriverMemory::new(Pages::Small, &[shape, shape]).unwrap();
        let driver = |queue| memory.driver(queue, features).unwrap();
        let device = |queue| {
            let config = memory.config(queue, features);
            config.activate_device(memory.space(), DeviceOptions::default()).unwrap()
        };
        let event = || EventFd::new().unwrap();
        let counters = Arc::<QueueCounters>::default;
        let receive = Receive::new(
            driver(RECEIVEQ),
            event(),
            event(),
            memory.buffers(RECEIVEQ),
            memory.space(),
            mergeable,
            counters(),
        );
        let (queue, buffers) = (driver(TRANSMITQ), memory.buffers(TRANSMITQ));
        let transmit = Transmit::new(queue, event(), buffers, Accepts::NOTHING, counters());
        let (fills, takes) = (device(RECEIVEQ), device(TRANSMITQ));
        Rig { memory, features, receive, transmit, fills, takes }
    }

    /// The device reads everything that was sent, header included.
    fn sent(&mut self) -> Vec<Vec<u8>> {
        let mut burst = Burst::new(64);
        self.takes.pop(&mut burst, 64).unwrap();
        let read = |chain: virtqueue::ChainRef<'_>| {
            let mut bytes = vec![0; chain.readable_bytes() as usize];
            chain.read(0, &mut bytes);
            bytes
        };
        let frames = burst.chains().map(read).collect();
        self.takes.add_used_all(&mut burst);
        frames
    }

    /// The device fills one buffer with each of these and uses them together.
    fn fill(&mut self, buffers: &[Vec<u8>]) {
        let mut burst = Burst::new(64);
        assert_eq!(self.fills.pop(&mut burst, buffers.len()).unwrap(), buffers.len(), "posted buffers");
        for (i, bytes) in buffers.iter().enumerate() {
            assert_eq!(burst.chain(i).write(0, bytes), bytes.len());
            burst.set_written(i, bytes.len() as u32);
        }
        self.fills.add_used_all(&mut burst);
    }

    /// The frames of one burst.
    fn received(&mut self, max: usize) -> Vec<Vec<u8>> {
        let batch = self.receive.rx_burst(max).unwrap();
        let frames = batch.frames().map(bytes_of).collect();
        if self.receive.needs_release() {
            self.receive.release();
        }
        frames
    }

    fn receive_drops(&self, reason: DropReason) -> u64 {
        self.receive.counters().drops(reason)
    }

    /// Writes to a ring's device area as no device should.
    fn scribble(&self, queue: usize, offset: u64, bytes: &[u8]) {
        let at = self.memory.config(queue, self.features).device_area.value() - self.memory.range().0;
        let mapping = self.memory.space().regions()[0].mapping();
        SharedSlice::of_mapping(mapping).slice((at + offset) as usize, bytes.len()).write(bytes);
    }
}

fn bytes_of(frame: frame::Frame<'_>) -> Vec<u8> {
    let mut bytes = frame.snapshot().to_vec();
    bytes.resize(frame.len_bytes(), 0);
    let (slices, skip) = frame.slices();
    let rest = bytes.get_mut(SNAPSHOT_BYTES..).unwrap_or_default();
    memory::SgList::new(slices).skip(skip + SNAPSHOT_BYTES).read(rest);
    bytes
}

fn frame(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(7) ^ (i >> 8) as u8 ^ seed).collect()
}

fn header(num_buffers: u16) -> Vec<u8> {
    NetHeader { num_buffers, ..NetHeader::default() }.to_bytes().to_vec()
}

/// A frame as the device writes it, cut to what the buffers hold.
fn merged(frame: &[u8]) -> Vec<Vec<u8>> {
    let count = (12 + frame.len()).div_ceil(BUFFER_BYTES as usize);
    let mut whole = header(count as u16);
    whole.extend_from_slice(frame);
    whole.chunks(BUFFER_BYTES as usize).map(<[u8]>::to_vec).collect()
}

/// Frames for a sink, in memory of a sender.
fn batch_of(frames: &[Vec<u8>]) -> FrameBatch {
    filled(FrameBatch::of_memory(frames.len()), frames)
}

fn filled(mut batch: FrameBatch, frames: &[Vec<u8>]) -> FrameBatch {
    let bytes = (frames.len() * 70_000) as u64;
    let file = sealed_memfd(c"sender", bytes).unwrap();
    let space = AddressSpace::from_regions([Region::map(&file, RegionRange::at(0, bytes)).unwrap()]).unwrap();
    let space = Arc::new(space);
    let memory = SharedSlice::of_mapping(space.regions()[0].mapping());
    let mut translator = Translator::new(Arc::clone(&space));
    for (i, frame) in frames.iter().enumerate() {
        let at = i * 70_000;
        memory.slice(at, 12).write(&header(1));
        memory.slice(at + 12, frame.len()).write(frame);
        let arena = batch.arena_mut().unwrap();
        let first = arena.len();
        translator.builder(arena).push(at as u64, 12 + frame.len() as u32, Access::Read).unwrap();
        batch.push(first, HeaderLayout::Full).unwrap();
    }
    batch
}

fn all(batch: &FrameBatch) -> Vec<u16> {
    (0..batch.len() as u16).collect()
}

#[test]
fn frames_of_one_buffer_and_of_several_reach_the_device_in_order() {
    for features in every_feature() {
        let mut rig = Rig::new(features, false);
        for round in 0..40 {
            let lengths = [14, 60, 64, 65, 1076, 1077, 3000, 61, 1514];
            let frames: Vec<_> = lengths.iter().map(|len| frame(round, *len)).collect();
            let batch = batch_of(&frames);
            rig.transmit.accept(&batch, &all(&batch)).unwrap();
            let sent = rig.sent();
            assert_eq!(sent.len(), frames.len(), "round {round}, {features:?}");
            for (sent, frame) in sent.iter().zip(&frames) {
                assert_eq!(sent[..12], header(0), "num_buffers is the device's");
                assert!(sent[12..] == frame[..], "{} bytes, round {round}, {features:?}", frame.len());
            }
        }
        let counts = rig.transmit.counters().counts();
        assert_eq!((counts.frames, counts.dropped()), (360, 0));
        assert_eq!(counts.bytes, 40 * (14 + 60 + 64 + 65 + 1076 + 1077 + 3000 + 61 + 1514));
    }
}

/// A device of ours copies by temporal and by non-temporal stores, and by both in turns when it compares them: no
/// driver sees a difference.
#[test]
fn the_copy_policy_is_not_to_be_seen() {
    const BURST: usize = 32;
    for features in every_feature() {
        for non_temporal in [false, true] {
            let mut rig = Rig::of_size(64, features, false);
            let device = rig.memory.config(RECEIVEQ, features);
            let device = device.activate_device(rig.memory.space(), DeviceOptions::default()).unwrap();
            let options = ToGuestOptions {
                layout: HeaderLayout::Full,
                accepts: Accepts::NOTHING,
                mergeable: false,
                max_frame_bytes: None,
            };
            let mut fills = ToGuest::new(device, options, None, true, Arc::default());
            fills.set_copy_tuner(CopyTuner::for_test(non_temporal));
            // One of them fits no buffer.
            let frames: Vec<_> = (0..BURST).map(|i| frame(i as u8, 256 + 25 * i)).collect();
            let lengths = [60, 1076, 3000, 64, 700, 65];
            let mixed: Vec<_> = lengths.iter().map(|len| frame(9, *len)).collect();
            let fit = |frames: &[Vec<u8>]| -> Vec<_> {
                frames.iter().filter(|frame| frame.len() < 1077).cloned().collect()
            };
            let bursts = [&frames, &mixed].map(|frames| (batch_of(frames), fit(frames)));
            for round in 0..300 {
                let (batch, fit) = &bursts[usize::from(round % 40 == 0)];
                fills.accept(batch, &all(batch)).unwrap();
                assert!(rig.received(64) == *fit, "round {round}, {features:?}, {non_temporal}");
            }
        }
    }
}

/// Two generators take turns with another source: the content of a buffer from one generator never counts as the
/// other's.
#[test]
fn frames_made_of_images_reach_the_device_whole_with_a_head_of_their_own() {
    const LENGTHS: [usize; 7] = [60, 65, 1076, 300, 3000, 65, 1076];
    for features in every_feature() {
        let mut rig = Rig::new(features, false);
        // Frames of one length are the same behind their snapshots.
        let of = |seed: u8| LENGTHS.map(|len| frame(seed, len));
        let images = [1, 2].map(|seed| filled(FrameBatch::of_images(LENGTHS.len()), &of(seed)));
        let other = batch_of(&of(3));
        let mut images = images.map(|batch| (batch, 0u8));
        let mut random = 1u64;
        for round in 0..300 {
            // Any turn may follow any other: a fixed sequence without a short period.
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let (seed, stamp, batch) = match (random >> 60) as usize % 3 {
                turn @ 0..2 => {
                    let (batch, stamp) = &mut images[turn];
                    *stamp = stamp.wrapping_add(1);
                    (0..LENGTHS.len()).for_each(|i| batch.snapshot_mut(i)[20] = *stamp);
                    (turn as u8 + 1, Some(*stamp), &*batch)
                }
                _ => (3, None, &other),
            };
            // The one that takes several buffers comes now and then, also where each holds the same length.
            let which: &[u16] = match random >> 40 & 3 {
                0 => &[4, 0, 3],
                1 => &[2, 4, 6],
                2 => &[6, 2, 6, 2, 6, 2],
                _ => &[0, 3, 1, 2, 5, 6],
            };
            rig.transmit.accept(batch, which).unwrap();
            let sent = rig.sent();
            assert_eq!(sent.len(), which.len());
            for (sent, &which) in sent.iter().zip(which) {
                let mut expected = frame(seed, LENGTHS[usize::from(which)]);
                expected[20] = stamp.unwrap_or(expected[20]);
                assert!(sent[12..] == expected[..], "{} bytes, round {round}, {features:?}", expected.len());
            }
        }
        assert_eq!(rig.transmit.counters().counts().dropped(), 0);
    }
}

#[test]
fn only_the_frames_that_are_named_go_out() {
    let mut rig = Rig::new(RingFeatures::plain(RingLayout::Packed), false);
    let frames: Vec<_> = (0..4).map(|seed| frame(seed, 60)).collect();
    rig.transmit.accept(&batch_of(&frames), &[3, 1]).unwrap();
    let sent = rig.sent();
    assert_eq!(sent.iter().map(|bytes| &bytes[12..]).collect::<Vec<_>>(), [&frames[3][..], &frames[1]]);
}

#[test]
fn a_device_that_does_not_read_costs_drops_and_no_buffer() {
    for features in every_feature() {
        let mut rig = Rig::new(features, false);
        let batch = batch_of(&(0..20).map(|seed| frame(seed, 100)).collect::<Vec<_>>());
        for round in 1..=5 {
            rig.transmit.accept(&batch, &all(&batch)).unwrap();
            assert_eq!(rig.transmit.counters().drops(DropReason::ReceiverFull), 4 * round, "{features:?}");
            assert_eq!(rig.sent().len(), 16, "{features:?}");
        }
    }
}

/// 65550 bytes take 61 buffers; there are 16.
#[test]
fn a_frame_of_more_buffers_than_there_are_is_dropped_and_harms_nothing() {
    for features in every_feature() {
        let mut rig = Rig::new(features, false);
        let batch = batch_of(&[frame(1, 60), frame(2, 65550), frame(3, 61)]);
        for _ in 0..3 {
            rig.transmit.accept(&batch, &all(&batch)).unwrap();
            let lengths: Vec<_> = rig.sent().iter().map(Vec::len).collect();
            assert_eq!(lengths, [72, 73], "{features:?}");
        }
        assert_eq!(rig.transmit.counters().drops(DropReason::ReceiverFull), 3);
    }
}

#[test]
fn frames_of_one_buffer_and_of_several_arrive() {
    for features in every_feature() {
        let mut rig = Rig::new(features, true);
        for round in 0..40 {
            let frames: Vec<_> = [60, 1076, 1077, 3000, 14, 1514].map(|len| frame(round, len)).to_vec();
            let buffers: Vec<_> = frames.iter().flat_map(|frame| merged(frame)).collect();
            rig.fill(&buffers);
            // One burst looks at four buffers at least.
            let bursts: Vec<_> = (0..3).map(|_| rig.received(4)).collect();
            assert!(bursts.iter().all(|burst| burst.len() <= 4));
            assert!(bursts.concat() == frames, "round {round}, {features:?}");
            // A frame of more buffers than a burst has frames.
            rig.fill(&merged(&frames[3]));
            assert!(rig.received(1) == frames[3..4], "round {round}, {features:?}");
            assert!(rig.received(4).is_empty());
        }
        let counts = rig.receive.counters().counts();
        assert_eq!((counts.frames, counts.dropped()), (280, 0));
    }
}

/// With IN_ORDER one used entry stands for many buffers: more than are asked for may come at once.
#[test]
fn no_burst_is_longer_than_was_asked_for() {
    for features in every_feature() {
        let mut rig = Rig::new(features, false);
        let whole = |seed| [header(0), frame(seed, BUFFER_BYTES as usize - 12)].concat();
        rig.fill(&(0..16).map(whole).collect::<Vec<_>>());
        let mut seeds = Vec::new();
        for expected in [5, 5, 5, 1, 0] {
            let frames = rig.received(5);
            assert_eq!(frames.len(), expected, "{features:?}");
            seeds.extend(frames.iter().map(|frame| frame[0]));
        }
        assert_eq!(seeds, (0..16).collect::<Vec<_>>());
    }
}

/// However long the device is ahead: nothing grows.
#[test]
fn a_backlog_needs_no_more_memory() {
    let features = RingFeatures { in_order: true, ..RingFeatures::plain(RingLayout::Packed) };
    let mut rig = Rig::new(features, false);
    let full = [header(0), frame(0, BUFFER_BYTES as usize - 12)].concat();
    let before = rig.receive.capacity();
    rig.fill(&vec![full.clone(); 16]);
    for _ in 0..100 {
        assert_eq!(rig.received(7).len(), 7);
        rig.fill(&vec![full.clone(); 7]);
    }
    assert_eq!(rig.receive.capacity(), before);
}

#[test]
fn nobody_sleeps_over_a_frame() {
    for features in every_feature() {
        let mut rig = Rig::new(features, false);
        let filled = [header(0), frame(0, 60)].concat();
        for _ in 0..40 {
            rig.fill(std::slice::from_ref(&filled));
            assert!(!rig.fills.needs_call(), "{features:?}: polling wants no call");
            assert!(rig.receive.sleep(), "{features:?}: something is there");
            assert_eq!(rig.received(32).len(), 1);
            assert!(!rig.receive.sleep(), "{features:?}: nothing is there");
            rig.fill(std::slice::from_ref(&filled));
            assert!(rig.fills.needs_call(), "{features:?}: a sleeper is to be called");
            rig.receive.wake();
            assert_eq!(rig.received(32).len(), 1);
        }
        // What was reclaimed with others and is not yet passed on counts as well.
        let full = [header(0), frame(0, BUFFER_BYTES as usize - 12)].concat();
        rig.fill(&[full.clone(), full]);
        assert_eq!(rig.received(1).len(), 1);
        assert!(rig.receive.sleep());
    }
}

#[test]
fn the_device_is_kicked_only_if_it_wants_to_be() {
    for features in every_feature() {
        let mut rig = Rig::new(features, false);
        let batch = batch_of(&[frame(0, 60)]);
        rig.takes.disable_kicks();
        rig.transmit.accept(&batch, &[0]).unwrap();
        let before = rig.transmit.counters().counts().notifications;
        assert_eq!(rig.sent().len(), 1);
        rig.takes.disable_kicks();
        rig.transmit.accept(&batch, &[0]).unwrap();
        assert_eq!(rig.transmit.counters().counts().notifications, before, "{features:?}");
        assert_eq!(rig.sent().len(), 1);
        assert!(!rig.takes.enable_kicks());
        rig.transmit.accept(&batch, &[0]).unwrap();
        assert_eq!(rig.transmit.counters().counts().notifications, before + 1, "{features:?}");
    }
}
