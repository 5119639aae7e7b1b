use peers::bystander::{print, test_name};

use super::*;

fn mac(n: u64) -> MacAddress {
    MacAddress::from_u64(0x0200_0000_0000 + n)
}

fn table(addresses: usize, per_port: u32) -> MacTable {
    // Moves are not limited but where that is tested.
    let options =
        TableOptions { addresses, addresses_per_port: per_port, ageing_seconds: 300, max_moves: u16::MAX };
    MacTable::new(options, 8, [])
}

const A: PortId = PortId(0);
const B: PortId = PortId(1);

#[test]
fn a_bucket_is_one_cache_line() {
    assert_eq!(size_of::<Bucket>(), 64);
}

#[test]
fn stations_are_learned_and_followed_when_they_move() {
    let table = table(64, 64);
    assert_eq!(table.lookup(mac(1)), None);
    table.learn(mac(1), A).unwrap();
    assert_eq!(table.lookup(mac(1)), Some(A));
    table.learn(mac(1), B).unwrap();
    assert_eq!(table.lookup(mac(1)), Some(B));
    table.learn(mac(1), A).unwrap();
    assert_eq!((table.lookup(mac(1)), table.behind(A), table.behind(B)), (Some(A), 1, 0));
    assert_eq!((table.counts().learned, table.counts().moved, table.counts().addresses), (1, 2, 1));
}

const C: PortId = PortId(2);

fn limited() -> MacTable {
    MacTable::new(TableOptions::default(), 8, [])
}

/// A bridge that joins ports B and C sends A's frames back.
#[test]
fn an_address_in_a_loop_is_held_at_its_home() {
    let table = limited();
    table.learn(mac(1), A).unwrap();
    let mut moved = 0;
    for second in 0..100 {
        table.set_now(second);
        for _ in 0..1000 {
            moved += [B, C].into_iter().filter(|port| table.learn(mac(1), *port).is_ok()).count();
            // The station is never kept from its own port.
            table.learn(mac(1), A).unwrap();
            assert_eq!(table.lookup(mac(1)), Some(A));
        }
    }
    assert_eq!((moved, table.counts().moves_refused), (5, 2 * 100_000 - 5));
    // The loop is over; nothing is held against it.
    table.set_now(200);
    table.learn(mac(1), A).unwrap();
    assert_eq!((table.learn(mac(1), B), table.lookup(mac(1))), (Ok(()), Some(B)));
}

#[test]
fn a_station_that_really_moves_does_so_at_once_and_back_again() {
    let table = limited();
    table.learn(mac(1), A).unwrap();
    for port in [B, A, B, A, B, A, B, A, B] {
        table.learn(mac(1), port).unwrap();
        assert_eq!(table.lookup(mac(1)), Some(port));
    }
    // Held with B: it has left A, and C is one too many.
    assert_eq!(table.learn(mac(1), C), Err(Refused::MovesTooOften));
    // But B is silent meanwhile.
    for second in 1..=HOLDER_SILENT_SECONDS {
        table.set_now(second);
        assert_eq!(table.learn(mac(1), C), Err(Refused::MovesTooOften));
    }
    table.set_now(HOLDER_SILENT_SECONDS + 1);
    table.learn(mac(1), C).unwrap();
    assert_eq!(table.lookup(mac(1)), Some(C));
}

#[test]
fn an_address_that_is_learned_anew_has_not_moved() {
    let table = limited();
    for _ in 0..100 {
        table.learn(mac(1), A).unwrap();
        table.flush(A);
        table.learn(mac(1), B).unwrap();
        table.flush(B);
    }
    assert_eq!((table.counts().moves_refused, table.counts().moved), (0, 0));
}

#[test]
fn groups_and_the_zero_address_are_no_stations() {
    let table = table(64, 64);
    for address in [MacAddress::BROADCAST, MacAddress::default(), MacAddress([1, 0, 0x5e, 0, 0, 1])] {
        table.learn(address, A).unwrap();
        table.learn(address, B).unwrap();
        assert_eq!(table.lookup(address), None);
    }
    assert_eq!(table.counts(), TableCounts::default());
}

#[test]
fn stations_have_an_age_and_all_can_be_forgotten() {
    let table = table(64, 64);
    table.learn(mac(1), A).unwrap();
    table.set_now(7);
    table.learn_in(10, mac(2), B).unwrap();
    let mut stations: Vec<_> = table.stations().collect();
    stations.sort();
    let expected = [(0, 1, A, 7), (10, 2, B, 0)].map(|(vlan, station, port, age_seconds)| Station {
        vlan,
        address: mac(station),
        port,
        age_seconds,
    });
    assert_eq!(stations, expected);
    table.flush_all();
    assert_eq!((table.stations().count(), table.behind(A), table.behind(B)), (0, 0, 0));
    assert_eq!((table.lookup(mac(1)), table.counts().expired), (None, 0));
}

