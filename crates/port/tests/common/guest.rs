//! A front-end with memory and driver halves.
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use frame::{DropReason, Side};
use memory::Address;
use port::Port;
use port::testing::TestContext;
use port::vhost_user::{VhostUser, VhostUserOptions};
use vhost_user::bits::ProtocolFeatures;
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::{MemoryRegion, SingleRegion, VringFd, VringState};
use vhost_user::session::frontend::{Answer, FrontendSession};
use vhost_user::socket::{Connection, SocketError};
use vhost_user::vring::VringBase;
use virtio::{Features, NetFeatures};
use virtqueue::{Buffer, Direction, DriverQueue, Piece, Position, QueueConfig, Request as Chain, RingLayout};
use virtqueue::{RingFeatures, Used};

pub use port::testing::guest_memory::*;

use super::{SOON, deadline};

/// Bytes between the buffers.
pub const STRIDE: u64 = 0x1000;

/// A port on its own context.
pub struct Host {
    pub port: VhostUser,
    pub context: TestContext,
    pub path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Host {
    pub fn new(change: impl FnOnce(&mut VhostUserOptions)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("port.sock");
        let mut options = VhostUserOptions::new(&path);
        change(&mut options);
        let mut host = Host {
            port: VhostUser::new(options).unwrap(),
            context: TestContext::new(),
            path,
            _folder: folder,
        };
        host.port.start(&mut host.context).unwrap();
        host
    }

    pub fn turn(&mut self) {
        self.context.turn(&mut self.port, Duration::from_millis(10));
    }

    /// Serves the port until something holds.
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let deadline = deadline();
        while !holds(self) {
            assert!(Instant::now() < deadline, "waited for: {what}; said {:#?}", self.context.logged);
            self.turn();
        }
    }

    /// Moves one burst to another port.
    pub fn forward(&mut self, from: u16, to: &mut Host, to_pair: u16) -> usize {
        self.context.forward(&mut self.port, from, (&mut to.context, &mut to.port, to_pair))
    }

    pub fn drops(&self, pair: u16, side: Side, reason: DropReason) -> u64 {
        self.port.counters(pair, side).unwrap().drops(reason)
    }
}

/// One queue as its driver sees it.
pub struct Queue {
    pub driver: Box<dyn DriverQueue>,
    pub kick: OwnedFd,
    pub call: OwnedFd,
    /// Frames given to the device, for their cookies.
    pub next: u32,
}

pub struct Guest {
    pub connection: Connection,
    pub session: FrontendSession,
    pub features: Features,
    pub memory: GuestMemory,
    pub queues: BTreeMap<u8, Queue>,
    pub size: u16,
}

pub fn is_readable(fd: impl AsFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let fd = fd.as_fd();
    poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))
        .unwrap()
        > 0
}

impl std::ops::Deref for Guest {
    type Target = GuestMemory;

    fn deref(&self) -> &GuestMemory {
        &self.memory
    }
}

impl Guest {
    /// Connects, and agrees on what both ends have of these features.
    pub fn connect(host: &mut Host, wanted: Features) -> Self {
        let mut guest = Self::connect_bare(&host.path);
        guest.negotiate(host, wanted);
        guest
    }

    /// Connects and says nothing.
    pub fn connect_bare(path: &Path) -> Self {
        Self::over(Connection::connect(path).unwrap())
    }

    pub fn over(connection: Connection) -> Self {
        // The two halves of the data meet for the guest only: each is a file of its own.
        let half = DATA_BYTES / 2;
        let memory =
            GuestMemory::new(c"guest of a test", &[(RINGS, RINGS_BYTES), (DATA, half), (DATA + half, half)]);
        Guest {
            connection,
            session: FrontendSession::new(),
            features: Features::empty(),
            memory,
            queues: BTreeMap::new(),
            size: 64,
        }
    }

    pub fn try_ask(&mut self, host: &mut Host, request: Request, fds: Vec<OwnedFd>) -> Option<Answer> {
        let message = self.session.request(request, fds).unwrap();
        self.connection.try_send(message).unwrap();
        let deadline = deadline();
        while self.session.is_waiting() {
            host.turn();
            if let Some(reply) = self.connection.try_receive().unwrap() {
                return Some(self.session.receive(reply).unwrap());
            }
            assert!(Instant::now() < deadline, "no answer; said {:#?}", host.context.logged);
        }
        host.turn();
        None
    }

