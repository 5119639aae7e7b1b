//! For tests: a front-end with the memory and the driver halves of a guest.
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Deref;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use memory::Address;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vhost_user::bits::ProtocolFeatures;
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::{Inflight, MemoryRegion, SingleRegion, VringFd, VringState};
use vhost_user::session::frontend::{Answer, FrontendSession};
use vhost_user::socket::{Connection, SocketError};
use vhost_user::vring::VringBase;
use virtio::Features;
use virtqueue::{Buffer, Direction, DriverQueue, Piece, Position, QueueConfig, Request as Chain};
use virtqueue::{RingFeatures, Used};

use super::guest_memory::{
    DATA, DATA_BYTES, GuestMemory, RINGS, RINGS_BYTES, event_fd, ring_addresses, ring_at,
};

/// Long enough for a busy machine; only a failing test waits for it.
const SOON: Duration = Duration::from_secs(60);

/// How many buffers of one queue have a place of their own; later ones use these places again.
const PLACES: u32 = 128;

/// A back-end, as a test runs it.
pub trait BackEnd {
    /// Lets a back-end in this thread handle what it has received.
    fn serve(&mut self);

    /// Waits for a message on the connection, for some milliseconds at most.
    fn wait(&mut self, connection: &Connection);

    /// What the back-end has logged, for the message of a failing test.
    fn logged(&self) -> Vec<String>;
}

/// A back-end in another thread or process.
#[derive(Clone, Copy, Debug)]
pub struct Elsewhere;

impl BackEnd for Elsewhere {
    fn serve(&mut self) {}

    fn wait(&mut self, connection: &Connection) {
        is_readable_within(connection, Duration::from_millis(10));
    }

    fn logged(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Whether a descriptor becomes readable within this time.
pub fn is_readable_within(fd: impl AsFd, limit: Duration) -> bool {
    let limit = Timespec::try_from(limit).expect("a short time");
    poll(&mut [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)], Some(&limit))
        .is_ok_and(|count| count > 0)
}

/// One queue as its driver sees it.
pub struct Queue {
    /// The driver's half.
    pub driver: Box<dyn DriverQueue>,
    /// The eventfd by which the driver notifies the device.
    pub kick: OwnedFd,
    /// The eventfd by which the device notifies the driver.
    pub call: OwnedFd,
    /// The cookie of the next buffer.
    pub next: u32,
}

/// The in-flight region that a front-end keeps for the next back-end.
pub struct InFlight {
    area: Inflight,
    file: OwnedFd,
}

impl InFlight {
    /// Overwrites a part of the region.
    pub fn write(&self, at: u64, bytes: &[u8]) {
        rustix::io::pwrite(&self.file, bytes, at).expect("a region in memory");
    }
}

/// A front-end with memory and queues.
pub struct FrontEnd {
    /// The connection to the back-end.
    pub connection: Connection,
    /// The front-end's part of the protocol.
    pub session: FrontendSession,
    /// The features that were agreed on.
    pub features: Features,
    /// The guest's memory.
    pub memory: GuestMemory,
    /// The queues that were prepared, by index.
    pub queues: BTreeMap<u8, Queue>,
    /// The number of entries of each queue.
    pub size: u16,
    /// Whether drivers put chains into indirect tables where that feature was agreed on.
    pub uses_indirect_tables: bool,
}

impl Deref for FrontEnd {
    type Target = GuestMemory;

    fn deref(&self) -> &GuestMemory {
        &self.memory
    }
}

impl FrontEnd {
    /// Connects to a back-end and sends nothing.
    ///
    /// # Errors
    /// Nothing listens at the path.
    pub fn connect(path: &Path) -> Result<Self, SocketError> {
        Connection::connect(path).map(Self::over)
    }

    /// A front-end over a connection.
    pub fn over(connection: Connection) -> Self {
        // The halves of the data have a file each, side by side in the guest's memory only.
        let half = DATA_BYTES / 2;
        let ranges = [(RINGS, RINGS_BYTES), (DATA, half), (DATA + half, half)];
        FrontEnd {
            connection,
            session: FrontendSession::new(),
            features: Features::empty(),
            memory: GuestMemory::new(c"guest of a test", &ranges),
            queues: BTreeMap::new(),
            size: 64,
            uses_indirect_tables: false,
        }
    }

