//! Workers that never return from a queue, or panic in it: ports that did not cause it continue.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use frame::Side;
use peers::bystander::{Bystander, test_name};
use port::PortContext;
use port::in_memory::testing::{Collector, Injector};
use switch::{Options, PortOptions, RunError};

use crate::attaching::pair;
use crate::bench::*;
use crate::trouble::{Faulty, MachineState};

const DEADLINE: Duration = Duration::from_millis(300);

/// No port waits longer, on any machine: detection takes less than two deadlines.
const LONGEST_GAP: Duration = Duration::from_secs(4);

/// A switch whose last port, c or later, hangs or panics.
struct Scene {
    bench: Bench,
    /// The ends of all other ports.
    hands: Vec<(Injector, Collector)>,
    faulty: Vec<(Injector, Collector)>,
    stopped: Receiver<(u16, Side, String)>,
    go_on: Arc<AtomicBool>,
}

/// `others` in-memory ports, named a, b, ..., and one of `pairs` queue pairs with this mood.
fn scene(options: Options, others: usize, pairs: u16, side: Side, state: Option<MachineState>) -> Scene {
    let go_on = Arc::new(AtomicBool::new(false));
    let state = state.unwrap_or(MachineState::Hangs(Arc::clone(&go_on)));
    let (mut switch, hands) = with_ports(&vec![1; others], options, |_| PortOptions::default());
    let mut queues = Vec::new();
    let mut faulty = Vec::new();
    for _ in 0..pairs {
        let ((mut source, mut sink), hand) = pair();
        match side {
            Side::FromGuest => source = Box::new(Faulty { state: state.clone(), inner: source }),
            Side::ToGuest => sink = Box::new(Faulty { state: state.clone(), inner: sink }),
        }
        queues.push((source, sink));
        faulty.push(hand);
    }
    let start = move |context: &mut dyn PortContext| {
        for (pair, (source, sink)) in (0..).zip(queues) {
            context.attach_source(pair, source);
            context.attach_sink(pair, sink);
        }
        Ok(())
    };
    let (port, stopped) = Scripted::new(pairs, start, |_, _| Ok(()));
    switch.add_port(name(others), Box::new(port), PortOptions::default()).unwrap();
    let hands = hands.into_iter().flatten().collect();
    Scene { bench: Bench::run(switch), hands, faulty, stopped, go_on }
}

fn options(workers: usize, deadline: Duration) -> Options {
    Options { workers: vec![None; workers], worker_deadline: deadline, ..Options::default() }
}

impl Scene {
    /// Sends numbered frames between two ports, each way in turn, while `trouble` is done and until `over`; none is
    /// lost.
    fn bystanders(
        &mut self,
        (one, other): (usize, usize),
        trouble: impl FnOnce(&mut Scene),
        mut over: impl FnMut(&Scene) -> bool,
    ) -> Bystander {
        let mut trouble = Some(trouble);
        let (mut longest, mut sent, begin) = (Duration::ZERO, 0, Instant::now());
        // Addresses that no other station has, known from the first frame on.
        let (left, right) = (station(100 + one as u8), station(100 + other as u8));
        // Some rounds before and after.
        let mut rounds_after = 50;
        while rounds_after > 0 {
            if sent == 50
                && let Some(trouble) = trouble.take()
            {
                trouble(self);
            }
            let (from, to, source, destination) =
                if sent % 2 == 0 { (one, other, left, right) } else { (other, one, right, left) };
            let before = Instant::now();
            send(
                &mut self.hands[from].0,
                &frame(if sent == 0 { BROADCAST } else { destination }, source, sent),
            );
            // Other flooded frames come in between.
            while {
                let frame = receive(&mut self.hands[to].1);
                frame[6..12] != source || number(&frame) != sent
            } {}
            longest = longest.max(before.elapsed());
            sent += 1;
            if trouble.is_none() && over(self) {
                rounds_after -= 1;
            }
            assert!(begin.elapsed() < LIMIT, "not over; logged so far: {:#?}", self.logged());
        }
        // Each was waited for.
        Bystander { worst_latency: longest, sent, lost: 0 }
    }

    fn logged(&self) -> Vec<String> {
        self.bench.logged.lock().unwrap().clone()
    }

    fn has_logged(&self, from: &str, what: &str) -> bool {
        self.logged().iter().any(|logged| logged.starts_with(from) && logged.contains(what))
    }
}

fn check(what: &str, bystander: Bystander) {
    bystander.print(&format!("{}: {what}", test_name()));
    assert!(bystander.worst_latency < LONGEST_GAP, "{what}: {bystander:?}");
}

