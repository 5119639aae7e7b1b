//! Queues that come and go, announcements, and what ports watch.
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use frame::{DropReason, Side, Sink, Source};
use port::in_memory::testing::{Collector, Injector};
use port::in_memory::{QueueOptions, queue};
use port::{Interest, PortContext, Token};
use rustix::event::{EventfdFlags, eventfd};
use switch::{Options, PortOptions, Switch};
use virtio::net::{MacAddress, NetHeader};

use crate::bench::*;

pub type Queues = (Box<dyn Source>, Box<dyn Sink>);

/// Queues of one pair as a port holds them, and the test's hands at their other ends.
pub fn pair() -> (Queues, (Injector, Collector)) {
    let options = QueueOptions { frame_bytes: 2048, ..QueueOptions::default() };
    let (injecting, source) = queue(options).unwrap();
    let (sink, collecting) = queue(options).unwrap();
    ((Box::new(source), Box::new(sink)), (injecting.into(), collecting.into()))
}

/// A port that takes its two queue pairs out and puts them back, again and again, until it is told to leave
/// them in.
fn coming_and_going(
    leave_in: Arc<AtomicBool>,
    times: Arc<AtomicU64>,
) -> (Scripted, Vec<(Injector, Collector)>) {
    let (mut queues, mut hands, mut counters) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..2 {
        let (queue, hand) = pair();
        counters.push((n, Side::FromGuest, Arc::clone(queue.0.counters())));
        counters.push((n, Side::ToGuest, Arc::clone(queue.1.counters())));
        queues.push(queue);
        hands.push(hand);
    }
    let start = move |context: &mut dyn PortContext| {
        for (pair, (source, sink)) in (0..).zip(queues) {
            context.attach_source(pair, source);
            context.attach_sink(pair, sink);
        }
        context.after(Token(0), Duration::from_millis(1));
        Ok(())
    };
    let mut out: HashMap<u16, Queues> = HashMap::new();
    let ready = move |token: Token, context: &mut dyn PortContext| {
        let step = token.0;
        let pair = (step / 2 % 2) as u16;
        if step.is_multiple_of(2) && leave_in.load(Ordering::Acquire) {
            times.store(u64::MAX, Ordering::Release); // all are in, and stay
            return Ok(());
        }
        match out.remove(&pair) {
            Some((source, sink)) => {
                context.attach_sink(pair, sink);
                context.attach_source(pair, source);
            }
            None => {
                let source = context.detach_source(pair).expect("it was in");
                let sink = context.detach_sink(pair).expect("it was in");
                assert!(context.detach_source(pair).is_none());
                out.insert(pair, (source, sink));
            }
        }
        times.fetch_add(1, Ordering::Relaxed);
        context.after(Token(step + 1), Duration::from_micros(300));
        Ok(())
    };
    let (mut port, _) = Scripted::new(2, start, ready);
    port.counters = counters;
    (port, hands)
}

/// Otherwise a guest that was told that its queue has started would miss what is sent to it after that.
#[test]
fn a_sink_that_is_plugged_in_is_found_by_the_next_frame() {
    const TIMES: u64 = 300;
    let (mut switch, mut hands) = with_ports(&[1], Options::default(), |_| PortOptions::default());
    let ((source, sink), (_injector, mut collector)) = pair();
    let (mut injector, _collector) = hands.remove(0).remove(0);
    let (arrivals, arrived) = channel();
    let mut sink = Some(sink);
    let start = move |context: &mut dyn PortContext| {
        context.attach_source(0, source);
        context.after(Token(0), Duration::from_millis(1));
        Ok(())
    };
    let ready = move |Token(n), context: &mut dyn PortContext| {
        context.attach_sink(0, sink.take().expect("it is out"));
        // Sent by this very thread: what came first is beyond doubt.
        assert!(injector.inject(NetHeader::default(), &frame(BROADCAST, station(1), n.into())));
        let arrival = collector.take_within(LIMIT).map(|(_, frame)| number(&frame));
        let _ = arrivals.send(arrival); // The test waits for as many as it wants.
        sink = context.detach_sink(0);
        // Sometimes the worker sleeps by then, sometimes it does not yet.
        context.after(Token(n + 1), Duration::from_micros(u64::from(n) * 7 % 200));
        Ok(())
    };
    let (port, _) = Scripted::new(1, start, ready);
    switch.add_port("b", Box::new(port), PortOptions::default()).unwrap();
    let bench = Bench::run(switch);
    for n in 0..TIMES {
        assert_eq!(arrived.recv().unwrap(), Some(n));
    }
    bench.stop();
}

