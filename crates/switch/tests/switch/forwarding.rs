use std::time::Duration;

use frame::DropReason;
use switch::{ChangeError, Options, PortOptions, SetupError, Switch, TableOptions, View};

use crate::bench::*;

/// What a collector has when the switch has ended.
fn rest(hands: &mut Hands, index: usize) -> Vec<u64> {
    std::iter::from_fn(|| hands[index].1.take()).map(|(_, frame)| number(&frame)).collect()
}

#[test]
fn unknown_stations_are_looked_for_everywhere_and_known_ones_where_they_are() {
    let (bench, mut hands) = Bench::learning(3, Options::default());
    send(&mut hands[0].0, &frame(station(2), station(1), 1));
    assert_eq!(number(&receive(&mut hands[1].1)), 1);
    assert_eq!(number(&receive(&mut hands[2].1)), 1);
    send(&mut hands[1].0, &frame(station(1), station(2), 2));
    assert_eq!(number(&receive(&mut hands[0].1)), 2);
    send(&mut hands[0].0, &frame(station(2), station(1), 3));
    assert_eq!(number(&receive(&mut hands[1].1)), 3);
    send(&mut hands[0].0, &frame(BROADCAST, station(1), 4));
    assert_eq!(number(&receive(&mut hands[1].1)), 4);
    let snapshot = {
        settled(&bench, 4);
        bench.stop()
    };
    assert_eq!([0, 1, 2].map(|port| rest(&mut hands, port)), [vec![], vec![], vec![4]], "{snapshot}");
    assert_eq!(snapshot.dropped(), 0);
    assert_eq!((snapshot.table.learned, snapshot.workers[0].flooded, snapshot.workers[0].copies), (2, 2, 6));
    check_books(&snapshot, 0);
}

#[test]
fn a_station_that_moves_is_followed_at_once() {
    let table = TableOptions { max_moves: u16::MAX, ..TableOptions::default() };
    let (bench, mut hands) = Bench::learning(3, Options { table, ..Options::default() });
    let mut sent = 0;
    for round in 0..20u64 {
        let here = (round % 2) as usize; // station 9 is at port 0 or 1, the other end at port 2
        send(&mut hands[here].0, &frame(station(3), station(9), 100 + round));
        assert_eq!(number(&receive(&mut hands[2].1)), 100 + round);
        if round == 0 {
            // Station 3 was not known yet.
            assert_eq!(number(&receive(&mut hands[1].1)), 100);
        }
        send(&mut hands[2].0, &frame(station(9), station(3), round));
        assert_eq!(number(&receive(&mut hands[here].1)), round);
        sent += 2;
    }
    settled(&bench, sent);
    let snapshot = bench.stop();
    assert_eq!((rest(&mut hands, 0), rest(&mut hands, 1)), (vec![], vec![]));
    assert_eq!((snapshot.table.moved, snapshot.dropped()), (19, 0));
}

#[test]
fn nothing_goes_back_where_it_came_from() {
    let (bench, mut hands) = Bench::learning(2, Options::default());
    send(&mut hands[0].0, &frame(BROADCAST, station(1), 1));
    send(&mut hands[0].0, &frame(station(1), station(2), 2)); // both stations behind port 0
    settled(&bench, 2);
    let snapshot = bench.stop();
    assert_eq!((rest(&mut hands, 0), rest(&mut hands, 1)), (vec![], vec![1]));
    assert_eq!(drops(&snapshot, 0, true, DropReason::NowhereToGo), 1);
}

#[test]
fn what_a_burst_teaches_holds_for_the_rest_of_it() {
    let (switch, hands) = with_ports(&[1, 1], Options::default(), |_| PortOptions::default());
    let mut hands: Hands = hands.into_iter().flatten().collect();
    // Before it runs, so that they are one burst; with the second frame the receiver turns out to be here.
    send(&mut hands[0].0, &frame(station(9), station(1), 1));
    send(&mut hands[0].0, &frame(station(9), station(9), 2));
    let bench = Bench::run(switch);
    settled(&bench, 2);
    assert_eq!(drops(&bench.stop(), 0, true, DropReason::NowhereToGo), 1);
    assert_eq!(rest(&mut hands, 1), [1]);
}

