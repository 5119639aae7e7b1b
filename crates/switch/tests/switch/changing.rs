//! Ports, rules, copies and mirrors that come and go while frames pass.
use std::time::Duration;

use frame::{Side, Source};
use port::Token;
use switch::{ChangeError, Options, PortOptions, Switch};
use virtio::net::MacAddress;

use crate::attaching::pair;
use crate::bench::*;

fn workers(count: usize) -> Options {
    Options { workers: vec![None; count], watch_activity: true, ..Options::default() }
}

#[test]
fn ports_come_and_go_and_the_others_lose_nothing() {
    for count in [1, 2, 3] {
        let (bench, mut hands) = Bench::learning(2, workers(count));
        let (mut b, mut a) = (hands.pop().unwrap(), hands.pop().unwrap());
        let mut sent = 0;
        for round in 0..50 {
            let (port, mut added) = in_memory(1);
            bench.change(move |view| view.add_port("c", Box::new(port), PortOptions::default())).unwrap();
            // Every port learns every station, in whatever order the ports came.
            send(&mut a.0, &frame(BROADCAST, station(1), round));
            assert_eq!(number(&receive(&mut added[0].1)), round);
            assert_eq!(number(&receive(&mut b.1)), round);
            send(&mut added[0].0, &frame(station(1), station(3), round));
            assert_eq!(number(&receive(&mut a.1)), round);
            send(&mut b.0, &frame(station(3), station(2), round));
            assert_eq!(number(&receive(&mut added[0].1)), round);
            sent += 2;
            bench.change(|view| view.remove_port("c")).unwrap();
            // Who was behind it is unknown again, and its frames go nowhere.
            send(&mut a.0, &frame(station(3), station(1), round));
            assert_eq!(number(&receive(&mut b.1)), round);
            sent += 1;
        }
        let snapshot = settled(&bench, sent);
        let dropped = queues(&snapshot).map(|queue| queue.dropped()).sum::<u64>();
        assert_eq!((snapshot.ports.len(), dropped), (2, 0), "{snapshot}");
        bench.stop();
    }
}

#[test]
fn what_cannot_be_changed_says_why_and_changes_nothing() {
    let (bench, mut hands) = Bench::learning(2, Options::default());
    let (port, _) = in_memory(1);
    let twice = bench.change(move |view| view.add_port("a", Box::new(port), PortOptions::default()));
    assert!(matches!(twice, Err(ChangeError::NameTwice(_))), "{twice:?}");
    let missing = bench.change(|view| view.remove_port("x")).unwrap_err().to_string();
    assert!(missing.contains("'x'") && missing.contains("a, b"), "{missing}");
    let (refusing, _stopped) =
        Scripted::new(1, |_| Err(port::PortError::new("start", "as told", "do not")), |_, _| Ok(()));
    let refused = bench.change(move |view| view.add_port("c", Box::new(refusing), PortOptions::default()));
    assert!(refused.unwrap_err().to_string().contains("as told"));
    assert_eq!(bench.snapshot().ports.len(), 2);
    let (mut b, mut a) = (hands.pop().unwrap(), hands.pop().unwrap());
    send(&mut a.0, &frame(station(2), station(1), 1));
    receive(&mut b.1);
    bench.stop();
}

#[test]
fn an_address_that_becomes_a_ports_own_is_refused_to_others() {
    let (bench, mut hands) = Bench::learning(2, Options::default());
    let (mut b, mut a) = (hands.pop().unwrap(), hands.pop().unwrap());
    let (port, _added) = in_memory(1);
    let options = PortOptions { addresses: Some(vec![MacAddress(station(9))]), ..PortOptions::default() };
    bench.change(move |view| view.add_port("c", Box::new(port), options)).unwrap();
    send(&mut a.0, &frame(station(2), station(9), 1));
    send(&mut a.0, &frame(station(2), station(1), 2));
    assert_eq!(number(&receive(&mut b.1)), 2, "the spoofed one is dropped");
    assert_eq!(drops(&bench.snapshot(), 0, true, frame::DropReason::Spoofed), 1);
    bench.stop();
}

