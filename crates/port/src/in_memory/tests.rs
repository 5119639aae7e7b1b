use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use frame::{DropReason, Side, Sink, Source};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use virtio::net::{Accepts, NetHeader};

use super::testing::{Collector, Injector};
use super::*;
use crate::Port;
use crate::testing::TestContext;

const LIMIT: Duration = Duration::from_secs(60);

/// A frame that says which it is, of a length that varies with it.
fn frame(number: u32) -> Vec<u8> {
    let mut frame = vec![number as u8; 60 + number as usize % 1400];
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[14..18].try_into().unwrap())
}

fn small() -> QueueOptions {
    QueueOptions { slots: 8, frame_bytes: 1514, ..QueueOptions::default() }
}

/// Injector, then a queue, the forwarder's sink and a second queue to the collector.
fn relay(first: QueueOptions, second: QueueOptions) -> (Injector, InMemorySource, InMemorySink, Collector) {
    let (injecting, source) = queue(first).unwrap();
    let (sink, collecting) = queue(second).unwrap();
    (injecting.into(), source, sink, collecting.into())
}

fn forward(source: &mut InMemorySource, sink: &mut InMemorySink, max: usize) -> usize {
    let batch = source.rx_burst(max).unwrap();
    let count = batch.len();
    let all: Vec<u16> = (0..count as u16).collect();
    sink.accept(batch, &all).unwrap();
    source.release();
    count
}

#[test]
fn frames_arrive_in_order_unaltered_with_their_offloads() {
    let (mut injector, mut source, mut sink, mut collector) = relay(small(), small());
    let offloaded = NetHeader {
        flags: NetHeader::F_NEEDS_CSUM,
        gso_type: NetHeader::GSO_TCPV4,
        hdr_len: 54,
        gso_size: 500,
        csum_start: 34,
        csum_offset: 16,
        num_buffers: 1,
    };
    let plain = NetHeader { num_buffers: 1, ..NetHeader::default() };
    for round in 0..1000 {
        for i in 0..3 {
            let header = if i == 1 { offloaded } else { plain };
            assert!(injector.inject(header, &frame(3 * round + i)));
        }
        assert_eq!(forward(&mut source, &mut sink, 2), 2);
        assert_eq!(forward(&mut source, &mut sink, 2), 1);
        for i in 0..3 {
            let header = if i == 1 { offloaded } else { plain };
            assert_eq!(collector.take(), Some((header, frame(3 * round + i))));
        }
        assert_eq!(collector.take(), None);
    }
    assert_eq!(source.counters().counts().frames, 3000);
    assert_eq!(sink.counters().counts().bytes, source.counters().counts().bytes);
}

#[test]
fn what_finds_no_room_is_counted_and_nothing_else_suffers() {
    let short = QueueOptions { frame_bytes: 500, ..small() };
    let (mut injector, mut source, mut sink, mut collector) = relay(small(), short);
    for i in 0..8 {
        assert!(injector.inject(NetHeader::default(), &frame(i)));
    }
    assert!(!injector.inject(NetHeader::default(), &frame(8)), "the ring is bounded");
    assert_eq!(forward(&mut source, &mut sink, 8), 8);
    assert!(injector.inject(NetHeader::default(), &frame(1000)), "released slots are free again");
    assert!(injector.inject(NetHeader::default(), &frame(9)));
    assert_eq!(forward(&mut source, &mut sink, 8), 2);
    let drops = [DropReason::NoBufferLargeEnough, DropReason::ReceiverFull].map(|r| sink.counters().drops(r));
    assert_eq!(drops, [1, 1]);
    for i in 0..8 {
        assert_eq!(collector.take().unwrap().1, frame(i));
    }
    assert_eq!(collector.take(), None);
}

#[test]
fn malformed_frames_are_counted_and_their_slots_come_back() {
    let (mut injector, mut source, _, _) = relay(small(), small());
    for _ in 0..5 {
        let outside = NetHeader { flags: 1, csum_start: 9000, ..NetHeader::default() };
        assert!(injector.inject(outside, &frame(1)));
        assert!(injector.inject(NetHeader::default(), &[0; 13]));
        assert!(source.rx_burst(8).unwrap().is_empty());
        assert!(source.needs_release(), "an empty batch is to be released too");
        source.release();
    }
    let drops = [DropReason::MalformedHeader, DropReason::TooShort].map(|r| source.counters().drops(r));
    assert_eq!(drops, [5, 5]);
    assert!(source.rx_burst(8).unwrap().is_empty() && !source.needs_release());
}