#[test]
fn a_source_that_hangs_takes_only_its_own_port_along() {
    for workers in [1, 2] {
        let mut scene = scene(options(workers, DEADLINE), 2, 1, Side::FromGuest, None);
        let bystander = scene.bystanders(
            (0, 1),
            |scene| send(&mut scene.faulty[0].0, &frame(BROADCAST, station(3), 1001)),
            |scene| scene.has_logged("c: ", "the port is ended"),
        );
        check("a source hangs", bystander);
        assert!(
            scene.has_logged("c: ", "has not come back from 'c' (from the guest, queue pair 0) for 0."),
            "{:#?}",
            scene.logged()
        );
        // The thread comes back, and finds nothing of what it had.
        scene.go_on.store(true, Ordering::Release);
        let until = Instant::now() + Duration::from_millis(100);
        check("it comes back", scene.bystanders((0, 1), |_| (), |_| Instant::now() > until));
        assert_eq!(scene.logged().len(), 1, "{:#?}", scene.logged());
        let snapshot = scene.bench.stop();
        assert_eq!(snapshot.ports[2].queues.len(), 0);
    }
}

#[test]
fn of_a_sink_that_hangs_both_ends_are_told_and_the_one_that_does_it_again_goes() {
    let mut scene = scene(options(1, DEADLINE), 4, 2, Side::ToGuest, None);
    send(&mut scene.faulty[0].0, &frame(BROADCAST, station(5), 1));
    (0..4).for_each(|n| assert_eq!(number(&receive(&mut scene.hands[n].1)), 1));
    let bystander = scene.bystanders(
        (2, 3),
        |scene| send(&mut scene.hands[0].0, &frame(station(5), station(1), 1001)),
        |scene| scene.has_logged("a: ", "stopped: lost: worker 0 has not come back from a burst from 'a'"),
    );
    check("a sink hangs", bystander);
    let (_, side, why) = scene.stopped.recv_timeout(LIMIT).unwrap();
    assert_eq!(side, Side::ToGuest);
    assert!(why.contains("at 'e' (to the guest, queue pair") && why.contains("three times"), "{why}");
    assert!(!scene.has_logged("e: ", "the port is ended"), "{:#?}", scene.logged());
    // What a receives goes on; its other direction is for its port to mend.
    send(&mut scene.hands[1].0, &frame(BROADCAST, station(2), 7));
    until("a receives", || number(&receive(&mut scene.hands[0].1)) == 7);
    // Now with another partner.
    let bystander = scene.bystanders(
        (2, 3),
        |scene| send(&mut scene.hands[1].0, &frame(station(5), station(2), 1002)),
        |scene| scene.has_logged("e: ", "the port is ended"),
    );
    check("the other sink of the port hangs too", bystander);
    assert!(scene.has_logged("b: ", "lost: "), "{:#?}", scene.logged());
    scene.go_on.store(true, Ordering::Release);
    let until = Instant::now() + Duration::from_millis(100);
    check("both come back", scene.bystanders((2, 3), |_| (), |_| Instant::now() > until));
    scene.bench.stop();
}

/// Otherwise a ring that its port has set up anew would be written to by two.
#[test]
fn a_burst_that_comes_back_too_late_is_not_released() {
    let mut scene = scene(options(1, DEADLINE), 2, 1, Side::ToGuest, None);
    send(&mut scene.faulty[0].0, &frame(BROADCAST, station(3), 1));
    send(&mut scene.hands[0].0, &frame(station(3), station(1), 1001));
    until("it is logged", || scene.has_logged("a: ", "lost: "));
    let injected = |scene: &mut Scene| {
        // How much fits beside what was never given back.
        (0..10_000)
            .take_while(|n| scene.hands[0].0.inject(Default::default(), &frame(BROADCAST, station(1), *n)))
            .count()
    };
    let before = injected(&mut scene);
    scene.go_on.store(true, Ordering::Release);
    until("the frame is delivered late, or never", || {
        scene.faulty[0]
            .1
            .take_within(Duration::from_millis(200))
            .is_some_and(|frame| number(&frame.1) == 1001)
    });
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!((before > 0, injected(&mut scene)), (true, 0), "nothing was given back meanwhile");
    scene.bench.stop();
}

