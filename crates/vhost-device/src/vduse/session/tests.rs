//! A session with a kernel of the test's own, and a driver on the same memory.
use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Mutex;

use linux::vduse::Request;
use memory::{Address, Backing};
use vhost_user::SharedFd;
use virtqueue::{Burst, DeviceOptions, DriverQueue, Piece, QueueConfig, Request as Chain, RingFeatures};

use super::*;
use crate::testing::echo::Echo;
use crate::testing::guest_memory::{DATA, DATA_BYTES, GuestMemory, RINGS, RINGS_BYTES, ring_at};
use crate::{Log, PlainContext};

const PACKED: Features = Features::VERSION_1.union(Features::RING_PACKED);

/// The kernel's state of the device.
struct State {
    features: Features,
    queue: Queue,
    kick: Option<EventFd>,
    memory: Vec<(MemoryEntry, File)>,
    requests: VecDeque<RequestKind>,
    replies: Vec<Reply>,
    interrupts: u32,
    is_ready: bool,
    is_given_up: bool,
}

struct Fake {
    file: EventFd,
    state: Mutex<State>,
}

fn refused(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

impl Kernel for Fake {
    fn file(&self) -> SharedFd {
        self.file.shared().clone()
    }

    fn features(&self) -> io::Result<u64> {
        let state = self.state.lock().unwrap();
        if state.is_given_up { Err(refused(libc::EPERM)) } else { Ok(state.features.bits()) }
    }

    fn queue(&self, index: u32, _: bool) -> io::Result<Queue> {
        assert_eq!(index, 0);
        Ok(self.state.lock().unwrap().queue)
    }

    fn set_kick(&self, _: u32, kick: &EventFd) -> io::Result<()> {
        self.state.lock().unwrap().kick = Some(kick.clone());
        Ok(())
    }

    fn inject(&self, _: u32) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        if !state.is_ready {
            return Err(refused(libc::EINVAL));
        }
        state.interrupts += 1;
        Ok(())
    }

    fn memory(&self, start: u64) -> io::Result<Option<(MemoryEntry, OwnedFd)>> {
        let state = self.state.lock().unwrap();
        let found = state.memory.iter().find(|(entry, _)| entry.last >= start);
        Ok(found.map(|(entry, file)| (*entry, file.try_clone().unwrap().into())))
    }

    fn request(&self) -> io::Result<Option<Request>> {
        let mut state = self.state.lock().unwrap();
        Ok(state.requests.pop_front().map(|kind| Request { id: 7, kind }))
    }

    fn reply(&self, _: Request, reply: Reply) -> io::Result<()> {
        self.state.lock().unwrap().replies.push(reply);
        Ok(())
    }
}

/// A session, its kernel and its driver.
struct Bench<L> {
    kernel: Arc<Fake>,
    memory: GuestMemory,
    session: Session<Echo>,
    record: Record,
    context: PlainContext<L>,
    logged: Arc<Mutex<Vec<String>>>,
}

fn entry(start: u64, bytes: u64) -> MemoryEntry {
    MemoryEntry { start, last: start + bytes - 1, offset: 0, is_writable: true }
}

fn session(kernel: &Arc<Fake>, record: &Record) -> Session<Echo> {
    let peer = PeerMemory::new(1 << 30, Backing::Ram).unwrap();
    let shared = Arc::new(Shared::new(Arc::new(Log::new("echo"))));
    let offered = Echo.features().union(Features::ACCESS_PLATFORM);
    Session::new(Arc::clone(kernel) as _, Echo, offered, shared, peer).with_record(Some(record.clone()))
}

