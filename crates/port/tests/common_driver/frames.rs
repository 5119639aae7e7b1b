//! Frames that can be identified: a sequence number, a length, and bytes that follow from both.
use std::sync::Arc;

use frame::{Frame, FrameBatch, SNAPSHOT_BYTES, Sink, Source};
use memory::{Access, AddressSpace, Region, RegionRange, SgList, SharedSlice, Translator, sealed_memfd};
use virtio::net::{HeaderLayout, NetHeader};

const SLOT_BYTES: usize = 70_000;

/// A sender: lends frames that lie in two pieces each, for sinks to accept.
pub struct Sender {
    space: Arc<AddressSpace>,
    translator: Translator,
    batch: FrameBatch,
    flow: u8,
    pub next: u64,
}

pub fn bytes_of(flow: u8, sequence: u64, len: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5, flow];
    frame.extend_from_slice(&sequence.to_be_bytes());
    frame.extend_from_slice(&(len as u32).to_be_bytes());
    let mut state = sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while frame.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        frame.extend_from_slice(&state.to_be_bytes());
    }
    frame.truncate(len);
    frame
}

/// All bytes of a frame: the head from its copy, the rest from where it lies.
pub fn read(frame: Frame<'_>) -> Vec<u8> {
    let mut bytes = vec![0; frame.len_bytes()];
    let (slices, skip) = frame.slices();
    let snapshot = frame.len_bytes().min(SNAPSHOT_BYTES);
    bytes[..snapshot].copy_from_slice(frame.snapshot());
    SgList::new(slices).skip(skip + snapshot).read(&mut bytes[snapshot..]);
    bytes
}

impl Sender {
    pub fn new(flow: u8) -> Self {
        let bytes = (32 * SLOT_BYTES) as u64;
        let file = sealed_memfd(c"sender", bytes).unwrap();
        let space =
            AddressSpace::from_regions([Region::map(&file, RegionRange::at(0, bytes)).unwrap()]).unwrap();
        let space = Arc::new(space);
        let translator = Translator::new(Arc::clone(&space));
        Sender { space, translator, batch: FrameBatch::of_memory(32), flow, next: 0 }
    }

    /// Offers the sink one burst with frames of these lengths.
    pub fn send(&mut self, sink: &mut dyn Sink, lengths: &[usize]) {
        self.lend(NetHeader { num_buffers: 1, ..NetHeader::default() }, lengths);
        let which: Vec<u16> = (0..lengths.len() as u16).collect();
        sink.accept(&self.batch, &which).unwrap();
    }

    pub fn lend(&mut self, header: NetHeader, lengths: &[usize]) -> &FrameBatch {
        self.batch.clear();
        for (slot, &len) in lengths.iter().enumerate() {
            let frame = bytes_of(self.flow, self.next, len);
            self.next += 1;
            let at = slot * SLOT_BYTES;
            let mapping = self.space.regions()[0].mapping();
            let memory = SharedSlice::of_mapping(mapping).slice(at, SLOT_BYTES);
            memory.write(&header.to_bytes());
            memory.slice(12, len).write(&frame);
            let arena = self.batch.arena_mut().unwrap();
            let first = arena.len();
            let mut builder = self.translator.builder(arena);
            let cut = (12 + len) / 3;
            builder.push(at as u64, cut as u32, Access::Read).unwrap();
            builder.push((at + cut) as u64, (12 + len - cut) as u32, Access::Read).unwrap();
            self.batch.push(first, HeaderLayout::Full).unwrap();
        }
        &self.batch
    }
}

/// The flow of frames that may be lost.
pub const PROBE: u8 = 0xff;

/// A receiver: every frame is the next one of its flow, and whole.
#[derive(Default)]
pub struct Checker {
    pub next: [u64; 4],
    /// Frames of others, and probes.
    pub foreign: u64,
}

impl Checker {
    pub fn check(&mut self, frame: &[u8]) {
        let Some((&[0x88, 0xb5, flow], rest)) = frame.get(12..).and_then(|rest| rest.split_first_chunk())
        else {
            self.foreign += 1;
            return;
        };
        if flow == PROBE {
            self.foreign += 1;
            return;
        }
        let sequence = u64::from_be_bytes(rest[..8].try_into().unwrap());
        let expected = &mut self.next[usize::from(flow)];
        assert_eq!(sequence, *expected, "lost, doubled or out of order in flow {flow}");
        *expected += 1;
        let len = u32::from_be_bytes(rest[8..12].try_into().unwrap()) as usize;
        assert_eq!(len, frame.len(), "length of frame {sequence}");
        assert!(frame[14..] == bytes_of(flow, sequence, len)[14..], "frame {sequence} was altered");
    }

    /// Takes one burst; returns how many frames it had.
    pub fn drain(&mut self, source: &mut dyn Source) -> usize {
        let batch = source.rx_burst(32).unwrap();
        assert!(batch.len() <= 32);
        batch.frames().for_each(|frame| self.check(&read(frame)));
        let count = batch.len();
        if source.needs_release() {
            source.release();
        }
        count
    }
}