/// The deadline is far away: what is asserted is what other workers do until then.
#[test]
fn workers_that_share_a_sink_do_not_wait_for_one_that_is_stuck_in_it() {
    // Workers 0 and 1 have the sources of a and c, b and d; both send to e, which has one sink.
    let mut scene = scene(options(2, Duration::from_secs(10)), 4, 1, Side::ToGuest, None);
    send(&mut scene.faulty[0].0, &frame(BROADCAST, station(5), 1));
    (0..4).for_each(|n| assert_eq!(number(&receive(&mut scene.hands[n].1)), 1));
    let mut to_stuck = 0;
    let until = Instant::now() + Duration::from_secs(1);
    let bystander = scene.bystanders(
        (1, 3),
        |scene| send(&mut scene.hands[0].0, &frame(station(5), station(1), 1001)),
        |_| Instant::now() > until,
    );
    for n in 0..100 {
        send(&mut scene.hands[1].0, &frame(station(5), station(2), n));
        to_stuck += 1;
    }
    check("a shared sink hangs", bystander);
    check("frames for it are dropped", scene.bystanders((1, 3), |_| (), |_| true));
    let snapshot = scene.bench.snapshot();
    // The bystanders' second round began with a broadcast.
    assert_eq!(drops(&snapshot, 1, true, frame::DropReason::NotConnected), to_stuck + 1, "{snapshot}");
    assert!(scene.logged().is_empty(), "{:#?}", scene.logged());
    scene.go_on.store(true, Ordering::Release);
    scene.bench.stop();
}

#[test]
fn a_worker_that_hangs_does_not_keep_the_switch_from_ending() {
    for side in [Side::FromGuest, Side::ToGuest] {
        let mut scene = scene(options(1, DEADLINE), 2, 1, side, None);
        let from = if side == Side::FromGuest { &mut scene.faulty[0].0 } else { &mut scene.hands[0].0 };
        send(from, &frame(BROADCAST, station(1), 1001));
        let begin = Instant::now();
        scene.bench.stop();
        println!("ended after {:?}", begin.elapsed());
        assert!(begin.elapsed() < LONGEST_GAP, "{:?}", begin.elapsed());
        scene.go_on.store(true, Ordering::Release);
    }
}

#[test]
fn what_a_stuck_worker_has_is_missing_when_its_port_asks_for_it_and_the_rest_comes_back() {
    let go_on = Arc::new(AtomicBool::new(false));
    let (mut switch, hands) = with_ports(&[1, 1], options(1, DEADLINE), |_| PortOptions::default());
    let ((source, sink), mut faulty) = pair();
    let state = MachineState::Hangs(Arc::clone(&go_on));
    let start = move |context: &mut dyn PortContext| {
        context.attach_source(0, Box::new(Faulty { state, inner: source }));
        context.attach_sink(0, sink);
        context.after(port::Token(0), Duration::from_millis(50));
        Ok(())
    };
    let ready = |_, context: &mut dyn PortContext| {
        let there = (context.detach_source(0).is_some(), context.detach_sink(0).is_some());
        context.log(&format_args!("{there:?}"));
        Ok(())
    };
    let (port, stopped) = Scripted::new(1, start, ready);
    switch.add_port("c", Box::new(port), PortOptions::default()).unwrap();
    send(&mut faulty.0, &frame(BROADCAST, station(3), 1001));
    let bench = Bench::run(switch);
    let mut scene =
        Scene { bench, hands: hands.into_iter().flatten().collect(), faulty: vec![faulty], stopped, go_on };
    until("both were asked for", || scene.has_logged("c: ", "(false, true)"));
    until("the port is ended", || scene.has_logged("c: ", "the port is ended"));
    check("its port asks", scene.bystanders((0, 1), |_| (), |_| true));
    assert!(scene.stopped.try_recv().is_err(), "what it has detached does not stop");
    scene.go_on.store(true, Ordering::Release);
    scene.bench.stop();
}