    /// Sends a request and waits for its answer, if it has one.
    #[track_caller]
    pub fn try_ask(
        &mut self,
        back_end: &mut impl BackEnd,
        request: Request,
        fds: Vec<OwnedFd>,
    ) -> Option<Answer> {
        let message = self.session.request(request, fds).expect("a request that the session allows");
        let deadline = Instant::now() + SOON;
        self.connection.send(message, Some(deadline)).expect("a back-end that reads");
        back_end.serve();
        while self.session.is_waiting() {
            if let Some(reply) = self.connection.try_receive().expect("an open connection") {
                return Some(self.session.receive(reply).expect("a reply to this request"));
            }
            assert!(Instant::now() < deadline, "no answer; the back-end said {:#?}", back_end.logged());
            back_end.wait(&self.connection);
        }
        None
    }

    /// Sends a request that must not be refused.
    #[track_caller]
    pub fn ask(
        &mut self,
        back_end: &mut impl BackEnd,
        request: Request,
        fds: Vec<OwnedFd>,
    ) -> Option<Answer> {
        let name = request.rule().name;
        let answer = self.try_ask(back_end, request, fds);
        let refused = matches!(answer, Some(Answer::Refused { .. }));
        assert!(!refused, "{name} was refused; the back-end said {:#?}", back_end.logged());
        answer
    }

    /// Agrees on the features that both ends have of these.
    #[track_caller]
    pub fn agree(&mut self, back_end: &mut impl BackEnd, wanted: Features) {
        self.ask(back_end, Request::SetOwner, vec![]);
        let Some(Answer::Features(offered)) = self.ask(back_end, Request::GetFeatures, vec![]) else {
            panic!("GET_FEATURES has no answer")
        };
        let Some(Answer::ProtocolFeatures(protocol)) =
            self.ask(back_end, Request::GetProtocolFeatures, vec![])
        else {
            panic!("GET_PROTOCOL_FEATURES has no answer")
        };
        let protocol = protocol & ProtocolFeatures::HANDLED;
        self.ask(back_end, Request::SetProtocolFeatures(protocol), vec![]);
        let offered = Features::from_bits_retain(offered.bits());
        self.set_features(back_end, (offered & wanted).union(Features::VHOST_PROTOCOL_FEATURES));
    }

    /// Acknowledges these features.
    #[track_caller]
    pub fn set_features(&mut self, back_end: &mut impl BackEnd, features: Features) {
        self.features = features;
        self.ask(back_end, Request::SetFeatures(features), vec![]);
    }

    /// Shares all memory.
    #[track_caller]
    pub fn share_memory(&mut self, back_end: &mut impl BackEnd) {
        let (table, files) = self.table();
        self.ask(back_end, Request::SetMemTable(table), files);
    }

    /// Adds a memory region.
    #[track_caller]
    pub fn add_region(
        &mut self,
        back_end: &mut impl BackEnd,
        region: MemoryRegion,
        file: &File,
    ) -> Option<Answer> {
        let fd = file.try_clone().expect("a descriptor").into();
        self.try_ask(back_end, Request::AddMemReg(SingleRegion(region)), vec![fd])
    }

    /// Agrees on an in-flight region for both rings of the first pair, to be called before they start.
    #[track_caller]
    pub fn track_in_flight(&mut self, back_end: &mut impl BackEnd) -> InFlight {
        let wanted = Inflight { size_bytes: 0, offset: 0, queue_count: 2, queue_size: self.size };
        let Some(Answer::Inflight(area, file)) = self.ask(back_end, Request::GetInflightFd(wanted), vec![])
        else {
            panic!("GET_INFLIGHT_FD has no answer")
        };
        let in_flight = InFlight { area, file: file.as_fd().try_clone_to_owned().expect("a descriptor") };
        self.return_in_flight(back_end, &in_flight);
        in_flight
    }

    /// Hands an in-flight region to a back-end.
    #[track_caller]
    pub fn return_in_flight(&mut self, back_end: &mut impl BackEnd, in_flight: &InFlight) {
        let file = in_flight.file.try_clone().expect("a descriptor");
        self.ask(back_end, Request::SetInflightFd(in_flight.area), vec![file]);
    }

    /// Makes a new driver's half and announces the ring, without starting it.
    #[track_caller]
    pub fn prepare_ring(&mut self, back_end: &mut impl BackEnd, index: u8) {
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
        let tables = Address::Guest(RINGS + 0x8_0000 + 0x2000 * u64::from(index));
        let tables = (self.uses_indirect_tables && features.indirect).then_some((tables, 8));
        let driver =
            config.activate_driver(&self.memory.space, tables).expect("a ring in the guest's memory");
        self.queues.insert(index, Queue { driver, kick: event_fd(), call: event_fd(), next: 0 });
        self.announce_ring(back_end, index, Position::start(features.layout).to_vring_base());
    }

