//! Sources that all have frames without end, of one worker.
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use frame::{FrameBatch, QueueCounters, QueueError, Side, Source};
use memory::{Access, AddressSpace, Region, RegionRange, Translator, sealed_memfd};
use port::PortContext;
use switch::{Options, PortOptions, Switch};
use virtio::net::HeaderLayout;

use crate::bench::*;

const MEMORY_BYTES: u64 = 1 << 16;

/// Has the same burst for each call.
struct Endless {
    translator: Translator,
    batch: FrameBatch,
    frames: usize,
    frame_bytes: u32,
    counters: Arc<QueueCounters>,
}

impl Source for Endless {
    fn rx_burst(&mut self, _: usize) -> Result<&FrameBatch, QueueError> {
        for _ in 0..self.frames {
            let arena = self.batch.arena_mut().unwrap();
            let first = arena.len();
            let header_bytes = HeaderLayout::Full.bytes() as u32;
            self.translator.builder(arena).push(0, header_bytes + self.frame_bytes, Access::Read).unwrap();
            self.batch.push(first, HeaderLayout::Full).unwrap();
        }
        self.counters.passed(self.frames as u64, 0);
        Ok(&self.batch)
    }

    fn needs_release(&self) -> bool {
        true
    }

    fn release(&mut self) {
        self.batch.clear();
    }

    fn sleep(&mut self) -> bool {
        true
    }

    fn wake(&mut self) {}

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }
}

/// A port with such a source, and what it counts.
fn endless(frames: usize, frame_bytes: u32) -> (Scripted, Arc<QueueCounters>) {
    let counters = Arc::<QueueCounters>::default();
    let file = sealed_memfd(c"frames", MEMORY_BYTES).unwrap();
    let region = Region::map(&file, RegionRange::at(0, MEMORY_BYTES)).unwrap();
    let source = Endless {
        translator: Translator::new(Arc::new(AddressSpace::from_regions([region]).unwrap())),
        batch: FrameBatch::of_memory(frames),
        frames,
        frame_bytes,
        counters: Arc::clone(&counters),
    };
    let start = move |context: &mut dyn PortContext| {
        context.attach_source(0, Box::new(source));
        Ok(())
    };
    let (mut port, _) = Scripted::new(1, start, |_, _| Ok(()));
    port.counters.push((0, Side::FromGuest, Arc::clone(&counters)));
    (port, counters)
}

/// Four frames of 60,000 bytes are as much work as 14 passes are worth.
#[test]
fn a_source_of_costly_bursts_has_fewer_of_them() {
    let mut switch = Switch::new(Options { workers: vec![None], ..Options::default() }).unwrap();
    let (costly, costly_counters) = endless(4, 60_000);
    let (cheap, cheap_counters) = endless(1, 60);
    for (index, port) in [costly, cheap].into_iter().enumerate() {
        switch.add_port(name(index), Box::new(port), PortOptions::default()).unwrap();
    }
    let bench = Bench::run(switch);
    let counted = || (costly_counters.counts().frames / 4, cheap_counters.counts().frames);
    until("both sources' first bursts", || counted().0 > 0 && counted().1 > 0);
    let first = counted();
    until("bursts of the cheap source", || counted().1 > first.1 + 15_000);
    let last = counted();
    bench.stop();
    let (costly, cheap) = (last.0 - first.0, last.1 - first.1);
    assert!((cheap / 16..=cheap / 14).contains(&costly), "{costly} costly bursts and {cheap} cheap ones");
}

/// A source that no other waits for has a burst in every second pass: the pass between finds nothing and ends its debt.
#[test]
fn alone_a_source_of_costly_bursts_waits_for_one_pass() {
    let mut switch = Switch::new(Options { workers: vec![None], ..Options::default() }).unwrap();
    let (costly, counters) = endless(4, 60_000);
    switch.add_port(name(0), Box::new(costly), PortOptions::default()).unwrap();
    let bench = Bench::run(switch);
    until("bursts", || counters.counts().frames > 4 * 10_000);
    let worker = bench.stop().workers.remove(0);
    let (moved, empty) = (worker.passes_moved, worker.passes_empty);
    assert!((moved / 2..=moved * 2).contains(&empty), "{moved} passes with a burst, {empty} without");
}