/// As with each message of a front-end that changes a running ring.
#[test]
fn no_frame_is_lost_while_a_sink_is_changed() {
    let (mut switch, mut hands) = with_ports(&[1], Options::default(), |_| PortOptions::default());
    let ((source, sink), (_injector, mut collector)) = pair();
    let start = move |context: &mut dyn PortContext| {
        context.attach_source(0, source);
        context.attach_sink(0, sink);
        context.after(Token(0), Duration::ZERO);
        Ok(())
    };
    let changes = Arc::new(AtomicU64::new(0));
    let changed = Arc::clone(&changes);
    let ready = move |_: Token, context: &mut dyn PortContext| {
        let how = |_: &mut dyn Sink| std::thread::sleep(Duration::from_micros(20));
        changed.fetch_add(u64::from(context.change_sink(0, Box::new(how))), Ordering::Relaxed);
        context.after(Token(0), Duration::from_micros(300));
        Ok(())
    };
    let (port, _) = Scripted::new(1, start, ready);
    switch.add_port("b", Box::new(port), PortOptions::default()).unwrap();
    let bench = Bench::run(switch);
    let mut n = 0;
    while n < 1000 || changes.load(Ordering::Relaxed) < 100 {
        send(&mut hands[0][0].0, &frame(BROADCAST, station(1), n));
        assert_eq!(collector.take_within(LIMIT).map(|(_, frame)| number(&frame)), Some(n));
        n += 1;
    }
    assert_eq!(bench.stop().dropped(), 0);
}

#[test]
fn frames_are_counted_while_queues_come_and_go() {
    let options = Options { workers: vec![None; 2], ..Options::default() };
    let (mut switch, mut hands) = with_ports(&[1, 2], options, |_| PortOptions::default());
    let (leave_in, times) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (port, mut moving) = coming_and_going(Arc::clone(&leave_in), Arc::clone(&times));
    switch.add_port("c", Box::new(port), PortOptions::default()).unwrap();
    let bench = Bench::run(switch);
    let (mut sent, mut n) = (0, 0);
    let mut conversations = HashSet::new();
    while times.load(Ordering::Acquire) != u64::MAX {
        n += 1;
        let [a, b] = &mut hands[..] else { unreachable!() };
        let queue = (n % 2) as usize;
        for (injector, to, from) in [
            (&mut a[0].0, station(2), station(1)),
            (&mut b[queue].0, station(3), station(2)),
            (&mut moving[queue].0, station(1), station(3)),
        ] {
            sent += u64::from(injector.inject(NetHeader::default(), &frame(to, from, n)));
        }
        for (_, collector) in hands.iter_mut().flatten().chain(&mut moving) {
            while let Some((_, frame)) = collector.take() {
                conversations.insert((frame[5], frame[11]));
            }
        }
        if times.load(Ordering::Relaxed) > 200 {
            leave_in.store(true, Ordering::Release);
        }
        std::thread::yield_now();
    }
    // In again after the flush: everything that still waits in the queues goes through.
    settled(&bench, sent);
    let snapshot = bench.stop();
    let lent: u64 = queues(&snapshot).filter(|queue| queue.from_guest).map(|queue| queue.frames).sum();
    assert_eq!(lent, sent, "every frame that was put in was lent, once\n{snapshot}");
    check_books(&snapshot, 0);
    for port in 0..3 {
        let refused = snapshot.ports[port].queues.iter().filter(|queue| queue.from_guest);
        for (reason, _) in refused.flat_map(|queue| &queue.drops) {
            assert_eq!(*reason, DropReason::NotConnected.text(), "{snapshot}");
        }
    }
    assert_eq!(conversations, HashSet::from([(1, 3), (2, 1), (3, 2)]));
}

#[test]
fn stations_behind_a_port_without_queues_are_forgotten() {
    let (mut switch, mut hands) = with_ports(&[1], Options::default(), |_| PortOptions::default());
    let ((source, sink), (mut injector, mut collector)) = pair();
    let event = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
    let watched = port::SharedFd::new(Arc::clone(&event));
    let (done, out) = channel();
    let (port, _) = Scripted::new(
        1,
        move |context| {
            context.attach_source(0, source);
            context.attach_sink(0, sink);
            context.watch(Token(7), &watched, Interest::Readable).unwrap();
            Ok(())
        },
        move |token, context| {
            context.unwatch(Token(7));
            let queues = (context.detach_source(0).is_some(), context.detach_sink(0).is_some());
            done.send((token, queues)).unwrap();
            Ok(())
        },
    );
    switch.add_port("b", Box::new(port), PortOptions::default()).unwrap();
    let bench = Bench::run(switch);
    send(&mut injector, &frame(BROADCAST, station(2), 1));
    receive(&mut hands[0][0].1);
    send(&mut hands[0][0].0, &frame(station(2), station(1), 2));
    receive(&mut collector);
    assert_eq!(bench.snapshot().ports[1].addresses, 1);
    rustix::io::write(&event, &1u64.to_ne_bytes()).unwrap();
    assert_eq!(out.recv_timeout(LIMIT).unwrap(), (Token(7), (true, true)));
    assert_eq!(bench.snapshot().ports[1].addresses, 0);
    send(&mut hands[0][0].0, &frame(station(2), station(1), 3));
    until("the frame is seen", || bench.snapshot().ports[0].queues[0].frames == 2);
    let snapshot = bench.stop();
    assert_eq!(drops(&snapshot, 0, true, DropReason::NotConnected), 1);
    assert!(out.try_recv().is_err(), "what is not watched any more is not heard");
}

