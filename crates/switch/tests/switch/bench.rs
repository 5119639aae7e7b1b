//! A switch on a thread of its own, and what tests need around it.
use std::fmt::Display;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use frame::{QueueCounters, QueueError, Side};
use port::in_memory::testing::{Collector, Injector};
use port::in_memory::{InMemory, QueueOptions, testing};
use port::{Port, PortContext, PortError, Token};
use rustix::event::{EventfdFlags, eventfd};
use switch::{Ended, Operator, Options, PortOptions, Raised, Snapshot, Switch, View};
use virtio::net::NetHeader;

/// Far beyond anything that is not a failure.
pub const LIMIT: Duration = Duration::from_secs(20);

pub type Hands = Vec<(Injector, Collector)>;

pub fn in_memory(pairs: u16) -> (InMemory, Hands) {
    testing::port(pairs, QueueOptions { frame_bytes: 2048, ..QueueOptions::default() }).unwrap()
}

type Change = Box<dyn FnOnce(&mut View<'_>) + Send>;

enum Request {
    Stop,
    Snapshot(Sender<Snapshot>),
    Change(Change),
}

struct TestOperator {
    waker: Arc<OwnedFd>,
    requests: Receiver<Request>,
    logged: Arc<Mutex<Vec<String>>>,
    raised: Arc<Mutex<Vec<Raised>>>,
}

impl Operator for TestOperator {
    fn wake_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }

    fn handle_wake(&mut self, switch: &mut View<'_>) -> ControlFlow<()> {
        rustix::io::read(&self.waker, &mut [0u8; 8]).unwrap();
        for request in self.requests.try_iter() {
            match request {
                Request::Stop => return ControlFlow::Break(()),
                Request::Change(change) => change(switch),
                Request::Snapshot(reply) => reply.send(switch.snapshot()).unwrap(),
            }
        }
        ControlFlow::Continue(())
    }

    fn raised(&mut self, switch: &mut View<'_>) {
        self.raised.lock().unwrap().extend(switch.take_raised(usize::MAX));
    }

    fn log(&mut self, port: &str, message: &dyn Display) {
        self.logged.lock().unwrap().push(format!("{port}: {message}"));
    }
}

/// A running switch.
pub struct Bench {
    waker: Arc<OwnedFd>,
    requests: Sender<Request>,
    pub logged: Arc<Mutex<Vec<String>>>,
    /// Frames for controllers, and flows to be learned.
    pub raised: Arc<Mutex<Vec<Raised>>>,
    thread: Option<JoinHandle<Ended>>,
}

impl Bench {
    pub fn run(switch: Switch) -> Self {
        let waker = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap());
        let (requests, receiver) = channel();
        let (logged, raised) = (Arc::default(), Arc::default());
        let mut operator = TestOperator {
            waker: Arc::clone(&waker),
            requests: receiver,
            logged: Arc::clone(&logged),
            raised: Arc::clone(&raised),
        };
        let thread = std::thread::spawn(move || switch.run(&mut operator));
        Bench { waker, requests, logged, raised, thread: Some(thread) }
    }

    /// Ports of one queue pair each, named a, b, c, ...
    pub fn learning(ports: usize, options: Options) -> (Self, Hands) {
        let (switch, hands) = with_ports(&vec![1; ports], options, |_| PortOptions::default());
        (Bench::run(switch), hands.into_iter().flatten().collect())
    }

    fn ask(&self, request: Request) {
        self.requests.send(request).unwrap();
        rustix::io::write(&self.waker, &1u64.to_ne_bytes()).unwrap();
    }

    pub fn snapshot(&self) -> Snapshot {
        let (reply, answer) = channel();
        self.ask(Request::Snapshot(reply));
        answer.recv_timeout(LIMIT).unwrap()
    }

    /// Does something with the running switch, on its control thread.
    pub fn change<T: Send + 'static>(&self, what: impl FnOnce(&mut View<'_>) -> T + Send + 'static) -> T {
        let (reply, answer) = channel();
        self.ask(Request::Change(Box::new(move |view| reply.send(what(view)).unwrap())));
        answer.recv_timeout(LIMIT).unwrap()
    }

    pub fn stop(mut self) -> Snapshot {
        self.ask(Request::Stop);
        let ended = self.thread.take().unwrap().join().unwrap();
        ended.result.unwrap();
        ended.snapshot
    }

    /// Waits for a switch that ends by itself.
    pub fn ended(mut self) -> Ended {
        let thread = self.thread.take().unwrap();
        until("the switch ends", || thread.is_finished());
        thread.join().unwrap()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if self.thread.is_some() {
            let _ = self.requests.send(Request::Stop);
            let _ = rustix::io::write(&self.waker, &1u64.to_ne_bytes());
        }
    }
}

/// Polls with a deadline.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !done() {
        assert!(Instant::now() < deadline, "not within {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Ports with that many queue pairs, named a, b, c, ...
pub fn with_ports(
    pairs: &[u16],
    options: Options,
    of_port: impl Fn(usize) -> PortOptions,
) -> (Switch, Vec<Hands>) {
    let mut switch = Switch::new(options).unwrap();
    let mut hands = Vec::new();
    for (index, pairs) in pairs.iter().enumerate() {
        let (port, hand) = in_memory(*pairs);
        switch.add_port(name(index), Box::new(port), of_port(index)).unwrap();
        hands.push(hand);
    }
    (switch, hands)
}

pub fn name(index: usize) -> String {
    char::from(b'a' + index as u8).to_string()
}

/// Address of station `n`.
pub fn station(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, n]
}