#[test]
fn a_panic_in_a_queue_takes_only_its_own_port_along() {
    for side in [Side::FromGuest, Side::ToGuest] {
        let mut scene = scene(options(1, Duration::from_secs(10)), 3, 1, side, Some(MachineState::Panics));
        send(&mut scene.faulty[0].0, &frame(BROADCAST, station(4), 1));
        (0..3).for_each(|n| assert_eq!(number(&receive(&mut scene.hands[n].1)), 1));
        let mut told = false;
        let bystander = scene.bystanders(
            (1, 2),
            |scene| match side {
                Side::FromGuest => send(&mut scene.faulty[0].0, &frame(BROADCAST, station(4), 1001)),
                Side::ToGuest => send(&mut scene.hands[0].0, &frame(station(4), station(1), 1001)),
            },
            |scene| match side {
                Side::FromGuest => {
                    scene.has_logged("d: ", "panicked in 'd' (from the guest, queue pair 0): as told")
                }
                Side::ToGuest => {
                    told |= scene.stopped.try_recv().is_ok_and(|(_, side, why)| {
                        side == Side::ToGuest && why.contains("panicked in a burst from 'a'")
                    });
                    told
                }
            },
        );
        check("a panic", bystander);
        // Who sent what the sink could not bear goes on sending.
        send(&mut scene.hands[0].0, &frame(BROADCAST, station(1), 8));
        until("it arrives", || number(&receive(&mut scene.hands[1].1)) == 8);
        scene.bench.stop();
    }
}

/// Its control side reads what a hostile peer sends.
#[test]
fn a_port_that_panics_takes_no_other_along() {
    let (mut switch, hands) = with_ports(&[1, 1], options(1, DEADLINE), |_| PortOptions::default());
    let panics = |when: Duration| {
        let (queues, hand) = pair();
        let start = move |context: &mut dyn PortContext| {
            context.attach_source(0, queues.0);
            context.attach_sink(0, queues.1);
            context.after(port::Token(0), when);
            Ok(())
        };
        (Scripted::new(1, start, |_, _| panic!("out of order")), hand)
    };
    let ((port, stopped), mut faulty) = panics(Duration::from_millis(100));
    switch.add_port("c", Box::new(port), PortOptions::default()).unwrap();
    let (bench, go_on) = (Bench::run(switch), Arc::default());
    send(&mut faulty.0, &frame(BROADCAST, station(3), 1));
    let mut scene =
        Scene { bench, hands: hands.into_iter().flatten().collect(), faulty: vec![], stopped, go_on };
    let said = "its control code panicked: out of order; standard error names the line, which is a mistake of Tautline";
    let over = |scene: &Scene| scene.has_logged("c: ", said);
    check("a port panics", scene.bystanders((0, 1), |_| (), over));
    let gone = &scene.bench.snapshot().ports[2];
    assert_eq!((&*gone.description, gone.addresses, gone.queues.len()), ("panicked", 0, 0));

    // A port that is added while the switch runs leaves as well if it panics, as it starts or later; its name is free
    // again.
    let ((port, _), _) = panics(Duration::ZERO);
    let (at_start, _) = Scripted::new(1, |_| panic!("at once"), |_, _| Ok(()));
    let refused = scene.bench.change(move |view| {
        view.remove_port("c").unwrap();
        let refused = view.add_port("c", Box::new(at_start), PortOptions::default()).unwrap_err().to_string();
        view.add_port("c", Box::new(port), PortOptions::default()).unwrap();
        refused
    });
    assert_eq!(
        refused,
        "starting it: its control code panicked: at once; standard error names the line, which is a mistake of \
         Tautline; the switch goes on without this port"
    );
    let twice = |scene: &Scene| scene.logged().iter().filter(|line| line.contains(said)).count() == 2;
    check("one that was added panics", scene.bystanders((0, 1), |_| (), twice));
    scene.bench.stop();
}

#[test]
fn more_stuck_threads_than_can_be_given_up_end_the_switch() {
    let go_on = Arc::new(AtomicBool::new(false));
    let deadline = Duration::from_millis(20);
    let (mut switch, _hands) = with_ports(&[1], options(1, deadline), |_| PortOptions::default());
    let mut faulty = Vec::new();
    for n in 0..17 {
        let ((source, sink), mut hand) = pair();
        send(&mut hand.0, &frame(BROADCAST, station(n), 1001));
        faulty.push(hand);
        let state = MachineState::Hangs(Arc::clone(&go_on));
        let start = move |context: &mut dyn PortContext| {
            context.attach_source(0, Box::new(Faulty { state, inner: source }));
            context.attach_sink(0, sink);
            Ok(())
        };
        let (port, _) = Scripted::new(1, start, |_, _| Ok(()));
        switch.add_port(format!("m{n}"), Box::new(port), PortOptions::default()).unwrap();
    }
    let bench = Bench::run(switch);
    let logged = Arc::clone(&bench.logged);
    let error = bench.ended().result.unwrap_err();
    go_on.store(true, Ordering::Release);
    assert!(matches!(error, RunError::WorkersStuck { threads: 17, .. }), "{error}");
    assert_eq!(logged.lock().unwrap().len(), 16, "{:#?}", logged.lock().unwrap());
}