#[test]
fn an_announced_station_is_made_known_to_all_and_found() {
    let of_port = |_| PortOptions::default();
    let (mut switch, mut hands) = with_ports(&[1, 1], Options::default(), of_port);
    let ((source, sink), (_injector, mut collector)) = pair();
    let counters = Arc::clone(sink.counters());
    let (mut port, _) = Scripted::new(
        1,
        move |context| {
            context.attach_source(0, source);
            context.attach_sink(0, sink);
            context.after(Token(0), Duration::ZERO);
            Ok(())
        },
        |_, context| {
            context.announce(MacAddress(station(9)));
            context.announce(MacAddress(BROADCAST));
            Ok(())
        },
    );
    port.counters.push((0, Side::ToGuest, counters));
    switch.add_port("c", Box::new(port), PortOptions::default()).unwrap();
    let bench = Bench::run(switch);
    for hands in &mut hands {
        let rarp = receive(&mut hands[0].1);
        assert_eq!(
            (&rarp[..6], &rarp[6..12], &rarp[12..14]),
            (&BROADCAST[..], &station(9)[..], &[0x80, 0x35][..])
        );
    }
    send(&mut hands[0][0].0, &frame(station(9), station(1), 5));
    assert_eq!(number(&receive(&mut collector)), 5);
    let logged = Arc::clone(&bench.logged);
    let snapshot = bench.stop();
    assert!(hands[1][0].1.take().is_none(), "found, not looked for");
    assert_eq!(snapshot.table.learned, 2);
    check_books(&snapshot, 1);
    let logged = logged.lock().unwrap();
    assert!(logged.len() == 1 && logged[0].starts_with("c: announced ff:ff:ff:ff:ff:ff"), "{logged:?}");
}

#[test]
fn an_end_of_a_mirror_or_a_wire_draws_nobody_by_an_announcement() {
    for is_wire in [false, true] {
        let of_port = |_| PortOptions::default();
        let (mut switch, mut hands) = with_ports(&[1, 1, 1], Options::default(), of_port);
        let ((source, sink), (_injector, mut collector)) = pair();
        let (ask, asked) = channel::<Sender<()>>();
        let (port, _) = Scripted::new(
            1,
            move |context| {
                context.attach_source(0, source);
                context.attach_sink(0, sink);
                context.after(Token(0), Duration::ZERO);
                Ok(())
            },
            move |_, context| {
                if let Ok(done) = asked.try_recv() {
                    context.announce(MacAddress(station(2)));
                    done.send(()).unwrap();
                }
                context.after(Token(0), Duration::from_millis(1));
                Ok(())
            },
        );
        switch.add_port("end", Box::new(port), PortOptions::default()).unwrap();
        if is_wire {
            switch.add_wire("end", "c").unwrap();
        }
        let bench = Bench::run(switch);
        if !is_wire {
            bench.change(|view| view.mirror("a", "end", None)).unwrap();
        }
        send(&mut hands[1][0].0, &frame(BROADCAST, station(2), 1));
        assert_eq!(number(&receive(&mut hands[0][0].1)), 1);
        let (done, is_done) = channel();
        ask.send(done).unwrap();
        is_done.recv_timeout(Duration::from_secs(10)).unwrap();
        if is_wire {
            assert_eq!(receive(&mut hands[2][0].1)[12..14], [0x80, 0x35], "the wire carries it");
        }
        send(&mut hands[0][0].0, &frame(station(2), station(1), 2));
        assert_eq!(number(&receive(&mut hands[1][0].1)), 2, "where it was");
        while collector.take().is_some() {}
        bench.stop();
    }
}

#[test]
fn a_port_may_plug_in_later() {
    let mut switch = Switch::new(Options { workers: vec![None; 2], ..Options::default() }).unwrap();
    let mut hands = Vec::new();
    for name in ["a", "b"] {
        let ((source, sink), hand) = pair();
        let mut queues = Some((source, sink));
        let (port, _) = Scripted::new(
            1,
            |context| {
                context.after(Token(1), Duration::from_millis(2));
                context.after(Token(1), Duration::from_millis(5)); // replaces the first
                Ok(())
            },
            move |_, context| {
                let (source, sink) = queues.take().expect("a timer fires once");
                context.attach_source(0, source);
                context.attach_sink(0, sink);
                Ok(())
            },
        );
        switch.add_port(name, Box::new(port), PortOptions::default()).unwrap();
        hands.push(hand);
    }
    let bench = Bench::run(switch);
    until("a frame comes through", || {
        send(&mut hands[0].0, &frame(BROADCAST, station(1), 1));
        hands[1].1.take().is_some()
    });
    bench.stop();
}