    /// Sends everything about a ring except its kick.
    #[track_caller]
    pub fn announce_ring(&mut self, back_end: &mut impl BackEnd, index: u8, base: u32) {
        let state = |num| VringState { index: index.into(), num };
        let call = self.queues[&index].call.try_clone().expect("a descriptor");
        self.ask(back_end, Request::SetVringCall(VringFd { index, has_fd: true }), vec![call]);
        self.ask(back_end, Request::SetVringNum(state(self.size.into())), vec![]);
        self.ask(back_end, Request::SetVringBase(state(base)), vec![]);
        self.ask(back_end, Request::SetVringAddr(ring_addresses(index)), vec![]);
    }

    /// The request that starts a ring, with its descriptor.
    pub fn kick_of(&self, index: u8) -> (Request, Vec<OwnedFd>) {
        let kick = self.queues[&index].kick.try_clone().expect("a descriptor");
        (Request::SetVringKick(VringFd { index, has_fd: true }), vec![kick])
    }

    /// Starts a ring that was announced.
    #[track_caller]
    pub fn kick_off(&mut self, back_end: &mut impl BackEnd, index: u8) -> Option<Answer> {
        let (request, fds) = self.kick_of(index);
        self.try_ask(back_end, request, fds)
    }

    /// Enables or disables a ring.
    #[track_caller]
    pub fn enable(&mut self, back_end: &mut impl BackEnd, index: u8, enabled: bool) {
        let state = VringState { index: index.into(), num: enabled.into() };
        self.ask(back_end, Request::SetVringEnable(state), vec![]);
    }

    /// Prepares, starts and enables a ring.
    #[track_caller]
    pub fn start_ring(&mut self, back_end: &mut impl BackEnd, index: u8) {
        self.prepare_ring(back_end, index);
        let answer = self.kick_off(back_end, index);
        let refused = matches!(answer, Some(Answer::Refused { .. }));
        assert!(!refused, "{answer:?}; the back-end said {:#?}", back_end.logged());
        self.enable(back_end, index, true);
    }

    /// Stops a ring. Returns its position.
    #[track_caller]
    pub fn stop_ring(&mut self, back_end: &mut impl BackEnd, index: u8) -> VringBase {
        match self.ask(back_end, Request::GetVringBase(VringState { index: index.into(), num: 0 }), vec![]) {
            Some(Answer::VringBase { base, .. }) => base,
            other => panic!("{other:?}"),
        }
    }

    /// The queue with this index.
    #[track_caller]
    pub fn queue(&mut self, index: u8) -> &mut Queue {
        self.queues.get_mut(&index).unwrap_or_else(|| panic!("queue {index} was not prepared"))
    }

    /// The guest address of the buffer with this cookie.
    pub fn buffer_at(index: u8, cookie: u32) -> u64 {
        DATA + u64::from(index) * 0x10_0000 + u64::from(cookie % PLACES) * 0x1000
    }

    /// Gives buffers to the device.
    #[track_caller]
    pub fn add(&mut self, index: u8, buffers: &[Buffer], direction: Direction) {
        let queue = self.queue(index);
        assert_eq!(queue.driver.add(buffers, direction), buffers.len());
        queue.next += buffers.len() as u32;
        self.kick(index);
    }

    /// Gives a chain of several pieces to the device.
    #[track_caller]
    pub fn add_chain(&mut self, index: u8, readable: &[Piece], writable: &[Piece]) {
        let queue = self.queue(index);
        let chain = Chain { readable, writable, cookie: queue.next };
        assert_eq!(queue.driver.add_requests(&[chain]), 1);
        queue.next += 1;
        self.kick(index);
    }

    /// Kicks, if the device wants to be notified.
    #[track_caller]
    pub fn kick(&mut self, index: u8) {
        if self.queue(index).driver.needs_kick() {
            self.kick_anyway(index);
        }
    }

    /// Kicks, whether or not the device wants to be notified.
    pub fn kick_anyway(&self, index: u8) {
        rustix::io::write(&self.queues[&index].kick, &1u64.to_ne_bytes()).expect("an eventfd");
    }

    /// The buffers that the device has used since the last call.
    #[track_caller]
    pub fn used(&mut self, index: u8) -> Vec<Used> {
        let mut used = Vec::new();
        self.queue(index).driver.reclaim(&mut used, usize::MAX).expect("a device that keeps to the protocol");
        used
    }
}
