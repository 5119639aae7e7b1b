//! Another kind of device than a network card: one queue, whose buffers come back with what was read from them. All
//! that it has of `vhost-device` is public, and nothing there knows of it.
use std::fmt::Display;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use memory::Address;
use vhost_device::testing::guest_memory::{
    DATA, DATA_BYTES, GuestMemory, RINGS, RINGS_BYTES, event_fd, ring_addresses, ring_at,
};
use vhost_device::{
    Backend, BackendOptions, BurstQueue, Context, Device, EventFd, Log, Notifiers, PlainContext, RingSet,
};
use vhost_user::bits::ProtocolFeatures;
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::{ConfigAccess, VringFd, VringState};
use vhost_user::session::Refusal;
use vhost_user::session::frontend::{Answer, FrontendSession};
use vhost_user::socket::Connection;
use vhost_user::vring::VringBase;
use virtio::Features;
use virtqueue::{
    DeviceQueue, DriverQueue, Piece, PopError, Position, QueueConfig, Request as Chain, RingError,
    RingFeatures,
};

#[derive(Clone)]
struct Echo;

impl Device for Echo {
    type Kind = ();
    type Queue = BurstQueue;
    type Context<'a> = dyn Context + 'a;

    fn features(&self) -> Features {
        Features::VERSION_1.union(Features::RING_PACKED)
    }

    fn protocol_features(&self) -> ProtocolFeatures {
        ProtocolFeatures::CONFIG
    }

    fn queue_count(&self) -> u16 {
        1
    }

    fn kind(&self, _: usize) {}

    fn name((): ()) -> String {
        "echo queue".to_owned()
    }

    fn is_served_here((): ()) -> bool {
        true
    }

    fn queue(
        &self,
        (): (),
        queue: Box<dyn DeviceQueue>,
        notifiers: Notifiers,
    ) -> Result<BurstQueue, Refusal> {
        Ok(BurstQueue::new(queue, notifiers, 1))
    }

    fn set_features(&mut self, _: Features) {}

    fn serve(
        &mut self,
        BurstQueue { queue, burst, notifiers }: &mut BurstQueue,
        _: &mut dyn RingSet<Self>,
        _: &mut Self::Context<'_>,
    ) -> Result<bool, RingError> {
        notifiers.kick.iter().for_each(|kick| _ = kick.drain());
        loop {
            match queue.pop(burst, 1) {
                Ok(0) if queue.enable_kicks() => continue,
                Ok(0) | Err(PopError::Miss { .. }) => return Ok(false),
                Ok(_) => {}
                Err(PopError::Malformed(error)) => return Err(error),
            }
            let chain = burst.chain(0);
            let mut bytes = vec![0; chain.readable_bytes() as usize];
            chain.read(0, &mut bytes);
            let written = chain.write(0, &bytes);
            burst.set_written(0, written as u32);
            queue.add_used_all(burst);
            notifiers.call.iter().for_each(EventFd::notify);
        }
    }

    fn config(&self) -> Vec<u8> {
        vec![7]
    }
}

/// Lines of the log.
type Logged = Arc<Mutex<Vec<String>>>;

/// The device behind its socket, on a context of its own.
struct Host<L> {
    backend: Backend<Echo>,
    context: PlainContext<L>,
    logged: Logged,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

fn host() -> Host<impl FnMut(&dyn Display)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("echo.sock");
    let logged = Logged::default();
    let lines = Arc::clone(&logged);
    let mut context =
        PlainContext::new(move |line: &dyn Display| lines.lock().unwrap().push(line.to_string()));
    let options = BackendOptions::new(&path);
    let mut backend = Backend::new(Echo, Arc::new(Log::new("echo")), options).unwrap();
    backend.start(&mut context).unwrap();
    Host { backend, context, logged, path, _folder: folder }
}