#[test]
fn conversations_of_one_burst_go_their_own_ways_in_order() {
    let (switch, hands) = with_ports(&[1, 1, 1], Options::default(), |_| PortOptions::default());
    let mut hands: Hands = hands.into_iter().flatten().collect();
    let bench = Bench::run(switch);
    for here in [1, 2] {
        send(&mut hands[here].0, &frame(BROADCAST, station(here as u8), 100 + here as u64));
    }
    settled(&bench, 2);
    // Runs of 3, 1, 2 and 1 frames to two known stations and one unknown station, from two sources.
    let to = [1, 1, 1, 2, 1, 1, 9].map(station);
    for (number, to) in (0..).zip(to) {
        send(&mut hands[0].0, &frame(to, station(if number < 5 { 7 } else { 8 }), number));
    }
    settled(&bench, 9);
    let snapshot = bench.stop();
    let known = |frames: Vec<u64>| frames.into_iter().filter(|number| *number < 100).collect::<Vec<_>>();
    assert_eq!(known(rest(&mut hands, 1)), [0, 1, 2, 4, 5, 6], "{snapshot}");
    assert_eq!(known(rest(&mut hands, 2)), [3, 6]);
    assert_eq!((snapshot.table.learned, snapshot.dropped()), (4, 0));
}

#[test]
fn a_single_port_has_nowhere_to_send() {
    let (bench, mut hands) = Bench::learning(1, Options::default());
    send(&mut hands[0].0, &frame(BROADCAST, station(1), 1));
    settled(&bench, 1);
    assert_eq!(drops(&bench.stop(), 0, true, DropReason::NowhereToGo), 1);
}

#[test]
fn link_local_groups_stay_on_their_link_unless_asked_for() {
    for forward_link_local in [false, true] {
        let options = Options { forward_link_local, ..Options::default() };
        let (bench, mut hands) = Bench::learning(2, options);
        for last in [0x00, 0x0e, 0x0f, 0x10] {
            let to = [0x01, 0x80, 0xc2, 0x00, 0x00, last];
            send(&mut hands[0].0, &frame(to, station(1), u64::from(last)));
        }
        settled(&bench, 4);
        let snapshot = bench.stop();
        let expected = if forward_link_local { vec![0, 0x0e, 0x0f, 0x10] } else { vec![0x10] };
        assert_eq!(rest(&mut hands, 1), expected);
        let dropped = drops(&snapshot, 0, true, DropReason::NowhereToGo);
        assert_eq!(dropped, if forward_link_local { 0 } else { 3 });
    }
}

#[test]
fn foreign_and_group_source_addresses_are_spoofed() {
    let of_port = |index| PortOptions {
        addresses: (index == 0)
            .then(|| vec![virtio::net::MacAddress(station(5)), virtio::net::MacAddress(station(1))]),
        ..PortOptions::default()
    };
    let (switch, hands) = with_ports(&[1, 1], Options::default(), of_port);
    let mut hands: Hands = hands.into_iter().flatten().collect();
    let bench = Bench::run(switch);
    for (n, from) in [station(1), station(2), station(5), BROADCAST].into_iter().enumerate() {
        send(&mut hands[0].0, &frame(station(9), from, n as u64));
    }
    send(&mut hands[1].0, &frame(BROADCAST, [1, 0, 0, 0, 0, 1], 7));
    settled(&bench, 5);
    let snapshot = bench.stop();
    assert_eq!((rest(&mut hands, 0), rest(&mut hands, 1)), (vec![], vec![0, 2]));
    assert_eq!([0, 1].map(|port| drops(&snapshot, port, true, DropReason::Spoofed)), [2, 1]);
    assert_eq!(snapshot.table.learned, 2);
    check_books(&snapshot, 0);
}