#[test]
fn nobody_takes_an_address_that_is_another_port_s_own() {
    let table = MacTable::new(TableOptions::default(), 3, [(mac(1), A), (mac(2), A), (mac(2), B)]);
    assert_eq!((table.learn(mac(1), B), table.lookup(mac(1))), (Err(Refused::Owned), None));
    assert_eq!((table.learn(mac(1), A), table.learn(mac(1), B)), (Ok(()), Err(Refused::Owned)));
    assert_eq!(table.lookup(mac(1)), Some(A));
    assert_eq!((table.learn(mac(2), B), table.learn(mac(2), A)), (Ok(()), Ok(())));
    assert_eq!(table.learn(mac(2), PortId(2)), Err(Refused::Owned));
    assert_eq!(table.learn(mac(3), PortId(2)), Ok(()));
}

#[test]
fn a_silent_station_is_forgotten_and_one_that_speaks_is_not() {
    let table = table(64, 64);
    table.learn(mac(1), A).unwrap();
    table.learn(mac(2), A).unwrap();
    table.set_now(300);
    table.learn(mac(2), A).unwrap();
    assert_eq!(table.lookup(mac(1)), Some(A), "300 s are not too long");
    table.set_now(301);
    assert_eq!((table.lookup(mac(1)), table.lookup(mac(2))), (None, Some(A)));
    table.sweep();
    assert_eq!((table.behind(A), table.counts().expired), (1, 1));
    table.learn(mac(1), B).unwrap();
    assert_eq!(table.lookup(mac(1)), Some(B));
}

/// Two workers read the clock around the turn of a second: the worker that is behind finds entries from its future.
#[test]
fn a_station_heard_a_second_ahead_is_fresh() {
    let table = table(1, 1000); // one bucket
    for n in 0..ENTRIES as u64 {
        table.set_now(if n == 2 { 11 } else { 10 });
        table.learn(mac(n), A).unwrap();
    }
    table.set_now(10);
    assert_eq!(table.lookup(mac(2)), Some(A), "known, not expired");
    table.sweep();
    assert_eq!(table.counts().expired, 0);
    table.learn(mac(100), B).unwrap();
    assert_eq!(table.lookup(mac(2)), Some(A), "the freshest is not pushed out");
    assert_eq!(table.counts().evicted, 1);
}

/// Another port has more addresses than the table has room for, on a worker whose clock is behind.
#[test]
fn a_station_that_speaks_is_not_flooded_for_beside_a_flood_of_addresses() {
    let table = table(1, 100_000); // one bucket
    let (rounds, mut flooded) = (10_000u64, 0);
    for round in 0..rounds {
        let second = 10 + (round / 100) as u32;
        table.set_now(second + 1);
        table.learn(mac(0), A).unwrap();
        table.set_now(second);
        (1..=10).for_each(|n| table.learn(mac(round * 10 + n), B).unwrap());
        flooded += u32::from(table.lookup(mac(0)) != Some(A));
    }
    print(&test_name(), format_args!("{flooded} of {rounds} frames for it would have been flooded"));
    assert_eq!(flooded, 0);
}

#[test]
fn a_port_has_its_limit_until_stations_leave() {
    let table = table(64, 3);
    (0..5).for_each(|n| _ = table.learn(mac(n), A));
    assert_eq!((table.behind(A), table.counts().over_limit), (3, 2));
    assert_eq!(table.lookup(mac(3)), None);
    table.learn(mac(3), B).unwrap();
    assert_eq!(table.lookup(mac(3)), Some(B), "the other port has room");
    table.learn(mac(3), A).unwrap();
    assert_eq!(table.lookup(mac(3)), Some(B), "nothing moves to a port that is full");
    table.learn(mac(0), B).unwrap();
    table.learn(mac(3), A).unwrap();
    assert_eq!(table.lookup(mac(3)), Some(A), "one has left");
}