impl<L: FnMut(&dyn Display)> Host<L> {
    fn until<T>(&mut self, what: &str, mut holds: impl FnMut(&mut Backend<Echo>) -> Option<T>) -> T {
        // Only a failing test waits for it.
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            if let Some(held) = holds(&mut self.backend) {
                return held;
            }
            assert!(Instant::now() < deadline, "waited for: {what}; said {:#?}", self.logged.lock().unwrap());
            for token in self.context.wait(Duration::from_millis(10)).unwrap() {
                self.backend.ready(token, &mut self.context).unwrap();
            }
        }
    }
}

/// A front-end with memory and the driver half of the queue.
struct Guest {
    connection: Connection,
    session: FrontendSession,
    memory: GuestMemory,
    driver: Box<dyn DriverQueue>,
    kick: OwnedFd,
    call: EventFd,
}

impl Guest {
    fn connect<L: FnMut(&dyn Display)>(host: &mut Host<L>, wanted: Features) -> Self {
        let memory = GuestMemory::new(c"echo", &[(RINGS, RINGS_BYTES), (DATA, DATA_BYTES)]);
        let features = RingFeatures::from(wanted);
        let (descriptors, driver_area, device_area) = ring_at(0);
        let ring = QueueConfig {
            features,
            size: 16,
            descriptors: Address::Guest(descriptors),
            driver_area: Address::Guest(driver_area),
            device_area: Address::Guest(device_area),
            position: Position::start(features.layout),
        };
        let driver = ring.activate_driver(&memory.space, None).unwrap();
        let connection = Connection::connect(&host.path).unwrap();
        let call = EventFd::new().unwrap();
        let session = FrontendSession::new();
        let mut guest = Guest { connection, session, memory, driver, kick: event_fd(), call };
        guest.set_up(host, wanted);
        guest
    }

    /// Agrees on features, shares the memory, and says all of the ring but its kick.
    fn set_up<L: FnMut(&dyn Display)>(&mut self, host: &mut Host<L>, wanted: Features) {
        self.ask(host, Request::SetOwner, vec![]);
        let Some(Answer::Features(offered)) = self.ask(host, Request::GetFeatures, vec![]) else { panic!() };
        let offered = Features::from_bits_retain(offered.bits());
        assert!(offered.contains(wanted.union(Features::VHOST_LOG_ALL)), "{offered:?}");
        let Some(Answer::ProtocolFeatures(protocol)) = self.ask(host, Request::GetProtocolFeatures, vec![])
        else {
            panic!()
        };
        self.ask(host, Request::SetProtocolFeatures(protocol & ProtocolFeatures::HANDLED), vec![]);
        self.ask(host, Request::SetFeatures(wanted.union(Features::VHOST_PROTOCOL_FEATURES)), vec![]);
        let (table, files) = self.memory.table();
        self.ask(host, Request::SetMemTable(table), files);
        let call = self.call.share().unwrap();
        self.ask(host, Request::SetVringCall(VringFd { index: 0, has_fd: true }), vec![call]);
        self.ask(host, Request::SetVringNum(VringState { index: 0, num: 16 }), vec![]);
        let start = Position::start(RingFeatures::from(wanted).layout).to_vring_base();
        self.ask(host, Request::SetVringBase(VringState { index: 0, num: start }), vec![]);
        self.ask(host, Request::SetVringAddr(ring_addresses(0)), vec![]);
    }

    fn ask<L: FnMut(&dyn Display)>(
        &mut self,
        host: &mut Host<L>,
        request: Request,
        fds: Vec<OwnedFd>,
    ) -> Option<Answer> {
        let message = self.session.request(request, fds).unwrap();
        self.connection.try_send(message).unwrap();
        if !self.session.is_waiting() {
            return None;
        }
        let reply = host.until("a reply", |_| self.connection.try_receive().unwrap());
        Some(self.session.receive(reply).unwrap())
    }

    fn start<L: FnMut(&dyn Display)>(&mut self, host: &mut Host<L>) {
        let kick = self.kick.try_clone().unwrap();
        let answer = self.ask(host, Request::SetVringKick(VringFd { index: 0, has_fd: true }), vec![kick]);
        assert!(matches!(answer, Some(Answer::Done { .. })), "{answer:?}");
        self.ask(host, Request::SetVringEnable(VringState { index: 0, num: 1 }), vec![]);
    }