    /// Sends a request that must not be refused.
    pub fn ask(&mut self, host: &mut Host, request: Request, fds: Vec<OwnedFd>) -> Option<Answer> {
        let name = request.rule().name;
        let answer = self.try_ask(host, request, fds);
        assert!(
            !matches!(answer, Some(Answer::Refused { .. })),
            "{name} refused; {:#?}",
            host.context.logged
        );
        answer
    }

    pub fn negotiate(&mut self, host: &mut Host, wanted: Features) {
        self.ask(host, Request::SetOwner, vec![]);
        let Some(Answer::Features(offered)) = self.ask(host, Request::GetFeatures, vec![]) else { panic!() };
        let Some(Answer::ProtocolFeatures(protocol)) = self.ask(host, Request::GetProtocolFeatures, vec![])
        else {
            panic!()
        };
        self.ask(host, Request::SetProtocolFeatures(protocol & ProtocolFeatures::HANDLED), vec![]);
        let offered = Features::from_bits_retain(offered.bits());
        self.features = (offered & wanted).union(Features::VHOST_PROTOCOL_FEATURES);
        self.set_features(host, self.features);
    }

    pub fn set_features(&mut self, host: &mut Host, features: Features) {
        self.features = features;
        let wire = features;
        self.ask(host, Request::SetFeatures(wire), vec![]);
    }

    pub fn share_memory(&mut self, host: &mut Host) {
        let (table, files) = self.table();
        self.ask(host, Request::SetMemTable(table), files);
    }

    pub fn add_region(&mut self, host: &mut Host, region: MemoryRegion, file: &File) -> Option<Answer> {
        let fd = file.try_clone().unwrap().into();
        self.try_ask(host, Request::AddMemReg(SingleRegion(region)), vec![fd])
    }

    /// A fresh driver half, and the ring announced, but not started.
    pub fn prepare_ring(&mut self, host: &mut Host, index: u8) {
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
        let tables =
            features.indirect.then_some((Address::Guest(RINGS + 0x8_0000 + 0x2000 * u64::from(index)), 8));
        let driver = config.activate_driver(&self.memory.space, tables).unwrap();
        self.queues.insert(index, Queue { driver, kick: event_fd(), call: event_fd(), next: 0 });
        self.announce_ring(host, index, Position::start(features.layout).to_vring_base());
    }

    /// Says all of a ring but its kick.
    pub fn announce_ring(&mut self, host: &mut Host, index: u8, base: u32) {
        let state = |num| VringState { index: index.into(), num };
        let call = self.queues[&index].call.try_clone().unwrap();
        self.ask(host, Request::SetVringCall(VringFd { index, has_fd: true }), vec![call]);
        self.ask(host, Request::SetVringNum(state(self.size.into())), vec![]);
        self.ask(host, Request::SetVringBase(state(base)), vec![]);
        self.ask(host, Request::SetVringAddr(ring_addresses(index)), vec![]);
    }

    pub fn kick_off(&mut self, host: &mut Host, index: u8) -> Option<Answer> {
        let kick = self.queues[&index].kick.try_clone().unwrap();
        self.try_ask(host, Request::SetVringKick(VringFd { index, has_fd: true }), vec![kick])
    }

    pub fn enable(&mut self, host: &mut Host, index: u8, enabled: bool) {
        let num = enabled.into();
        self.ask(host, Request::SetVringEnable(VringState { index: index.into(), num }), vec![]);
    }

    pub fn start_ring(&mut self, host: &mut Host, index: u8) {
        self.prepare_ring(host, index);
        let answer = self.kick_off(host, index);
        assert!(matches!(answer, Some(Answer::Done { .. })), "{answer:?}; said {:#?}", host.context.logged);
        self.enable(host, index, true);
    }

    pub fn stop_ring(&mut self, host: &mut Host, index: u8) -> VringBase {
        match self.ask(host, Request::GetVringBase(VringState { index: index.into(), num: 0 }), vec![]) {
            Some(Answer::VringBase { base, .. }) => base,
            other => panic!("{other:?}"),
        }
    }

    /// A guest with one pair running.
    pub fn running(host: &mut Host, wanted: Features) -> Self {
        let mut guest = Self::connect(host, wanted);
        guest.share_memory(host);
        guest.start_ring(host, 0);
        guest.start_ring(host, 1);
        guest
    }