fn bench(features: Features) -> Bench<impl FnMut(&dyn Display)> {
    let memory = GuestMemory::new(c"vduse", &[(RINGS, RINGS_BYTES), (DATA, DATA_BYTES)]);
    let (descriptors, driver, device) = ring_at(0);
    let position = match layout_of(features) {
        RingLayout::Split => Position::Split(0),
        RingLayout::Packed => Position::Packed { available: 0x8000, used: 0x8000 },
    };
    let state = State {
        features: features.union(Features::ACCESS_PLATFORM),
        queue: Queue { size: 16, descriptors, driver, device, position, is_ready: true },
        kick: None,
        // The memory of the buffers comes with the first of them.
        memory: vec![(entry(RINGS, RINGS_BYTES), memory.regions[0].1.try_clone().unwrap())],
        requests: VecDeque::new(),
        replies: Vec::new(),
        interrupts: 0,
        is_ready: false,
        is_given_up: false,
    };
    let kernel = Arc::new(Fake { file: EventFd::new().unwrap(), state: Mutex::new(state) });
    let logged = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&logged);
    let context = PlainContext::new(move |line: &dyn Display| lines.lock().unwrap().push(line.to_string()));
    let file = rustix::fs::memfd_create(c"record", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let record = Record { file: SharedFd::new(Arc::new(file)), offset: 0, queue_size: 16 };
    Bench { session: session(&kernel, &record), record, kernel, memory, context, logged }
}

impl<L: FnMut(&dyn Display)> Bench<L> {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.kernel.state.lock().unwrap()
    }

    fn ask(&mut self, request: RequestKind) -> Reply {
        self.state().requests.push_back(request);
        self.session.serve(&mut self.context).unwrap();
        self.state().replies.pop().unwrap()
    }

    fn be_ready(&mut self) {
        for status in [0, 1, 3, 3 | FEATURES_OK, 3 | FEATURES_OK | DRIVER_OK] {
            assert_eq!(self.ask(RequestKind::SetStatus(status)), Reply::Done, "{status}");
        }
    }

    fn ring(&self) -> QueueConfig {
        let Queue { descriptors, driver, device, .. } = self.state().queue;
        let features = RingFeatures::from(self.state().features);
        QueueConfig {
            features,
            size: 16,
            descriptors: Address::Guest(descriptors),
            driver_area: Address::Guest(driver),
            device_area: Address::Guest(device),
            position: virtqueue::Position::start(features.layout),
        }
    }

    fn driver(&self) -> Box<dyn DriverQueue> {
        self.ring().activate_driver(&self.memory.space, None).unwrap()
    }

    /// The memory of buffers, as the kernel lists it from the first buffer on.
    fn add_buffers(&mut self) {
        let buffers = self.memory.regions[1].1.try_clone().unwrap();
        self.state().memory.push((entry(DATA, DATA_BYTES), buffers));
    }

    fn send(&mut self, driver: &mut dyn DriverQueue, bytes: &[u8]) {
        self.memory.write(DATA, bytes);
        let readable = [Piece { address: DATA, len: bytes.len() as u32 }];
        let writable = [Piece { address: DATA + 4096, len: 64 }];
        let chain = Chain { readable: &readable, writable: &writable, cookie: 5 };
        assert_eq!(driver.add_requests(&[chain]), 1);
        let kick = self.state().kick.clone();
        kick.unwrap().notify();
    }

    /// Serves kicks and timers until nothing happens for a while.
    fn settle(&mut self) {
        loop {
            let ready = self.context.wait(Duration::from_millis(50)).unwrap();
            if ready.is_empty() {
                return;
            }
            for token in ready {
                match token {
                    INTERRUPTS => self.session.interrupt(&mut self.context),
                    token => self.session.kicked(tokens::kicked(token).unwrap(), &mut self.context),
                }
            }
        }
    }

    fn receive(&mut self, driver: &mut dyn DriverQueue) -> Vec<Vec<u8>> {
        self.settle();
        let mut used = Vec::new();
        driver.reclaim(&mut used, 16).unwrap();
        used.iter().map(|used| self.memory.read(DATA + 4096, used.written as usize)).collect()
    }

    fn exchange(&mut self, driver: &mut dyn DriverQueue, bytes: &[u8]) {
        self.send(driver, bytes);
        assert_eq!(self.receive(driver), [bytes], "said {:#?}", self.logged.lock().unwrap());
    }
}

#[test]
fn a_queue_begins_with_the_first_kick_and_finds_the_memory_of_its_buffers() {
    for features in [Features::VERSION_1, PACKED] {
        let mut bench = bench(features);
        bench.be_ready();
        let mut driver = bench.driver();
        bench.settle();
        assert!(bench.session.engine.rings.indices().is_empty(), "nothing was kicked");
        bench.add_buffers();
        bench.state().is_ready = true;
        bench.exchange(&mut *driver, b"what is read comes back");
        bench.exchange(&mut *driver, b"and once more");
        assert!(bench.state().interrupts >= 2);
        let Reply::QueueState(position) = bench.ask(RequestKind::QueueState(0)) else { panic!() };
        match position {
            Position::Split(next) => assert_eq!(next, 2),
            Position::Packed { available, used } => assert_eq!((available, used), (0x8004, 0x8004)),
        }
        // A question stops nothing.
        bench.exchange(&mut *driver, b"goes on");
        assert!(bench.logged.lock().unwrap().is_empty(), "{:?}", bench.logged);
    }
}