#[test]
fn copies_are_what_passes_and_end_without_a_trace() {
    let (bench, mut hands) = Bench::learning(2, workers(2));
    let (mut b, mut a) = (hands.pop().unwrap(), hands.pop().unwrap());
    let (id, copied) = bench.change(|view| view.copy_port("a")).unwrap();
    let mut queues: Vec<_> = copied.try_iter().collect();
    queues.sort_by_key(|queue| queue.side == Side::ToGuest);
    assert_eq!(queues.iter().map(|queue| queue.side).collect::<Vec<_>>(), [Side::FromGuest, Side::ToGuest]);
    for round in 0..100 {
        send(&mut a.0, &frame(station(2), station(1), round));
        assert_eq!(number(&receive(&mut b.1)), round);
        send(&mut b.0, &frame(station(1), station(2), 1000 + round));
        assert_eq!(number(&receive(&mut a.1)), 1000 + round);
    }
    for (queue, first) in queues.iter_mut().zip([0, 1000]) {
        for expected in first..first + 100 {
            let batch = queue.source.rx_burst(1).unwrap();
            assert_eq!(batch.len(), 1);
            assert_eq!(number(batch.frame(0).snapshot()), expected);
            queue.source.release();
        }
    }
    // A ring that is not emptied drops copies and no frames.
    for round in 0..1500 {
        send(&mut a.0, &frame(station(2), station(1), round));
        assert_eq!(number(&receive(&mut b.1)), round);
    }
    assert_eq!(queues[0].counters.counts().dropped(), 1500 - 1024);
    bench.change(move |view| view.end_copies(id));
    let before = queues[0].counters.counts();
    send(&mut a.0, &frame(station(2), station(1), 7));
    assert_eq!(number(&receive(&mut b.1)), 7);
    assert_eq!(queues[0].counters.counts(), before, "it is not copied any more");
    let snapshot = bench.stop();
    assert_eq!(snapshot.dropped(), 0);
    check_books(&snapshot, 0);
}

/// A guest may stop and start its rings as often as it likes.
#[test]
fn a_queue_that_comes_and_goes_is_copied_into_one_ring() {
    let mut switch = Switch::new(Options::default()).unwrap();
    let ((source, sink), (mut injector, _collector)) = pair();
    let (done, is_done) = std::sync::mpsc::channel();
    let (port, _) = Scripted::new(
        1,
        |context| {
            context.attach_source(0, source);
            context.attach_sink(0, sink);
            context.after(Token(0), Duration::from_millis(1));
            Ok(())
        },
        move |_, context| {
            let source = context.detach_source(0).unwrap();
            context.attach_source(0, source);
            let sink = context.detach_sink(0).unwrap();
            context.attach_sink(0, sink);
            context.after(Token(0), Duration::from_millis(1));
            let _ = done.send(());
            Ok(())
        },
    );
    switch.add_port("a", Box::new(port), PortOptions::default()).unwrap();
    let bench = Bench::run(switch);
    let (_id, copied) = bench.change(|view| view.copy_port("a")).unwrap();
    is_done.try_iter().for_each(drop);
    for _ in 0..100 {
        is_done.recv_timeout(Duration::from_secs(10)).unwrap();
    }
    let mut queues: Vec<_> = copied.try_iter().collect();
    assert_eq!(queues.len(), 2, "one for each direction");
    send(&mut injector, &frame(station(2), station(1), 7));
    let from_guest = queues.iter_mut().find(|queue| queue.side == Side::FromGuest).unwrap();
    until("the copy", || {
        let there = from_guest.source.rx_burst(1).unwrap().len();
        from_guest.source.release();
        there == 1
    });
    bench.stop();
}

/// Frames of a to c, and frames to b: one that goes from a to b is copied for each.
#[test]
fn mirrors_of_one_direction_share_the_port_that_gets_the_copies() {
    let (bench, mut hands) = Bench::learning(3, workers(2));
    let (mut c, mut b, mut a) = (hands.pop().unwrap(), hands.pop().unwrap(), hands.pop().unwrap());
    bench.change(|view| view.mirror("a", "c", Some(Side::FromGuest))).unwrap();
    bench.change(|view| view.mirror("b", "c", Some(Side::ToGuest))).unwrap();
    for round in 0..20 {
        send(&mut a.0, &frame(BROADCAST, station(1), round));
        assert_eq!(number(&receive(&mut b.1)), round);
        assert_eq!([number(&receive(&mut c.1)), number(&receive(&mut c.1))], [round; 2]);
        send(&mut b.0, &frame(station(1), station(2), 100 + round));
        assert_eq!(number(&receive(&mut a.1)), 100 + round);
    }
    assert!(c.1.take_within(Duration::from_millis(20)).is_none());
    for (from, to) in [("a", "b"), ("c", "b"), ("b", "a")] {
        let refused = bench.change(|view| view.mirror(from, to, None)).unwrap_err();
        assert!(matches!(refused, ChangeError::Mirrored(_)), "{from} to {to}: {refused}");
    }
    let twice = bench.change(|view| view.mirror("a", "c", Some(Side::ToGuest))).unwrap_err();
    assert!(matches!(twice, ChangeError::NameTwice(_)), "{twice}");
    bench.change(|view| view.remove_port("mirror-of-a")).unwrap();
    send(&mut a.0, &frame(BROADCAST, station(1), 7));
    assert_eq!((number(&receive(&mut b.1)), number(&receive(&mut c.1))), (7, 7), "the other goes on");
    assert!(c.1.take_within(Duration::from_millis(20)).is_none());
    bench.change(|view| view.remove_port("mirror-of-b")).unwrap();
    bench.stop();
}

