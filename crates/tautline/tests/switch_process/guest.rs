//! A front-end with memory and driver halves, at a socket of the switch.
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use memory::Address;
use vhost_user::bits::ProtocolFeatures;
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::{Inflight, VringFd, VringState};
use vhost_user::session::frontend::{Answer, FrontendSession};
use vhost_user::socket::{Connection, SocketError};
use vhost_user::vring::VringBase;
use virtio::Features;
use virtqueue::{Buffer, Direction, DriverQueue, Piece, Position, QueueConfig, Request as Chain};
use virtqueue::{RingFeatures, Used};

pub use port::testing::guest_memory::*;

use super::{SOON, wait_for};

/// Which ring is which, of the first pair (VIRTIO 1.3 §5.1.2).
pub const RECEIVE: u8 = 0;
pub const TRANSMIT: u8 = 1;

struct Queue {
    driver: Box<dyn DriverQueue>,
    kick: OwnedFd,
    call: OwnedFd,
    next: u32,
}

/// What the front-end keeps for the next back-end.
pub struct InFlight {
    area: Inflight,
    file: OwnedFd,
}

impl InFlight {
    /// Writes over a part of it.
    pub fn write(&self, at: u64, bytes: &[u8]) {
        rustix::io::pwrite(&self.file, bytes, at).unwrap();
    }
}

pub struct Guest {
    pub connection: Connection,
    pub session: FrontendSession,
    pub features: Features,
    pub size: u16,
    memory: GuestMemory,
    queues: BTreeMap<u8, Queue>,
}

pub fn plain() -> Features {
    Features::empty().union(Features::VERSION_1)
}

/// Split and packed.
pub fn layouts() -> [Features; 2] {
    [plain(), plain().union(Features::RING_PACKED)]
}

impl std::ops::Deref for Guest {
    type Target = GuestMemory;

    fn deref(&self) -> &GuestMemory {
        &self.memory
    }
}

impl Guest {
    /// Connects, and says nothing.
    pub fn connect_bare(path: &Path) -> Self {
        Self::try_connect_bare(path).unwrap_or_else(|| panic!("nobody listens at {}", path.display()))
    }

    /// The same; `None` if nobody listens.
    pub fn try_connect_bare(path: &Path) -> Option<Self> {
        let connection = Connection::connect(path).ok()?;
        // The two halves of the data meet for the guest only: each is a file of its own.
        let half = DATA_BYTES / 2;
        let memory =
            GuestMemory::new(c"guest of a test", &[(RINGS, RINGS_BYTES), (DATA, half), (DATA + half, half)]);
        Some(Guest {
            connection,
            session: FrontendSession::new(),
            features: Features::empty(),
            size: 64,
            memory,
            queues: BTreeMap::new(),
        })
    }

    /// Connects, and agrees on what both ends have of these features.
    pub fn connect(path: &Path, wanted: Features) -> Self {
        let mut guest = Self::connect_bare(path);
        guest.agree(wanted);
        guest
    }

    fn agree(&mut self, wanted: Features) {
        self.ask(Request::SetOwner, vec![]);
        let Some(Answer::Features(offered)) = self.ask(Request::GetFeatures, vec![]) else { panic!() };
        let Some(Answer::ProtocolFeatures(protocol)) = self.ask(Request::GetProtocolFeatures, vec![]) else {
            panic!()
        };
        self.ask(Request::SetProtocolFeatures(protocol & ProtocolFeatures::HANDLED), vec![]);
        let offered = Features::from_bits_retain(offered.bits());
        self.features = (offered & wanted).union(Features::VHOST_PROTOCOL_FEATURES);
        let wire = self.features;
        self.ask(Request::SetFeatures(wire), vec![]);
    }

    /// A guest with one pair running, and what says which of its chains are in flight.
    pub fn running_with_in_flight(path: &Path, wanted: Features) -> (Self, InFlight) {
        let mut guest = Self::connect(path, wanted);
        guest.share_memory();
        let asked = Inflight { size_bytes: 0, offset: 0, queue_count: 2, queue_size: guest.size };
        let Some(Answer::Inflight(area, file)) = guest.ask(Request::GetInflightFd(asked), vec![]) else {
            panic!()
        };
        guest.ask(Request::SetInflightFd(area), vec![file.as_fd().try_clone_to_owned().unwrap()]);
        guest.start_ring(RECEIVE);
        guest.start_ring(TRANSMIT);
        (guest, InFlight { area, file: file.as_fd().try_clone_to_owned().unwrap() })
    }