#[test]
fn a_receiver_without_offloads_gets_no_offloads() {
    let plain = QueueOptions { accepts: Accepts::NOTHING, ..small() };
    let (mut injector, mut source, mut sink, mut collector) = relay(small(), plain);
    let partial = NetHeader { flags: 1, csum_start: 34, csum_offset: 16, ..NetHeader::default() };
    assert!(injector.inject(partial, &frame(1)));
    forward(&mut source, &mut sink, 8);
    let (header, summed) = collector.take().unwrap();
    assert_eq!(header, NetHeader { num_buffers: 1, ..NetHeader::default() });
    assert_ne!(summed, frame(1));
}

/// With eight slots, the next frame's wake-up may replace a lost one. With one slot there is no next frame until the
/// consumer has woken, so a lost wake-up ends in the time limit.
#[test]
fn two_threads_lose_neither_frames_nor_wake_ups() {
    for (slots, frames) in [(8, 100_000), (1, 20_000)] {
        hand_over(QueueOptions { slots, ..small() }, frames);
    }
}

/// The consumer sleeps whenever it finds nothing, the producer waits whenever it finds no room.
fn hand_over(options: QueueOptions, frames: u32) {
    let (sink, mut source) = queue(options).unwrap();
    let mut injector = Injector::from(sink);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let producer = std::thread::spawn(move || {
        for i in 0..frames {
            while !injector.inject(NetHeader::default(), &frame(i)[..60]) && !stopped.load(Ordering::Relaxed)
            {
                std::thread::yield_now();
            }
            // Let the consumer run dry now and then, at varying moments.
            for _ in 0..i % 97 {
                std::hint::spin_loop();
            }
        }
    });
    let (mut next, mut slept, mut lost) = (0, 0, false);
    while next < frames && !lost {
        let batch = source.rx_burst(5).unwrap();
        for frame in batch.frames() {
            assert_eq!(number(frame.snapshot()), next);
            next += 1;
        }
        if source.needs_release() {
            source.release();
            continue;
        }
        if !source.sleep() {
            slept += 1;
            let mut fds = [PollFd::from_borrowed_fd(source.wake_fd().unwrap(), PollFlags::IN)];
            lost = poll(&mut fds, Some(&Timespec::try_from(LIMIT).unwrap())).unwrap() != 1;
        }
        source.wake();
    }
    stop.store(true, Ordering::Relaxed);
    producer.join().unwrap();
    assert!(!lost, "no wake-up before frame {next}");
    assert!(slept > 0, "the consumer never slept: this test tested nothing");
}

#[test]
fn an_idle_queue_stays_asleep() {
    let (_sink, mut source) = queue(small()).unwrap();
    assert!(!source.sleep());
    let mut fds = [PollFd::from_borrowed_fd(source.wake_fd().unwrap(), PollFlags::IN)];
    assert_eq!(poll(&mut fds, Some(&Timespec::default())).unwrap(), 0);
}

#[test]
fn what_one_port_of_a_pair_is_given_the_other_lends() {
    let (mut left, mut right) = InMemory::pair(2, small()).unwrap();
    let (mut contexts, ports) = ([TestContext::new(), TestContext::new()], [&mut left, &mut right]);
    for (port, context) in ports.into_iter().zip(&mut contexts) {
        port.start(context).unwrap();
        assert_eq!((port.queue_pairs(), context.sources.len(), context.sinks.len()), (2, 2, 2));
    }
    let [mut on_left, mut on_right] = contexts;
    for (pair, bytes) in [(0, frame(7)), (1, frame(8))] {
        let (mut injector, mut source, _, _) = relay(small(), small());
        assert!(injector.inject(NetHeader::default(), &bytes));
        let sink = on_left.sinks.get_mut(&pair).unwrap();
        sink.accept(source.rx_burst(1).unwrap(), &[0]).unwrap();
        let came = on_right.sources.get_mut(&pair).unwrap().rx_burst(8).unwrap();
        assert_eq!(came.frame(0).snapshot(), &bytes[..64]);
    }
    for (port, side) in [(&left, Side::ToGuest), (&right, Side::FromGuest)] {
        let frames = [0, 1].map(|pair| port.counters(pair, side).unwrap().counts().frames);
        assert_eq!(frames, [1, 1]);
    }
    left.end(&mut on_left);
    right.end(&mut on_right);
    assert!(on_left.sinks.is_empty() && on_right.sources.is_empty());
}