    /// Sends these bytes to the device, and returns those that come back.
    fn exchange<L: FnMut(&dyn Display)>(&mut self, host: &mut Host<L>, bytes: &[u8]) -> Vec<u8> {
        self.memory.write(DATA, bytes);
        let readable = [Piece { address: DATA, len: bytes.len() as u32 }];
        let writable = [Piece { address: DATA + 4096, len: 64 }];
        let chain = Chain { readable: &readable, writable: &writable, cookie: 5 };
        assert_eq!(self.driver.add_requests(&[chain]), 1);
        rustix::io::write(&self.kick, &1u64.to_ne_bytes()).unwrap();
        let used = host.until("a buffer that comes back", |_| {
            let mut used = Vec::new();
            self.driver.reclaim(&mut used, 16).unwrap();
            used.pop()
        });
        assert_eq!(used.cookie, 5);
        assert!(self.call.drain() > 0, "the driver was not told");
        self.memory.read(DATA + 4096, used.written as usize)
    }

    fn stop<L: FnMut(&dyn Display)>(&mut self, host: &mut Host<L>) -> VringBase {
        match self.ask(host, Request::GetVringBase(VringState { index: 0, num: 0 }), vec![]) {
            Some(Answer::VringBase { base, .. }) => base,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_device_that_is_no_network_card_is_served() {
    let mut host = host();
    for wanted in [Features::VERSION_1, Features::VERSION_1.union(Features::RING_PACKED)] {
        let mut guest = Guest::connect(&mut host, wanted);
        guest.start(&mut host);
        for bytes in ["what is read comes back", "and once more"] {
            assert_eq!(guest.exchange(&mut host, bytes.as_bytes()), bytes.as_bytes());
        }
        let config = Request::GetConfig(ConfigAccess { offset: 0, migration: false, bytes: vec![0; 3] });
        let answer = guest.ask(&mut host, config, vec![]);
        assert!(
            matches!(&answer, Some(Answer::Config(config)) if config.as_deref() == Some(&[7, 0, 0])),
            "{answer:?}"
        );
        let base = guest.stop(&mut host);
        if let VringBase::Split { next_available } = base {
            assert_eq!(next_available, 2);
        }
        drop(guest);
        host.until("gone", |backend| backend.features().is_none().then_some(()));
    }
}

#[test]
fn a_device_goes_on_in_another_process_and_its_front_end_does_not_notice() {
    let (mut old, mut new) = (host(), host());
    let mut guest = Guest::connect(&mut old, Features::VERSION_1);
    guest.start(&mut old);
    assert_eq!(guest.exchange(&mut old, b"before"), b"before");

    // As the other process has it: the same options, and not started.
    new.backend.end(&mut new.context);
    let options = old.backend.options().clone();
    new.backend = Backend::new(Echo, Arc::new(Log::new("echo")), options).unwrap();
    let state = old.backend.hand_over(&mut old.context).unwrap();
    new.backend.take_over(state, &mut new.context).unwrap();
    old.backend.leave();
    assert_eq!(guest.exchange(&mut new, b"after"), b"after");
    assert_eq!(guest.stop(&mut new), VringBase::Split { next_available: 2 });
}

#[test]
fn a_ring_of_the_control_thread_needs_a_kick() {
    let mut host = host();
    let mut guest = Guest::connect(&mut host, Features::VERSION_1);
    let answer = guest.ask(&mut host, Request::SetVringKick(VringFd { index: 0, has_fd: false }), vec![]);
    assert!(matches!(answer, Some(Answer::Refused { .. })), "{answer:?}");
    let logged = host.logged.lock().unwrap();
    assert!(logged.iter().any(|line| line.contains("echo queue: a kick eventfd is needed")), "{logged:#?}");
}