    pub fn mergeable(&self) -> bool {
        self.features.contains(NetFeatures::MRG_RXBUF)
    }

    /// Where the buffer with this cookie lies.
    pub fn buffer_at(index: u8, cookie: u32) -> u64 {
        DATA + u64::from(index) * 0x10_0000 + u64::from(cookie % 128) * STRIDE
    }

    /// Sends a frame with this net header in one buffer.
    pub fn send_with(&mut self, index: u8, header: &[u8; HEADER], frame: &[u8]) {
        let cookie = self.queues[&index].next;
        let at = Self::buffer_at(index, cookie);
        self.write(at, header);
        self.write(at + HEADER as u64, frame);
        let len = (HEADER + frame.len()) as u32;
        self.add(index, &[Buffer { address: at, len, cookie }], Direction::ToDevice);
    }

    pub fn send(&mut self, index: u8, frame: &[u8]) {
        self.send_with(index, &[0; HEADER], frame);
    }

    pub fn add(&mut self, index: u8, buffers: &[Buffer], direction: Direction) {
        let queue = self.queues.get_mut(&index).unwrap();
        assert_eq!(queue.driver.add(buffers, direction), buffers.len());
        queue.next += buffers.len() as u32;
        self.kick(index);
    }

    /// A chain of several pieces.
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
            rustix::io::write(&queue.kick, &1u64.to_ne_bytes()).unwrap();
        }
    }

    /// Posts receive buffers of this length.
    pub fn post(&mut self, index: u8, count: usize, len: u32) {
        for _ in 0..count {
            let cookie = self.queues[&index].next;
            let address = Self::buffer_at(index, cookie);
            self.add(index, &[Buffer { address, len, cookie }], Direction::FromDevice);
        }
    }

    /// What the device has given back.
    pub fn used(&mut self, index: u8) -> Vec<Used> {
        let mut used = Vec::new();
        self.queues.get_mut(&index).unwrap().driver.reclaim(&mut used, usize::MAX).unwrap();
        used
    }

    /// Frames received, each with its net header, put together from merged buffers.
    pub fn received(&mut self, index: u8) -> Vec<(Vec<u8>, Vec<u8>)> {
        let used = self.used(index);
        self.put_together(index, used)
    }

    /// The frames in used buffers.
    pub fn put_together(&self, index: u8, used: Vec<Used>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut used = used.iter();
        let mut frames = Vec::new();
        while let Some(first) = used.next() {
            let mut bytes = self.read(Self::buffer_at(index, first.cookie), first.written as usize);
            assert!(bytes.len() >= HEADER, "{first:?}");
            let buffers = u16::from_le_bytes([bytes[10], bytes[11]]);
            assert!(self.mergeable() || buffers == 1, "{buffers} buffers without MRG_RXBUF");
            for _ in 1..buffers {
                let more = used.next().expect("as many buffers as the header says");
                bytes.extend(self.read(Self::buffer_at(index, more.cookie), more.written as usize));
            }
            let frame = bytes.split_off(HEADER);
            frames.push((bytes, frame));
        }
        frames
    }

    /// Whether the port has closed the connection.
    pub fn is_closed(&mut self, host: &mut Host) -> bool {
        let deadline = Instant::now() + SOON;
        while Instant::now() < deadline {
            host.turn();
            match self.connection.try_receive() {
                Err(SocketError::Closed) => return true,
                Ok(None) => {}
                // Acknowledgements of what came before.
                Ok(Some(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        false
    }
}

/// The layouts and features that a test goes through.
pub fn feature_sets() -> Vec<Features> {
    let mut sets = Vec::new();
    for layout in [RingLayout::Split, RingLayout::Packed] {
        for bits in 0..16u8 {
            let mut features = Features::empty().union(Features::VERSION_1);
            if layout == RingLayout::Packed {
                features = features.union(Features::RING_PACKED);
            }
            for (bit, feature) in [
                Features::IN_ORDER,
                NetFeatures::MRG_RXBUF,
                Features::RING_EVENT_IDX,
                Features::RING_INDIRECT_DESC,
            ]
            .into_iter()
            .enumerate()
            {
                if bits & (1 << bit) != 0 {
                    features = features.union(feature);
                }
            }
            sets.push(features);
        }
    }
    sets
}
