//! The front-end of a network device, at a socket of the switch.
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use port::testing::front_end::{Elsewhere, FrontEnd};
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::session::frontend::{Answer, FrontendSession};
use vhost_user::socket::{Connection, SocketError};
use vhost_user::vring::VringBase;
use virtio::Features;
use virtqueue::{Buffer, Direction, Used};

pub use port::testing::front_end::InFlight;
pub use port::testing::guest_memory::*;

use super::{SOON, wait_for};

/// Which ring is which, of the first pair (VIRTIO 1.3 §5.1.2).
pub const RECEIVE: u8 = 0;
pub const TRANSMIT: u8 = 1;

pub fn plain() -> Features {
    Features::empty().union(Features::VERSION_1)
}

/// Split and packed.
pub fn layouts() -> [Features; 2] {
    [plain(), plain().union(Features::RING_PACKED)]
}

/// A front-end whose requests the switch answers.
pub struct Guest(FrontEnd);

impl Deref for Guest {
    type Target = FrontEnd;

    fn deref(&self) -> &FrontEnd {
        &self.0
    }
}

impl DerefMut for Guest {
    fn deref_mut(&mut self) -> &mut FrontEnd {
        &mut self.0
    }
}

impl Guest {
    /// Connects, and says nothing.
    pub fn connect_bare(path: &Path) -> Self {
        Self::try_connect_bare(path).unwrap_or_else(|| panic!("nobody listens at {}", path.display()))
    }

    /// As the function before; `None` if no switch listens.
    pub fn try_connect_bare(path: &Path) -> Option<Self> {
        FrontEnd::connect(path).ok().map(Guest)
    }

    /// Connects, and agrees on what both ends have of these features.
    pub fn connect(path: &Path, wanted: Features) -> Self {
        let mut guest = Self::connect_bare(path);
        guest.agree(&mut Elsewhere, wanted);
        guest
    }

    /// A guest with one pair running.
    pub fn running(path: &Path, wanted: Features) -> Self {
        let mut guest = Self::connect(path, wanted);
        guest.share_memory();
        guest.start_ring(RECEIVE);
        guest.start_ring(TRANSMIT);
        guest
    }

    /// A guest with one pair running, and what says which of its chains are in flight.
    pub fn running_with_in_flight(path: &Path, wanted: Features) -> (Self, InFlight) {
        let mut guest = Self::connect(path, wanted);
        guest.share_memory();
        let in_flight = guest.track_in_flight(&mut Elsewhere);
        guest.start_ring(RECEIVE);
        guest.start_ring(TRANSMIT);
        (guest, in_flight)
    }

    /// The same rings at another connection, as they stand: that of a switch that was started again.
    /// `enable_first`: before they start, or only then.
    pub fn reconnect(&mut self, path: &Path, in_flight: &InFlight, enable_first: bool) {
        self.connection = wait_for("the switch to listen again", || Connection::connect(path).ok());
        self.session = FrontendSession::new();
        let features = self.features;
        self.agree(&mut Elsewhere, features);
        self.share_memory();
        self.return_in_flight(&mut Elsewhere, in_flight);
        for index in [RECEIVE, TRANSMIT] {
            let base = self.queues[&index].driver.position().to_vring_base();
            self.announce_ring(&mut Elsewhere, index, base);
            let (kick, fds) = self.kick_of(index);
            if enable_first {
                self.enable(&mut Elsewhere, index, true);
                self.ask(kick, fds);
            } else {
                self.ask(kick, fds);
                // Long enough for a back-end that would discard what the ring holds.
                std::thread::sleep(std::time::Duration::from_millis(2));
                self.enable(&mut Elsewhere, index, true);
            }
        }
    }

    #[track_caller]
    pub fn try_ask(&mut self, request: Request, fds: Vec<OwnedFd>) -> Option<Answer> {
        self.0.try_ask(&mut Elsewhere, request, fds)
    }

    /// Sends a request that must not be refused.
    #[track_caller]
    pub fn ask(&mut self, request: Request, fds: Vec<OwnedFd>) -> Option<Answer> {
        self.0.ask(&mut Elsewhere, request, fds)
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
        self.0.share_memory(&mut Elsewhere);
    }

    /// A fresh driver half, and the ring announced, but not started.
    pub fn prepare_ring(&mut self, index: u8) {
        self.0.prepare_ring(&mut Elsewhere, index);
    }

    pub fn start_ring(&mut self, index: u8) {
        self.0.start_ring(&mut Elsewhere, index);
    }

    /// Stops a ring; where it stood.
    pub fn stop_ring(&mut self, index: u8) -> VringBase {
        self.0.stop_ring(&mut Elsewhere, index)
    }

    /// Empties a stopped ring, whatever stands in it.
    pub fn forget_ring(&mut self, index: u8) {
        self.queues.remove(&index);
        self.write(ring_at(index).0, &[0; 0x1_0000]);
    }

    /// Takes back what the device has used; descriptors that are free now.
    pub fn reclaimed(&mut self, index: u8) -> u16 {
        let driver = &mut self.queue(index).driver;
        driver.reclaim(&mut Vec::new(), usize::MAX).unwrap();
        driver.free_descriptors()
    }

    /// A frame in a receive buffer that was used.
    pub fn received(&self, used: &Used) -> Vec<u8> {
        let at = FrontEnd::buffer_at(RECEIVE, used.cookie) + HEADER as u64;
        self.read(at, used.written as usize - HEADER)
    }

    pub fn add(&mut self, index: u8, address: u64, len: u32) {
        let direction = if index == RECEIVE { Direction::FromDevice } else { Direction::ToDevice };
        let buffer = Buffer { address, len, cookie: self.queue(index).next };
        self.0.add(index, &[buffer], direction);
    }

    /// Ends the connection.
    pub fn hang_up(&mut self) {
        self.connection = UnixStream::pair().unwrap().0.into();
    }

    /// The eventfd by which the device calls.
    pub fn call_of(&self, index: u8) -> &OwnedFd {
        &self.queues[&index].call
    }

    /// Sends a frame with this net header in one buffer.
    pub fn send_with(&mut self, header: &[u8; HEADER], frame: &[u8]) {
        let at = FrontEnd::buffer_at(TRANSMIT, self.queues[&TRANSMIT].next);
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
            let at = FrontEnd::buffer_at(RECEIVE, self.queues[&RECEIVE].next);
            self.add(RECEIVE, at, 1600);
        }
    }

    /// Waits for this many buffers that the device has used.
    #[track_caller]
    pub fn wait_for_used(&mut self, index: u8, count: usize) -> Vec<Used> {
        let mut used = Vec::new();
        wait_for("used buffers", || {
            self.queue(index).driver.reclaim(&mut used, usize::MAX).unwrap();
            (used.len() >= count).then_some(())
        });
        used
    }

    /// Takes back the buffers that the device has used by now; returns how many.
    pub fn reclaim(&mut self, index: u8) -> usize {
        let mut used = Vec::new();
        self.queue(index).driver.reclaim(&mut used, usize::MAX).unwrap();
        used.len()
    }

    /// Waits for one frame in one of the buffers that were posted.
    #[track_caller]
    pub fn receive(&mut self) -> Vec<u8> {
        let used = self.wait_for_used(RECEIVE, 1);
        assert_eq!(used.len(), 1);
        let at = FrontEnd::buffer_at(RECEIVE, used[0].cookie) + HEADER as u64;
        self.read(at, used[0].written as usize - HEADER)
    }
}