    /// The same rings at another connection, as they stand: that of a switch that was started again.
    /// `enable_first`: before they start, or only then.
    pub fn reconnect(&mut self, path: &Path, in_flight: &InFlight, enable_first: bool) {
        self.connection = wait_for("the switch to listen again", || Connection::connect(path).ok());
        self.session = FrontendSession::new();
        self.agree(self.features);
        self.share_memory();
        self.ask(Request::SetInflightFd(in_flight.area), vec![in_flight.file.try_clone().unwrap()]);
        for index in [RECEIVE, TRANSMIT] {
            let base = self.queues[&index].driver.position().to_vring_base();
            self.announce_ring(index, base);
            let (kick, fds) = self.kick_of(index);
            let enable = Request::SetVringEnable(VringState { index: index.into(), num: 1 });
            if enable_first {
                self.ask(enable, vec![]);
                self.ask(kick, fds);
            } else {
                self.ask(kick, fds);
                // Long enough for a back-end that would discard what the ring holds.
                std::thread::sleep(std::time::Duration::from_millis(2));
                self.ask(enable, vec![]);
            }
        }
    }

    /// A guest with one pair running.
    pub fn running(path: &Path, wanted: Features) -> Self {
        let mut guest = Self::connect(path, wanted);
        guest.share_memory();
        guest.start_ring(RECEIVE);
        guest.start_ring(TRANSMIT);
        guest
    }

    pub fn try_ask(&mut self, request: Request, fds: Vec<OwnedFd>) -> Option<Answer> {
        let deadline = Some(Instant::now() + SOON);
        let message = self.session.request(request, fds).unwrap();
        self.connection.send(message, deadline).unwrap();
        let waits = self.session.is_waiting();
        waits.then(|| self.session.receive(self.connection.receive(deadline).unwrap()).unwrap())
    }

    /// Sends a request that must not be refused.
    #[track_caller]
    pub fn ask(&mut self, request: Request, fds: Vec<OwnedFd>) -> Option<Answer> {
        let name = request.rule().name;
        let answer = self.try_ask(request, fds);
        assert!(!matches!(answer, Some(Answer::Refused { .. })), "{name} was refused");
        answer
    }

    /// Sends a request that must be refused.
    #[track_caller]
    pub fn must_be_refused(&mut self, request: Request, fds: Vec<OwnedFd>) {
        let name = request.rule().name;
        let answer = self.try_ask(request, fds);
        assert!(matches!(answer, Some(Answer::Refused { .. })), "{name} was not refused: {answer:?}");
    }

    /// Sends a message as it stands, whatever the protocol says of it.
    pub fn send_raw(&mut self, request: Request, fds: Vec<OwnedFd>) {
        self.connection.send(request.to_message(fds), Some(Instant::now() + SOON)).unwrap();
    }

    /// Waits for the switch to close the connection.
    #[track_caller]
    pub fn wait_until_closed(&mut self) {
        // Acknowledgements of what came before may be there still.
        wait_for("the connection's end", || self.is_closed().then_some(()));
    }

    /// Whether the switch has closed the connection; what else it says is read and dropped.
    pub fn is_closed(&mut self) -> bool {
        match self.connection.try_receive() {
            Err(SocketError::Closed | SocketError::System { .. }) => true,
            Ok(_) => false,
            Err(error) => panic!("{error}"),
        }
    }

    pub fn share_memory(&mut self) {
        let (table, files) = self.table();
        self.ask(Request::SetMemTable(table), files);
    }

    /// A fresh driver half, and the ring announced, but not started.
    pub fn prepare_ring(&mut self, index: u8) {
        let features = RingFeatures::from(self.features);
        let (descriptors, driver, device) = ring_at(index);
        let config = QueueConfig {
            features,
            size: self.size.into(),
            descriptors: Address::Guest(descriptors),
            driver_area: Address::Guest(driver),
            device_area: Address::Guest(device),
            position: Position::start(features.layout),
        };
        let driver = config.activate_driver(&self.memory.space, None).unwrap();
        self.queues.insert(index, Queue { driver, kick: event_fd(), call: event_fd(), next: 0 });
        self.announce_ring(index, Position::start(features.layout).to_vring_base());
    }

    fn announce_ring(&mut self, index: u8, base: u32) {
        let state = |num| VringState { index: index.into(), num };
        let call = self.queues[&index].call.try_clone().unwrap();
        self.ask(Request::SetVringCall(VringFd { index, has_fd: true }), vec![call]);
        self.ask(Request::SetVringNum(state(self.size.into())), vec![]);
        self.ask(Request::SetVringBase(state(base)), vec![]);
        self.ask(Request::SetVringAddr(ring_addresses(index)), vec![]);
    }

    /// The kick that starts a ring: its request and descriptor.
    pub fn kick_of(&self, index: u8) -> (Request, Vec<OwnedFd>) {
        let kick = self.queues[&index].kick.try_clone().unwrap();
        (Request::SetVringKick(VringFd { index, has_fd: true }), vec![kick])
    }

    pub fn start_ring(&mut self, index: u8) {
        self.prepare_ring(index);
        let (request, fds) = self.kick_of(index);
        self.ask(request, fds);
        self.ask(Request::SetVringEnable(VringState { index: index.into(), num: 1 }), vec![]);
    }