#[test]
fn a_packed_ring_may_have_the_available_position_alone() {
    let mut bench = bench(PACKED);
    bench.state().queue.position = Position::Packed { available: 0x8000, used: 0 };
    bench.add_buffers();
    bench.state().is_ready = true;
    bench.be_ready();
    let mut driver = bench.driver();
    bench.exchange(&mut *driver, b"as DPDK does");
}

/// A driver is interrupted once it is ready, though the device was quicker.
#[test]
fn an_interrupt_that_came_too_early_comes_again() {
    let mut bench = bench(Features::VERSION_1);
    bench.be_ready();
    bench.add_buffers();
    let mut driver = bench.driver();
    bench.send(&mut *driver, b"early");
    for _ in 0..3 {
        for token in bench.context.wait(Duration::from_millis(20)).unwrap() {
            match token {
                INTERRUPTS => bench.session.interrupt(&mut bench.context),
                token => bench.session.kicked(tokens::kicked(token).unwrap(), &mut bench.context),
            }
        }
    }
    assert_eq!(bench.state().interrupts, 0);
    bench.state().is_ready = true;
    assert_eq!(bench.receive(&mut *driver), [b"early"]);
    assert!(bench.state().interrupts > 0);
}

#[test]
fn another_process_goes_on_where_the_rings_stand() {
    for features in [Features::VERSION_1, PACKED] {
        let mut bench = bench(features);
        bench.add_buffers();
        bench.state().is_ready = true;
        bench.be_ready();
        let mut driver = bench.driver();
        bench.exchange(&mut *driver, b"before");
        // The process is killed while a buffer is waiting: what the kernel has stays. A packed ring with chains of
        // several slots does not show how far it was used: the record does.
        for _ in 0..3 {
            bench.session = session(&bench.kernel, &bench.record);
            bench.send(&mut *driver, b"meanwhile");
            bench.session.go_on(&Bases::Rings, &mut bench.context).unwrap();
            assert_eq!(bench.receive(&mut *driver), [b"meanwhile"], "{:?}", bench.logged);
            bench.exchange(&mut *driver, b"after");
        }
        // Handed over, with the position.
        let bases = bench.session.park(&mut bench.context);
        bench.session = session(&bench.kernel, &bench.record);
        bench.session.go_on(&Bases::HandedOver(bases), &mut bench.context).unwrap();
        bench.exchange(&mut *driver, b"handed over");
    }
}

/// A chain that the killed process had taken is served, though no kick comes for it.
#[test]
fn another_process_serves_the_chains_in_flight() {
    let mut bench = bench(PACKED);
    bench.add_buffers();
    bench.state().is_ready = true;
    bench.be_ready();
    let mut driver = bench.driver();
    bench.exchange(&mut *driver, b"before");
    bench.session = session(&bench.kernel, &bench.record);
    bench.send(&mut *driver, b"taken");
    let peer = PeerMemory::new(1 << 20, Backing::Ram).unwrap();
    let in_flight = bench.record.open(1, true, &peer).unwrap().expect("the record");
    let options = DeviceOptions { in_flight: Some((in_flight.mapping, 0)), ..DeviceOptions::default() };
    let mut killed = bench.ring().activate_device(&bench.memory.space, options).unwrap();
    assert_eq!(killed.pop(&mut Burst::new(16), 16), Ok(1));
    drop(killed);
    bench.session.go_on(&Bases::Rings, &mut bench.context).unwrap();
    assert_eq!(bench.receive(&mut *driver), [b"taken"], "{:?}", bench.logged);
    bench.exchange(&mut *driver, b"after");
}