pub const BROADCAST: [u8; 6] = [0xff; 6];

/// Bytes of [`frame`].
pub const FRAME_BYTES: usize = 100;

/// A frame with a number.
pub fn frame(to: [u8; 6], from: [u8; 6], number: u64) -> Vec<u8> {
    let mut frame = [&to[..], &from, &[0x88, 0xb5], &number.to_be_bytes()].concat();
    frame.resize(FRAME_BYTES, 0xa5);
    frame
}

pub fn number(frame: &[u8]) -> u64 {
    u64::from_be_bytes(frame[14..22].try_into().unwrap())
}

/// Puts a frame in, when there is room.
pub fn send(injector: &mut Injector, frame: &[u8]) {
    until("room for a frame", || injector.inject(NetHeader::default(), frame));
}

pub fn receive(collector: &mut Collector) -> Vec<u8> {
    collector.take_within(LIMIT).expect("a frame").1
}

/// Waits until as many frames were lent by all sources as the test has sent, and all workers are done.
pub fn settled(bench: &Bench, sent: u64) -> Snapshot {
    let mut last = bench.snapshot();
    until("all frames sent were seen and sent over", || {
        last = bench.snapshot();
        queues(&last).filter(|queue| queue.from_guest).map(lent).sum::<u64>() >= sent
            && last.workers.iter().map(|worker| worker.frames).sum::<u64>() >= sent
    });
    last
}

pub fn queues(snapshot: &Snapshot) -> impl Iterator<Item = &switch::QueueSnapshot> {
    snapshot.ports.iter().flat_map(|port| &port.queues)
}

fn lent(queue: &switch::QueueSnapshot) -> u64 {
    queue.frames
}

/// Drops of one reason on the queues of one port in one direction.
pub fn drops(snapshot: &Snapshot, port: usize, from_guest: bool, reason: frame::DropReason) -> u64 {
    let queues = snapshot.ports[port].queues.iter().filter(|queue| queue.from_guest == from_guest);
    let drops = queues.flat_map(|queue| &queue.drops).filter(|(text, _)| *text == reason.text());
    drops.map(|(_, frames)| frames).sum()
}

/// What the crate's page promises of the counters, once all is quiet.
pub fn check_books(snapshot: &Snapshot, announced: u64) {
    let lent: u64 = queues(snapshot).filter(|queue| queue.from_guest).map(|queue| queue.frames).sum();
    let refused: u64 = queues(snapshot).filter(|q| q.from_guest).map(|queue| queue.dropped()).sum();
    let received: u64 = queues(snapshot).filter(|q| !q.from_guest).map(|q| q.frames + q.dropped()).sum();
    let sum = |of: fn(&switch::WorkerCounts) -> u64| snapshot.workers.iter().map(of).sum::<u64>();
    assert_eq!(sum(|worker| worker.copies), received, "given to sinks, and counted there\n{snapshot}");
    let to_one = received - sum(|worker| worker.flood_copies);
    let to_all = sum(|worker| worker.flooded) - announced;
    assert_eq!(lent, to_one + to_all + refused, "lent, and given on or refused\n{snapshot}");
}

type OnStart = Box<dyn FnOnce(&mut dyn PortContext) -> Result<(), PortError> + Send>;
type OnReady = Box<dyn FnMut(Token, &mut dyn PortContext) -> Result<(), PortError> + Send>;

/// A port that does what a test says.
pub struct Scripted {
    pub pairs: u16,
    pub counters: Vec<(u16, Side, Arc<QueueCounters>)>,
    pub start: Option<OnStart>,
    pub ready: OnReady,
    pub stopped: Sender<(u16, Side, String)>,
}

impl Scripted {
    pub fn new(
        pairs: u16,
        start: impl FnOnce(&mut dyn PortContext) -> Result<(), PortError> + Send + 'static,
        ready: impl FnMut(Token, &mut dyn PortContext) -> Result<(), PortError> + Send + 'static,
    ) -> (Self, Receiver<(u16, Side, String)>) {
        let (stopped, heard) = channel();
        let start: Option<OnStart> = Some(Box::new(start));
        (Scripted { pairs, counters: Vec::new(), start, ready: Box::new(ready), stopped }, heard)
    }
}

impl Port for Scripted {
    fn queue_pairs(&self) -> u16 {
        self.pairs
    }

    fn describe(&self) -> String {
        "scripted".to_owned()
    }

    fn counters(&self, pair: u16, side: Side) -> Option<Arc<QueueCounters>> {
        let found = self.counters.iter().find(|(p, s, _)| (*p, *s) == (pair, side));
        found.map(|(_, _, counters)| Arc::clone(counters))
    }

    fn start(&mut self, context: &mut dyn PortContext) -> Result<(), PortError> {
        (self.start.take().unwrap())(context)
    }

    fn ready(&mut self, token: Token, context: &mut dyn PortContext) -> Result<(), PortError> {
        (self.ready)(token, context)
    }

    fn stopped(&mut self, pair: u16, side: Side, why: QueueError, _board: &mut dyn PortContext) {
        self.stopped.send((pair, side, why.to_string())).unwrap();
    }

    fn end(&mut self, context: &mut dyn PortContext) {
        for pair in 0..self.pairs {
            context.detach_source(pair);
            context.detach_sink(pair);
        }
    }
}