#[test]
fn a_full_bucket_gives_up_the_station_not_heard_longest() {
    let table = table(1, 1000); // one bucket
    for n in 0..ENTRIES as u64 {
        table.set_now(10 + n as u32);
        table.learn(mac(n), A).unwrap();
    }
    table.set_now(20);
    table.learn(mac(0), A).unwrap(); // now the second is the oldest
    table.learn(mac(100), B).unwrap();
    let there: Vec<u64> = (0..ENTRIES as u64).filter(|n| table.lookup(mac(*n)).is_some()).collect();
    assert_eq!(there, [0, 2, 3, 4]);
    assert_eq!(table.lookup(mac(100)), Some(B));
    assert_eq!((table.counts().evicted, table.counts().expired, table.counts().addresses), (1, 0, 5));
}

#[test]
fn a_port_is_flushed_and_no_other() {
    let table = table(64, 64);
    (0..10).for_each(|n| _ = table.learn(mac(n), PortId(n as u16 % 2)));
    table.flush(A);
    assert!((0..10).all(|n| table.lookup(mac(n)) == (n % 2 == 1).then_some(B)));
    assert_eq!((table.behind(A), table.behind(B)), (0, 5));
}

#[test]
fn the_promised_number_of_addresses_fits() {
    let table = table(4096, 4096);
    (0..4096).for_each(|n| _ = table.learn(mac(n * 7), A));
    // On average two in a bucket of five: 1.7 % of the buckets would like to hold more (Poisson).
    assert!(table.counts().evicted < 4096 / 20, "{:?}", table.counts());
}

#[test]
fn counts_hold_when_workers_learn_move_and_flush_at_once() {
    let table = table(32, 20);
    std::thread::scope(|scope| {
        for worker in 0..4u64 {
            let table = &table;
            scope.spawn(move || {
                for n in 0..20_000u64 {
                    table
                        .learn(mac((n * 31 + worker * 7) % 100), PortId(((n >> 3) + worker) as u16 % 8))
                        .unwrap();
                    if n % 1000 == 0 {
                        table.flush(PortId(worker as u16));
                    }
                    for port in 0..8 {
                        // Each of four workers may be one ahead for the moment in which it asks.
                        assert!(table.behind(PortId(port)) <= 20 + 4);
                    }
                }
            });
        }
    });
    let mut behind = [0; 8];
    for bucket in &table.buckets {
        for slot in &bucket.entries {
            let entry = slot.load(Ordering::Relaxed);
            if entry != EMPTY {
                behind[usize::from(port_of(entry).0)] += 1;
            }
        }
    }
    for (port, counted) in (0..).zip(behind) {
        assert_eq!(table.behind(PortId(port)), counted, "port {port}");
        assert!(counted <= 20);
    }
}

mod model {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Learn(u64, u16),
        Pass(u32),
        Flush(u16),
        Sweep,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0..40u64, 0..4u16).prop_map(|(address, port)| Step::Learn(address, port)),
            2 => (1..200u32).prop_map(Step::Pass),
            1 => (0..4u16).prop_map(Step::Flush),
            1 => Just(Step::Sweep),
        ]
    }

    proptest! {
        /// A table that is large enough to keep all addresses is a map from addresses to ports and times.
        #[test]
        fn the_table_is_a_map(steps in prop::collection::vec(step(), 1..200)) {
            let limit = 8;
            let table = table(4096, limit);
            let mut model: HashMap<u64, (u16, u32)> = HashMap::new();
            let mut now = 0;
            for step in steps {
                match step {
                    Step::Learn(address, port) => {
                        table.learn(mac(address), PortId(port)).unwrap();
                        let behind = model.values().filter(|(p, _)| *p == port).count() as u32;
                        let there = model.get(&address).is_some_and(|(p, _)| *p == port);
                        if there || behind < limit {
                            model.insert(address, (port, now));
                        }
                    }
                    Step::Pass(seconds) => {
                        now += seconds;
                        table.set_now(now);
                    }
                    Step::Flush(port) => {
                        table.flush(PortId(port));
                        model.retain(|_, (p, _)| *p != port);
                    }
                    Step::Sweep => {
                        table.sweep();
                        model.retain(|_, (_, last_seen)| now - *last_seen <= 300);
                    }
                }
                // Forty addresses in 2048 buckets: six in one happens once in 10^11 tables.
                prop_assume!(table.counts().evicted == 0);
                for address in 0..40 {
                    let expected = model.get(&address).filter(|(_, last_seen)| now - *last_seen <= 300);
                    prop_assert_eq!(table.lookup(mac(address)), expected.map(|(port, _)| PortId(*port)));
                }
                for port in 0..4 {
                    let behind = model.values().filter(|(p, _)| *p == port).count() as u32;
                    prop_assert_eq!(table.behind(PortId(port)), behind);
                }
            }
        }
    }
}
