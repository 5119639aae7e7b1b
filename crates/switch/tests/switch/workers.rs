//! Several workers at once: order within a flow, and counters exact to the frame.
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use frame::DropReason;
use port::in_memory::testing::{Collector, Injector};
use switch::{Options, PortOptions, Snapshot};
use virtio::net::NetHeader;

use crate::bench::*;

const FLOWS: u16 = 8;

/// A UDP datagram of one flow between two ports, with its number; the payload follows from all of them.
fn datagram(to: u8, from: u8, flow: u16, number: u64) -> Vec<u8> {
    let mut frame = [&station(to)[..], &station(from), &[8, 0, 0x45, 0]].concat();
    frame.extend([0, 78, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
    frame.extend([&1000u16.to_be_bytes()[..], &flow.to_be_bytes(), &[0; 4], &number.to_be_bytes()].concat());
    let seed = number.wrapping_mul(31).wrapping_add(u64::from(flow) * 7 + u64::from(to) + u64::from(from));
    frame.extend((0..50u64).map(|i| (seed + i) as u8));
    frame
}

/// The reverse, which checks that nothing was altered.
fn read(frame: &[u8]) -> (u8, u8, u16, u64) {
    let (to, from) = (frame[5], frame[11]);
    let flow = u16::from_be_bytes([frame[36], frame[37]]);
    let number = u64::from_be_bytes(frame[42..50].try_into().unwrap());
    assert_eq!(frame, datagram(to, from, flow, number), "altered");
    (to, from, flow, number)
}

type Received = HashMap<(u8, u16), Vec<u64>>;

/// Every flow goes by one queue, all flows of all queues interleaved.
fn send_all(me: u8, ports: u8, injectors: &mut [&mut Injector], numbers: Range<u64>) -> u64 {
    let mut sent = 0;
    for number in numbers {
        for flow in 0..FLOWS {
            let queue = usize::from(flow) % injectors.len();
            for to in (0..ports).filter(|to| *to != me) {
                let frame = datagram(to, me, flow, number);
                while !injectors[queue].inject(NetHeader::default(), &frame) {
                    std::thread::yield_now();
                }
                sent += 1;
            }
        }
    }
    sent
}

fn receive_all(me: u8, collectors: &mut [&mut Collector], over: &AtomicBool) -> Received {
    let mut received = Received::new();
    loop {
        let last = over.load(Ordering::Acquire);
        let mut idle = true;
        for collector in &mut *collectors {
            while let Some((_, frame)) = collector.take() {
                idle = false;
                if frame[..6] == BROADCAST {
                    continue;
                }
                let (to, from, flow, number) = read(&frame);
                assert_eq!(to, me);
                received.entry((from, flow)).or_default().push(number);
            }
        }
        if last && idle {
            return received;
        }
        if idle {
            std::thread::yield_now();
        }
    }
}

/// All ports send to all others at once.
fn storm(workers: usize, pairs: &[u16], frames: u64) {
    let options = Options { workers: vec![None; workers], ..Options::default() };
    let (switch, mut hands) = with_ports(pairs, options, |_| PortOptions::default());
    let bench = Bench::run(switch);
    let ports = pairs.len() as u8;
    // All stations are known before, so that no frame is flooded later.
    for (me, hands) in (0..).zip(&mut hands) {
        send(&mut hands[0].0, &frame(BROADCAST, station(me), 0));
    }
    settled(&bench, u64::from(ports));
    // The first frame of each flow goes to rings that hold all of them, so that every flow arrives however
    // long its receiver is kept from running later.
    let mut first = u64::from(ports);
    for (me, hands) in (0..).zip(&mut hands) {
        let mut injectors: Vec<_> = hands.iter_mut().map(|(injector, _)| injector).collect();
        first += send_all(me, ports, &mut injectors, 0..1);
    }
    settled(&bench, first);
    let over = AtomicBool::new(false);
    let (sent, received): (u64, Vec<Received>) = std::thread::scope(|scope| {
        let (mut senders, mut receivers) = (Vec::new(), Vec::new());
        for (me, hands) in (0..).zip(&mut hands) {
            let (mut injectors, mut collectors): (Vec<_>, Vec<_>) =
                hands.iter_mut().map(|(injector, collector)| (injector, collector)).unzip();
            senders.push(scope.spawn(move || send_all(me, ports, &mut injectors, 1..frames)));
            let over = &over;
            receivers.push(scope.spawn(move || receive_all(me, &mut collectors, over)));
        }
        let sent = senders.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>();
        settled(&bench, first + sent);
        over.store(true, Ordering::Release);
        (
            first - u64::from(ports) + sent,
            receivers.into_iter().map(|thread| thread.join().unwrap()).collect(),
        )
    });
    let snapshot = bench.stop();
    check(&snapshot, sent, &received, ports);
}

fn check(snapshot: &Snapshot, sent: u64, received: &[Received], ports: u8) {
    check_books(snapshot, 0);
    let ports_u64 = u64::from(ports);
    let broadcasts = ports_u64 * (ports_u64 - 1);
    let arrived: u64 = received.iter().flat_map(HashMap::values).map(|numbers| numbers.len() as u64).sum();
    let full: u64 = (0..received.len()).map(|p| drops(snapshot, p, false, DropReason::ReceiverFull)).sum();
    assert_eq!(snapshot.dropped(), full, "for no other reason\n{snapshot}");
    assert_eq!(sent, arrived + full, "sent is received or counted\n{snapshot}");
    let passed: u64 = queues(snapshot).filter(|queue| !queue.from_guest).map(|queue| queue.frames).sum();
    assert_eq!(passed, arrived + broadcasts);
    for (me, received) in received.iter().enumerate() {
        assert_eq!(
            received.len(),
            (usize::from(ports) - 1) * usize::from(FLOWS),
            "every flow arrives at {me}"
        );
        for (flow, numbers) in received {
            assert!(numbers.is_sorted_by(|a, b| a < b), "flow {flow:?} at {me} is out of order");
        }
    }
}

#[test]
fn one_worker_two_queues() {
    storm(1, &[2, 2], 1000);
}

#[test]
fn two_workers_one_queue_each() {
    storm(2, &[1, 1], 2000);
}

#[test]
fn two_workers_two_queues_each() {
    storm(2, &[2, 2], 1000);
}

#[test]
fn two_workers_that_must_share_sinks() {
    storm(2, &[1, 1, 1], 500);
}

#[test]
fn two_workers_with_more_and_fewer_queues_than_workers() {
    storm(2, &[1, 2, 4], 300);
}

#[test]
fn three_workers_share_two_queues() {
    storm(3, &[2, 3], 1000);
}

#[test]
fn four_queues_of_a_receiver_are_all_used_by_one_worker() {
    let (switch, mut hands) = with_ports(&[1, 4], Options::default(), |_| PortOptions::default());
    let bench = Bench::run(switch);
    (0..200).for_each(|flow| send(&mut hands[0][0].0, &datagram(1, 0, flow, 0)));
    settled(&bench, 200);
    let snapshot = bench.stop();
    let used: Vec<u64> =
        snapshot.ports[1].queues.iter().filter(|queue| !queue.from_guest).map(|queue| queue.frames).collect();
    // Mean 50, deviation 6: never outside 10 .. 90.
    assert!(used.iter().all(|frames| (10..90).contains(frames)), "{used:?}");
}
