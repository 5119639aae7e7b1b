//! A guest that bridges two ports: everything that it receives at one it sends at the other.
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use frame::DropReason;
use peers::bystander::{Bystander, test_name};
use port::in_memory::testing::{Collector, Injector};
use switch::{Options, PortOptions, TableOptions};
use virtio::net::NetHeader;

use crate::bench::*;

/// Bridges two ports until it is dropped.
struct Bridge {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Bridge {
    fn of(mut ports: [(Injector, Collector); 2]) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&end);
        let thread = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                let mut idle = true;
                for (from, to) in [(0, 1), (1, 0)] {
                    for _ in 0..32 {
                        let Some((_, frame)) = ports[from].1.take() else { break };
                        // What has no room is lost, as at any bridge.
                        let _ = ports[to].0.inject(NetHeader::default(), &frame);
                        idle = false;
                    }
                }
                if idle {
                    std::thread::sleep(Duration::from_micros(50));
                }
            }
        });
        Bridge { end, thread: Some(thread) }
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// What is left over when two stations at a and b have exchanged frames for two seconds beside a bridge at c and d.
struct Outcome {
    sent: u64,
    lost: u64,
    longest: Duration,
    snapshot: switch::Snapshot,
}

const ROUNDS: u64 = 1000;

/// No frame of the bystanders takes longer, on any machine.
const LONGEST: Duration = Duration::from_secs(1);

fn exchange(options: Options, of_port: impl Fn(usize) -> PortOptions) -> Outcome {
    let (switch, hands) = with_ports(&[1; 4], options, of_port);
    let bench = Bench::run(switch);
    let mut hands = hands.into_iter().flatten();
    let mut stations = [hands.next().unwrap(), hands.next().unwrap()];
    let bridge = Bridge::of([hands.next().unwrap(), hands.next().unwrap()]);
    let mut missing = [HashSet::new(), HashSet::new()];
    let mut sent_at = Vec::new();
    let mut longest = Duration::ZERO;
    let mut receive =
        |stations: &mut [(Injector, Collector); 2], missing: &mut [HashSet<u64>; 2], sent_at: &[Instant]| {
            for (to, station) in stations.iter_mut().enumerate() {
                while let Some((_, frame)) = station.1.take() {
                    if frame[..6] != BROADCAST && missing[to].remove(&number(&frame)) {
                        longest = longest.max(sent_at[number(&frame) as usize].elapsed());
                    }
                }
            }
        };
    for round in 0..ROUNDS {
        let until = Instant::now() + Duration::from_millis(2);
        sent_at.push(Instant::now());
        for (from, station_of) in [(0, 1), (1, 0)] {
            let (source, destination) = (station(1 + from as u8), station(1 + station_of as u8));
            // As real stations do: now and then one sends a broadcast.
            if round % 50 == 0 {
                send(&mut stations[from].0, &frame(BROADCAST, source, round));
            }
            missing[station_of].insert(round);
            send(&mut stations[from].0, &frame(destination, source, round));
        }
        while Instant::now() < until {
            receive(&mut stations, &mut missing, &sent_at);
        }
    }
    let deadline = Instant::now() + Duration::from_secs(2);
    while missing.iter().any(|missing| !missing.is_empty()) && Instant::now() < deadline {
        receive(&mut stations, &mut missing, &sent_at);
    }
    drop(bridge);
    let lost = missing.iter().map(HashSet::len).sum::<usize>() as u64;
    Outcome { sent: 2 * ROUNDS, lost, longest, snapshot: bench.stop() }
}

impl Outcome {
    fn print(&self) {
        let Outcome { sent, lost, longest, snapshot } = self;
        Bystander { worst_latency: *longest, sent: *sent, lost: *lost }.print(&test_name());
        println!("{} moves, {} refused", snapshot.table.moved, snapshot.table.moves_refused);
    }
}

#[test]
fn a_guest_that_bridges_two_ports_disturbs_nobody() {
    let outcome = exchange(Options::default(), |_| PortOptions::default());
    outcome.print();
    assert!(outcome.longest < LONGEST, "{:?}", outcome.longest);
    let table = &outcome.snapshot.table;
    // While an address moves, at most five times each, a few frames go astray.
    assert!(outcome.lost <= 20, "{}", outcome.snapshot);
    assert!(table.moved <= 40 && table.moves_refused > 0, "{}", outcome.snapshot);
    let refused: u64 =
        [2, 3].map(|port| drops(&outcome.snapshot, port, true, DropReason::MovesTooOften)).iter().sum();
    // Frames that follow each other from one sender are refused together.
    assert!(refused >= table.moves_refused, "{}", outcome.snapshot);
}

/// The strict alternative: ports whose stations are known.
#[test]
fn a_bridge_whose_addresses_are_known_moves_nothing() {
    let allowed = |port: usize| PortOptions {
        addresses: Some(vec![virtio::net::MacAddress(station(1 + port as u8))]),
        ..PortOptions::default()
    };
    let outcome = exchange(Options::default(), allowed);
    outcome.print();
    assert!(outcome.longest < LONGEST, "{:?}", outcome.longest);
    assert_eq!((outcome.lost, outcome.snapshot.table.moved), (0, 0), "{}", outcome.snapshot);
}

/// What the limits are for. Were this to stay small without them, the test above would prove nothing.
#[test]
fn without_limits_the_bystanders_lose() {
    let table = TableOptions { max_moves: u16::MAX, ..TableOptions::default() };
    let unlimited = |_| PortOptions { floods_per_second: None, ..PortOptions::default() };
    let outcome = exchange(Options { table, ..Options::default() }, unlimited);
    outcome.print();
    assert!(outcome.lost > 200 && outcome.snapshot.table.moved > 1000, "{}", outcome.snapshot);
}

#[test]
fn a_port_floods_no_more_than_it_may() {
    let (limit, seconds) = (1000, 1);
    let (switch, hands) = with_ports(&[1; 3], Options::default(), |port| PortOptions {
        floods_per_second: (port == 0).then_some(limit),
        ..PortOptions::default()
    });
    let bench = Bench::run(switch);
    let mut hands: Vec<_> = hands.into_iter().flatten().collect();
    // A bystander at b knows c.
    send(&mut hands[2].0, &frame(BROADCAST, station(3), 0));
    send(&mut hands[1].0, &frame(station(3), station(2), 0));
    let (mut flooded, mut heard, mut sent) = (0, 0, 0);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(seconds) {
        sent += u64::from(hands[0].0.inject(NetHeader::default(), &frame(BROADCAST, station(1), flooded)));
        while let Some((_, frame)) = hands[1].1.take() {
            flooded += u64::from(frame[6..12] == station(1));
        }
        if sent % 50 == 0 {
            heard += u64::from(hands[1].0.inject(NetHeader::default(), &frame(station(3), station(2), sent)));
        }
        while hands[2].1.take().is_some() {}
    }
    settled(&bench, sent + heard + 2);
    let (took, snapshot) = (begin.elapsed(), bench.stop());
    let dropped = drops(&snapshot, 0, true, DropReason::FloodLimit);
    let passed = sent - dropped;
    println!("{sent} sent to everybody, {passed} passed, {dropped} over the limit in {took:?}");
    // A burst, and the rate.
    let most = (f64::from(limit) * took.as_secs_f64()) as u64 + 64;
    assert!(dropped > 0 && (64..=most).contains(&passed), "{snapshot}");
    let lost = drops(&snapshot, 1, true, DropReason::FloodLimit);
    assert_eq!(lost, 0, "another port has a limit of its own");
}