/// A station of one network is none of another's, and a port may change its network.
#[test]
fn networks_learn_for_themselves() {
    let network = |name: &str| PortOptions { network: name.to_owned(), ..PortOptions::default() };
    let (bench, mut hands) = Bench::learning(4, workers(2));
    let (mut d, mut c) = (hands.pop().unwrap(), hands.pop().unwrap());
    let (mut b, mut a) = (hands.pop().unwrap(), hands.pop().unwrap());
    for port in ["c", "d"] {
        bench.change(move |view| view.set_port_options(port, network("blue"))).unwrap();
    }
    // Both networks use the same addresses.
    for round in 0..20 {
        send(&mut a.0, &frame(BROADCAST, station(1), round));
        assert_eq!(number(&receive(&mut b.1)), round);
        send(&mut c.0, &frame(BROADCAST, station(1), 100 + round));
        assert_eq!(number(&receive(&mut d.1)), 100 + round);
        send(&mut b.0, &frame(station(1), station(2), round));
        assert_eq!(number(&receive(&mut a.1)), round);
        send(&mut d.0, &frame(station(1), station(2), 100 + round));
        assert_eq!(number(&receive(&mut c.1)), 100 + round);
    }
    assert_eq!(bench.change(|view| view.stations().count()), 4);
    bench.change(|view| view.forget_stations(Some("blue")));
    assert_eq!(bench.change(|view| view.stations().count()), 2);
    // b moves: its station is where frames come from now.
    bench.change(move |view| view.set_port_options("b", network("blue"))).unwrap();
    send(&mut a.0, &frame(station(2), station(1), 1));
    send(&mut c.0, &frame(BROADCAST, station(1), 2));
    assert_eq!((number(&receive(&mut b.1)), number(&receive(&mut d.1))), (2, 2));
    for hands in [&mut a, &mut b, &mut c, &mut d] {
        assert!(hands.1.take_within(Duration::from_millis(20)).is_none());
    }
    for count in 0..62 {
        let (port, _) = in_memory(1);
        let name = count.to_string();
        bench.change(move |view| view.add_port(&name, Box::new(port), network(&name))).unwrap();
    }
    let (port, _) = in_memory(1);
    let refused =
        bench.change(move |view| view.add_port("e", Box::new(port), network("one too many"))).unwrap_err();
    assert!(matches!(refused, ChangeError::TooManyNetworks), "{refused}");
    bench.stop();
}

#[test]
fn a_mirror_gets_both_directions_and_takes_part_in_nothing_else() {
    let (bench, mut hands) = Bench::learning(3, workers(2));
    let (mut c, mut b, mut a) = (hands.pop().unwrap(), hands.pop().unwrap(), hands.pop().unwrap());
    bench.change(|view| view.mirror("a", "c", None)).unwrap();
    for round in 0..20 {
        send(&mut a.0, &frame(BROADCAST, station(1), round));
        assert_eq!(number(&receive(&mut b.1)), round);
        assert_eq!(number(&receive(&mut c.1)), round, "once, by the mirror alone");
        send(&mut b.0, &frame(station(1), station(2), 100 + round));
        assert_eq!(number(&receive(&mut a.1)), 100 + round);
        assert_eq!(number(&receive(&mut c.1)), 100 + round);
    }
    assert!(c.1.take_within(Duration::from_millis(20)).is_none());
    // Nor does what its guest sends: to a station that is known, and as another one.
    for source in [3, 2] {
        send(&mut c.0, &frame(station(1), station(source), 90));
    }
    assert!(a.1.take_within(Duration::from_millis(20)).is_none());
    send(&mut a.0, &frame(station(2), station(1), 91));
    assert_eq!((number(&receive(&mut b.1)), number(&receive(&mut c.1))), (91, 91), "b is where it was");
    let busy = bench.change(|view| view.remove_port("c")).unwrap_err();
    assert!(matches!(busy, ChangeError::Mirrored(_)), "{busy}");
    bench.change(|view| view.remove_port("mirror-of-a")).unwrap();
    send(&mut a.0, &frame(BROADCAST, station(1), 9));
    assert_eq!((number(&receive(&mut b.1)), number(&receive(&mut c.1))), (9, 9), "an ordinary port again");
    bench.stop();
}