#[test]
fn nobody_takes_the_address_that_was_given_to_another_port() {
    let of_port = |index| PortOptions {
        addresses: (index == 0).then(|| vec![virtio::net::MacAddress(station(1))]),
        ..PortOptions::default()
    };
    let (switch, hands) = with_ports(&[1, 1, 1], Options::default(), of_port);
    let mut hands: Hands = hands.into_iter().flatten().collect();
    let bench = Bench::run(switch);
    send(&mut hands[0].0, &frame(BROADCAST, station(1), 1));
    (0..5).for_each(|n| send(&mut hands[1].0, &frame(BROADCAST, station(1), 100 + n)));
    send(&mut hands[1].0, &frame(station(1), station(2), 2));
    settled(&bench, 7);
    let snapshot = bench.stop();
    assert_eq!([0, 1, 2].map(|port| rest(&mut hands, port)), [vec![2], vec![1], vec![1]]);
    assert_eq!(drops(&snapshot, 1, true, DropReason::Spoofed), 5);
    check_books(&snapshot, 0);
}

#[test]
fn frames_beyond_the_limit_are_too_long() {
    let of_port = |_| PortOptions { max_frame_bytes: Some(100), ..PortOptions::default() };
    let (switch, hands) = with_ports(&[1, 1], Options::default(), of_port);
    let mut hands: Hands = hands.into_iter().flatten().collect();
    let bench = Bench::run(switch);
    let mut long = frame(BROADCAST, station(1), 2);
    long.push(0);
    send(&mut hands[0].0, &frame(BROADCAST, station(1), 1));
    send(&mut hands[0].0, &long);
    settled(&bench, 2);
    assert_eq!(drops(&bench.stop(), 0, true, DropReason::TooLong), 1);
    assert_eq!(rest(&mut hands, 1), [1]);
}

#[test]
fn a_port_that_invents_stations_cannot_fill_the_table() {
    let table = TableOptions { addresses_per_port: 4, ..TableOptions::default() };
    let (bench, mut hands) = Bench::learning(2, Options { table, ..Options::default() });
    (0..50).for_each(|n| send(&mut hands[0].0, &frame(BROADCAST, station(n), 0)));
    send(&mut hands[1].0, &frame(BROADCAST, station(100), 0));
    settled(&bench, 51);
    let snapshot = bench.stop();
    assert_eq!(
        [0, 1].map(|port: usize| snapshot.ports[port].addresses),
        [0, 0],
        "nobody is behind closed ports"
    );
    assert_eq!((snapshot.table.learned, snapshot.table.over_limit), (5, 46));
}

#[test]
fn frames_of_one_burst_keep_their_order_at_every_receiver() {
    let (bench, mut hands) = Bench::learning(4, Options::default());
    for n in 1..4u8 {
        send(&mut hands[usize::from(n)].0, &frame(station(200), station(n), 0));
    }
    settled(&bench, 3);
    for hand in &mut hands {
        while hand.1.take().is_some() {}
    }
    let mut expected = vec![Vec::new(); 4];
    for n in 0..180u64 {
        let (to, receivers) = match n % 5 {
            0 => (BROADCAST, vec![1, 2, 3]),
            k @ 1..=3 => (station(k as u8), vec![k as usize]),
            _ => (station(77), vec![1, 2, 3]),
        };
        receivers.iter().for_each(|port: &usize| expected[*port].push(n));
        send(&mut hands[0].0, &frame(to, station(50), n));
    }
    settled(&bench, 183);
    let snapshot = bench.stop();
    assert_eq!((0..4).map(|port| rest(&mut hands, port)).collect::<Vec<_>>(), expected);
    check_books(&snapshot, 0);
}

#[test]
fn what_a_receiver_has_no_room_for_is_counted_to_the_frame() {
    let (bench, mut hands) = Bench::learning(2, Options::default());
    (0..1000).for_each(|n| send(&mut hands[0].0, &frame(BROADCAST, station(1), n)));
    settled(&bench, 1000);
    let snapshot = bench.stop();
    let received = rest(&mut hands, 1);
    assert_eq!(received, (0..256).collect::<Vec<_>>());
    assert_eq!(drops(&snapshot, 1, false, DropReason::ReceiverFull), 744);
    check_books(&snapshot, 0);
}

