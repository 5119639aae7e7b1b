//! Queues, ports and workers that fail.
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use frame::{FrameBatch, QueueCounters, QueueError, Side, Sink, Source};
use port::{PortError, Token};
use switch::{Options, PortOptions, Switch};

use crate::attaching::pair;
use crate::bench::*;

/// What a queue does from a frame on whose number is above 1000.
#[derive(Clone)]
pub enum MachineState {
    Fails,
    Panics,
    /// Until told otherwise.
    Hangs(Arc<AtomicBool>),
    /// The source wakes no worker.
    Silent,
}

pub struct Faulty<T: ?Sized> {
    pub state: MachineState,
    pub inner: Box<T>,
}

impl MachineState {
    fn act(&self) -> Result<(), QueueError> {
        match self {
            MachineState::Fails => {
                Err(QueueError::System { action: "failing", source: io::Error::other("as told") })
            }
            MachineState::Panics => panic!("as told"),
            MachineState::Hangs(until) => {
                while !until.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(())
            }
            MachineState::Silent => Ok(()),
        }
    }
}

fn is_special(batch: &FrameBatch) -> bool {
    batch.frames().any(|frame| number(frame.snapshot()) > 1000)
}

impl Source for Faulty<dyn Source> {
    fn rx_burst(&mut self, max: usize) -> Result<&FrameBatch, QueueError> {
        let batch = self.inner.rx_burst(max)?;
        if is_special(batch) {
            self.state.act()?;
        }
        Ok(batch)
    }
    fn needs_release(&self) -> bool {
        self.inner.needs_release()
    }
    fn release(&mut self) {
        self.inner.release();
    }
    fn sleep(&mut self) -> bool {
        match self.state {
            MachineState::Silent => false,
            _ => self.inner.sleep(),
        }
    }
    fn wake(&mut self) {
        if !matches!(self.state, MachineState::Silent) {
            self.inner.wake();
        }
    }
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.wake_fd().filter(|_| !matches!(self.state, MachineState::Silent))
    }
    fn counters(&self) -> &Arc<QueueCounters> {
        self.inner.counters()
    }
}

impl Sink for Faulty<dyn Sink> {
    fn accept(&mut self, batch: &FrameBatch, which: &[u16]) -> Result<(), QueueError> {
        if is_special(batch) {
            self.state.act()?;
        }
        self.inner.accept(batch, which)
    }
    fn counters(&self) -> &Arc<QueueCounters> {
        self.inner.counters()
    }
}

struct Scene {
    bench: Bench,
    /// The ends of ports a and b.
    hands: Vec<Hands>,
    /// The ends of port c, whose queues have the mood.
    faulty: (port::in_memory::testing::Injector, port::in_memory::testing::Collector),
    stopped: std::sync::mpsc::Receiver<(u16, Side, String)>,
}

/// Ports a and b, and c whose source or sink has the mood. When c's timer fires, 20 ms after the start and
/// then again, it does what `ready` says.
fn scene(
    options: Options,
    side: Side,
    state: &MachineState,
    ready: impl FnMut(Token, &mut dyn port::PortContext) -> Result<(), PortError> + Send + 'static,
) -> Scene {
    let (mut switch, hands) = with_ports(&[1, 1], options, |_| PortOptions::default());
    let ((mut source, mut sink), faulty) = pair();
    match side {
        Side::FromGuest => source = Box::new(Faulty { state: state.clone(), inner: source }),
        Side::ToGuest => sink = Box::new(Faulty { state: state.clone(), inner: sink }),
    }
    let start = move |context: &mut dyn port::PortContext| {
        context.attach_source(0, source);
        context.attach_sink(0, sink);
        context.after(Token(0), Duration::from_millis(20));
        Ok(())
    };
    let (port, stopped) = Scripted::new(1, start, ready);
    switch.add_port("c", Box::new(port), PortOptions::default()).unwrap();
    Scene { bench: Bench::run(switch), hands, faulty, stopped }
}

fn nothing(_: Token, _: &mut dyn port::PortContext) -> Result<(), PortError> {
    Ok(())
}

fn workers(count: usize) -> Options {
    Options { workers: vec![None; count], ..Options::default() }
}

/// a and b still reach each other.
fn others_go_on(hands: &mut [Hands]) {
    for n in 500..600 {
        send(&mut hands[0][0].0, &frame(BROADCAST, station(1), n));
        while number(&receive(&mut hands[1][0].1)) != n {}
        send(&mut hands[1][0].0, &frame(BROADCAST, station(2), n));
        while number(&receive(&mut hands[0][0].1)) != n {}
    }
}