#[test]
fn memory_that_the_kernel_takes_away_is_not_used_any_more() {
    for features in [Features::VERSION_1, PACKED] {
        let mut bench = bench(features);
        bench.add_buffers();
        bench.be_ready();
        let mut driver = bench.driver();
        bench.exchange(&mut *driver, b"before");
        let all = RequestKind::UpdateMemory(0, u64::MAX);
        assert_eq!(bench.ask(all), Reply::Done);
        bench.exchange(&mut *driver, b"the same memory, mapped anew");
        let taken = std::mem::take(&mut bench.state().memory);
        assert_eq!(bench.ask(all), Reply::Done);
        bench.send(&mut *driver, b"nobody reads this");
        assert!(bench.receive(&mut *driver).is_empty());
        assert!(bench.session.engine.memory.space.regions().is_empty());
        // After a reset all is as at first.
        bench.state().memory = taken;
        bench.memory.write(RINGS, &vec![0; RINGS_BYTES as usize]);
        bench.be_ready();
        let mut driver = bench.driver();
        bench.exchange(&mut *driver, b"again");
    }
}

/// An odd driver or kernel costs its own device, and nothing else.
#[test]
fn odd_requests_are_refused_and_the_session_goes_on() {
    let mut bench = bench(Features::VERSION_1);
    for odd in [
        RequestKind::Unknown(3),
        RequestKind::Unknown(u32::MAX),
        RequestKind::QueueState(1),
        RequestKind::QueueState(u32::MAX),
    ] {
        assert_eq!(bench.ask(odd), Reply::Failed, "{odd:?}");
    }
    assert_eq!(bench.ask(RequestKind::QueueState(0)), Reply::QueueState(Position::Split(0)));
    // In any order.
    for status in [FAILED, DRIVER_OK, 0xff, 0x40, 0, DRIVER_OK, DRIVER_OK, FEATURES_OK] {
        assert_eq!(bench.ask(RequestKind::SetStatus(status)), Reply::Done, "{status:#x}");
    }
    assert_eq!(bench.ask(RequestKind::SetStatus(0)), Reply::Done);
    let offered = std::mem::replace(&mut bench.state().features, Features::RING_RESET);
    assert_eq!(bench.ask(RequestKind::SetStatus(FEATURES_OK)), Reply::Failed);
    bench.state().features = offered;

    let good = bench.state().queue;
    for odd in [
        Queue { size: 0, ..good },
        Queue { size: 3, ..good },
        Queue { size: u32::MAX, ..good },
        Queue { descriptors: good.descriptors + 1, ..good },
        Queue { driver: u64::MAX - 1, ..good },
        Queue { device: 4, ..good },
        Queue { descriptors: RINGS + RINGS_BYTES - 16, ..good },
    ] {
        bench.state().queue = odd;
        bench.be_ready();
        assert!(bench.session.engine.rings.indices().is_empty(), "{odd:?}");
    }
    bench.state().queue = good;
    let rings = bench.memory.regions[0].1.try_clone().unwrap();
    for list in [
        vec![MemoryEntry { start: 8192, last: 4096, offset: 0, is_writable: true }],
        vec![MemoryEntry { start: 0, last: u64::MAX, offset: 0, is_writable: true }],
        vec![entry(0, 1 << 40)],
        vec![MemoryEntry { offset: u64::MAX - 4095, ..entry(0, 4096) }],
        (0..2 * memory::MAX_REGIONS as u64).map(|number| entry(number * 8192, 4096)).collect(),
    ] {
        let file = |entry: MemoryEntry| (entry, rings.try_clone().unwrap());
        let (first, count) = (list[0], list.len());
        bench.state().memory = list.into_iter().map(file).collect();
        assert_eq!(bench.ask(RequestKind::UpdateMemory(5, 1)), Reply::Failed, "{count} from {first:?}");
    }
    bench.state().memory = vec![(entry(RINGS, RINGS_BYTES), rings)];
    bench.add_buffers();
    bench.memory.write(RINGS, &vec![0; RINGS_BYTES as usize]);
    bench.be_ready();
    let mut driver = bench.driver();
    bench.exchange(&mut *driver, b"well after all");
}

#[test]
fn a_device_that_the_kernel_has_given_up_ends_its_session() {
    let mut bench = bench(Features::VERSION_1);
    bench.session.serve(&mut bench.context).unwrap();
    bench.state().is_given_up = true;
    assert!(matches!(bench.session.serve(&mut bench.context), Err(End::GivenUp)));
}