#[test]
fn a_wire_passes_everything_and_is_apart_from_the_rest() {
    let (mut switch, hands) = with_ports(&[1; 4], Options::default(), |_| PortOptions::default());
    let mut hands: Hands = hands.into_iter().flatten().collect();
    switch.add_wire("a", "c").unwrap();
    let bench = Bench::run(switch);
    let link_local = [0x01, 0x80, 0xc2, 0, 0, 0];
    send(&mut hands[0].0, &frame(link_local, BROADCAST, 1));
    send(&mut hands[0].0, &frame(station(1), station(1), 2));
    send(&mut hands[2].0, &frame(station(2), station(1), 3));
    send(&mut hands[1].0, &frame(BROADCAST, station(1), 4));
    settled(&bench, 4);
    let snapshot = bench.stop();
    let received = [0, 1, 2, 3].map(|port| rest(&mut hands, port));
    assert_eq!(received, [vec![3], vec![], vec![1, 2], vec![4]]);
    assert_eq!((snapshot.dropped(), snapshot.table.learned), (0, 1));
    check_books(&snapshot, 0);
}

#[test]
fn wires_come_and_go_while_the_switch_runs() {
    let (bench, mut hands) = Bench::learning(3, Options::default());
    let links = |change: fn(&mut View<'_>) -> Result<(), ChangeError>| bench.change(change);
    assert!(matches!(links(|view| view.add_wire("a", "a")), Err(ChangeError::NoWire(_))));
    links(|view| view.add_wire("a", "c")).unwrap();
    assert!(matches!(links(|view| view.add_wire("b", "c")), Err(ChangeError::Wired(_))));
    assert!(matches!(links(|view| view.remove_wire("a", "b")), Err(ChangeError::NoWire(_))));
    assert!(matches!(links(|view| view.remove_port("c")), Err(ChangeError::Wired(_))));
    send(&mut hands[0].0, &frame(BROADCAST, station(1), 1));
    assert_eq!(number(&receive(&mut hands[2].1)), 1);
    links(|view| view.remove_wire("c", "a")).unwrap();
    send(&mut hands[0].0, &frame(BROADCAST, station(1), 2));
    assert_eq!([1, 2].map(|port| number(&receive(&mut hands[port].1))), [2, 2]);
    links(|view| view.remove_port("c")).unwrap();
    bench.stop();
    assert_eq!(rest(&mut hands, 1), Vec::<u64>::new(), "the wire's frame was for its other end alone");
}

#[test]
fn a_wire_with_allowed_addresses_refuses_others() {
    let of_port = |index| PortOptions {
        addresses: (index == 0).then(|| vec![virtio::net::MacAddress(station(1))]),
        ..PortOptions::default()
    };
    let (mut switch, hands) = with_ports(&[1; 2], Options::default(), of_port);
    let mut hands: Hands = hands.into_iter().flatten().collect();
    switch.add_wire("b", "a").unwrap();
    let bench = Bench::run(switch);
    (1..4).for_each(|n| send(&mut hands[0].0, &frame(station(9), station(n), u64::from(n))));
    settled(&bench, 3);
    assert_eq!(drops(&bench.stop(), 0, true, DropReason::Spoofed), 2);
    assert_eq!(rest(&mut hands, 1), [1]);
}

#[test]
fn what_does_not_fit_together_is_refused_by_name() {
    let options = |worker| Options { worker, ..Options::default() };
    let burst = switch::WorkerOptions { burst: 0, spin: Duration::ZERO, ..Default::default() };
    assert_eq!(Switch::new(options(burst)).err(), Some(SetupError::Burst(0)));
    assert_eq!(
        Switch::new(Options { workers: vec![], ..Options::default() }).err(),
        Some(SetupError::NoWorker)
    );
    let (mut switch, _hands) = with_ports(&[1; 3], Options::default(), |_| PortOptions::default());
    let twice = switch.add_port("b", Box::new(in_memory(1).0), PortOptions::default());
    assert_eq!(twice, Err(SetupError::NameTwice("b".to_owned())));
    assert_eq!(switch.add_wire("a", "a"), Err(SetupError::ToItself("a".to_owned())));
    assert_eq!(switch.add_wire("a", "b"), Ok(()));
    assert_eq!(switch.add_wire("c", "b"), Err(SetupError::ConnectedTwice("b".to_owned())));
    let error = switch.add_wire("a", "z").unwrap_err().to_string();
    assert!(error.contains("a, b, c"), "{error}");
}