    /// Stops a ring; where it stood.
    pub fn stop_ring(&mut self, index: u8) -> VringBase {
        match self.ask(Request::GetVringBase(VringState { index: index.into(), num: 0 }), vec![]) {
            Some(Answer::VringBase { base, .. }) => base,
            other => panic!("{other:?}"),
        }
    }

    /// Empties a stopped ring, whatever stands in it.
    pub fn forget_ring(&mut self, index: u8) {
        self.queues.remove(&index);
        self.write(ring_at(index).0, &[0; 0x1_0000]);
    }

    /// Takes back what the device has used; descriptors that are free now.
    pub fn reclaimed(&mut self, index: u8) -> u16 {
        let driver = &mut self.queues.get_mut(&index).unwrap().driver;
        driver.reclaim(&mut Vec::new(), usize::MAX).unwrap();
        driver.free_descriptors()
    }

    /// What the device has used by now.
    pub fn take_used(&mut self, index: u8) -> Vec<Used> {
        let mut used = Vec::new();
        self.queues.get_mut(&index).unwrap().driver.reclaim(&mut used, usize::MAX).unwrap();
        used
    }

    /// A frame in a receive buffer that was used.
    pub fn received(&self, used: &Used) -> Vec<u8> {
        let at = Self::buffer_at(RECEIVE, used.cookie) + HEADER as u64;
        self.read(at, used.written as usize - HEADER)
    }

    fn buffer_at(index: u8, cookie: u32) -> u64 {
        DATA + u64::from(index) * 0x10_0000 + u64::from(cookie % 128) * 0x1000
    }

    pub fn add(&mut self, index: u8, address: u64, len: u32) {
        let direction = if index == RECEIVE { Direction::FromDevice } else { Direction::ToDevice };
        let queue = self.queues.get_mut(&index).unwrap();
        let buffer = Buffer { address, len, cookie: queue.next };
        assert_eq!(queue.driver.add(&[buffer], direction), 1);
        queue.next += 1;
        self.kick(index);
    }

    pub fn add_chain(&mut self, index: u8, readable: &[Piece], writable: &[Piece]) {
        let queue = self.queues.get_mut(&index).unwrap();
        let chain = Chain { readable, writable, cookie: queue.next };
        assert_eq!(queue.driver.add_requests(&[chain]), 1);
        queue.next += 1;
        self.kick(index);
    }

    pub fn kick(&mut self, index: u8) {
        let queue = self.queues.get_mut(&index).unwrap();
        if queue.driver.needs_kick() {
            self.kick_anyway(index);
        }
    }

    /// Ends the connection.
    pub fn hang_up(&mut self) {
        self.connection = UnixStream::pair().unwrap().0.into();
    }

    /// The eventfd by which the device calls.
    pub fn call_of(&self, index: u8) -> &OwnedFd {
        &self.queues[&index].call
    }

    /// Kicks, whatever the device says.
    pub fn kick_anyway(&self, index: u8) {
        rustix::io::write(&self.queues[&index].kick, &1u64.to_ne_bytes()).unwrap();
    }

    /// Sends a frame with this net header in one buffer.
    pub fn send_with(&mut self, header: &[u8; HEADER], frame: &[u8]) {
        let at = Self::buffer_at(TRANSMIT, self.queues[&TRANSMIT].next);
        self.write(at, header);
        self.write(at + HEADER as u64, frame);
        self.add(TRANSMIT, at, (HEADER + frame.len()) as u32);
    }

    pub fn send(&mut self, frame: &[u8]) {
        self.send_with(&[0; HEADER], frame);
    }

    /// Posts receive buffers, a frame of up to 1588 bytes each.
    pub fn post(&mut self, count: usize) {
        for _ in 0..count {
            let at = Self::buffer_at(RECEIVE, self.queues[&RECEIVE].next);
            self.add(RECEIVE, at, 1600);
        }
    }

    /// Waits for this many buffers that the device has used.
    #[track_caller]
    pub fn wait_for_used(&mut self, index: u8, count: usize) -> Vec<Used> {
        let mut used = Vec::new();
        wait_for("used buffers", || {
            self.queues.get_mut(&index).unwrap().driver.reclaim(&mut used, usize::MAX).unwrap();
            (used.len() >= count).then_some(())
        });
        used
    }

    /// Takes back the buffers that the device has used by now; returns how many.
    pub fn reclaim(&mut self, index: u8) -> usize {
        let mut used = Vec::new();
        self.queues.get_mut(&index).unwrap().driver.reclaim(&mut used, usize::MAX).unwrap();
        used.len()
    }

    /// Waits for one frame in one of the buffers that were posted.
    #[track_caller]
    pub fn receive(&mut self) -> Vec<u8> {
        let used = self.wait_for_used(RECEIVE, 1);
        assert_eq!(used.len(), 1);
        let at = Self::buffer_at(RECEIVE, used[0].cookie) + HEADER as u64;
        self.read(at, used[0].written as usize - HEADER)
    }
}