#[test]
fn a_source_that_fails_is_taken_out_and_the_others_go_on() {
    for count in [1, 2] {
        let mut scene = scene(workers(count), Side::FromGuest, &MachineState::Fails, nothing);
        send(&mut scene.faulty.0, &frame(BROADCAST, station(3), 1));
        assert_eq!(number(&receive(&mut scene.hands[0][0].1)), 1);
        send(&mut scene.faulty.0, &frame(BROADCAST, station(3), 1001));
        let (pair, side, why) = scene.stopped.recv_timeout(LIMIT).unwrap();
        assert_eq!((pair, side, &*why), (0, Side::FromGuest, "failing: as told"));
        others_go_on(&mut scene.hands);
        scene.bench.stop();
    }
}

#[test]
fn a_sink_that_fails_is_taken_out_and_the_others_go_on() {
    for count in [1, 2] {
        let mut scene = scene(workers(count), Side::ToGuest, &MachineState::Fails, nothing);
        send(&mut scene.hands[0][0].0, &frame(BROADCAST, station(1), 1001));
        let (pair, side, why) = scene.stopped.recv_timeout(LIMIT).unwrap();
        assert_eq!((pair, side, &*why), (0, Side::ToGuest, "failing: as told"));
        assert_eq!(number(&receive(&mut scene.hands[1][0].1)), 1001, "the other receiver has it");
        others_go_on(&mut scene.hands);
        scene.bench.stop();
        assert!(scene.stopped.try_recv().is_err(), "logged once");
    }
}

#[test]
fn a_source_that_wakes_nobody_is_asked_now_and_then() {
    let mut scene = scene(workers(1), Side::FromGuest, &MachineState::Silent, nothing);
    for n in 0..20 {
        let sleeps = scene.bench.snapshot().workers[0].sleeps;
        until("it sleeps", || scene.bench.snapshot().workers[0].sleeps > sleeps);
        send(&mut scene.faulty.0, &frame(BROADCAST, station(3), n));
        assert_eq!(number(&receive(&mut scene.hands[0][0].1)), n);
    }
    let snapshot = scene.bench.stop();
    assert!(snapshot.workers[0].wakes < snapshot.workers[0].sleeps, "{snapshot}");
}

#[test]
fn a_port_that_panics_ends_the_switch_if_it_is_the_only_one() {
    let mut switch = Switch::new(workers(1)).unwrap();
    let start = |context: &mut dyn port::PortContext| {
        context.after(Token(0), Duration::ZERO);
        Ok(())
    };
    let (port, _) = Scripted::new(1, start, |_, _| panic!("out of order"));
    switch.add_port("c", Box::new(port), PortOptions::default()).unwrap();
    let error = Bench::run(switch).ended().result.unwrap_err();
    assert_eq!(
        error.to_string(),
        "running port 'c': its control code panicked: out of order; standard error names the line, which is a mistake of \
         Tautline; start the switch without this port"
    );
}

#[test]
fn a_port_that_ends_by_an_error_leaves_the_others_alone() {
    let fails =
        |_: Token, _: &mut dyn port::PortContext| Err(PortError::new("reading", "gone", "attach it again"));
    let mut scene = scene(workers(1), Side::FromGuest, &MachineState::Fails, fails);
    let logged = Arc::clone(&scene.bench.logged);
    until("it is logged", || {
        logged.lock().unwrap().iter().any(|logged| logged == "c: reading: gone; attach it again")
    });
    others_go_on(&mut scene.hands);
    let snapshot = scene.bench.stop();
    assert_eq!(snapshot.ports.len(), 3);
}

#[test]
fn a_port_that_cannot_start_ends_the_switch() {
    let (mut switch, _hands) = with_ports(&[1], Options::default(), |_| PortOptions::default());
    let (port, _) =
        Scripted::new(1, |_| Err(PortError::new("opening x", "no such file", "make it")), nothing);
    switch.add_port("x", Box::new(port), PortOptions::default()).unwrap();
    let error = Bench::run(switch).ended().result.unwrap_err();
    assert_eq!(error.to_string(), "port 'x': opening x: no such file; make it");
}

#[test]
fn a_cpu_that_is_not_there_is_named() {
    for cpu in [1000, 100_000] {
        let options = Options { workers: vec![Some(cpu)], ..Options::default() };
        let (bench, _hands) = Bench::learning(2, options);
        let error = bench.ended().result.unwrap_err().to_string();
        assert!(error.starts_with("worker 0: pinning it to"), "{error}");
        assert!(error.contains(&cpu.to_string()), "{error}");
    }
}
