//! From a socket to a running ring.
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use vhost_device::EventFd;
use vhost_user::bits::ProtocolFeatures;
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::{MemoryRegion, MemoryTable, VringAddress, VringFd, VringState};
use vhost_user::session::frontend::{Answer, FrontendSession};
use vhost_user::socket::Connection;
use virtio::Features;
use virtqueue::{DriverQueue, RingFeatures};

use crate::DriverError;
use crate::error::system;
use crate::memory::{BASE, Memory, Plan};

/// The most requests that can be outstanding.
pub const MOST_SLOTS: u16 = 64;
/// The most pieces of a request, and of its result.
const MOST_PIECES: u16 = 7;

/// How a device is to be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The vhost-user socket where the device listens.
    pub path: PathBuf,
    /// Features of the ring, all of which the device must offer: RING_PACKED, RING_EVENT_IDX, RING_INDIRECT_DESC.
    pub ring: Features,
    /// Requests that may be outstanding, at most [`MOST_SLOTS`].
    pub slots: u16,
    /// The most bytes of a request, including its fixed fields.
    pub request_bytes: usize,
    /// The most bytes of a result.
    pub result_bytes: usize,
    /// The number of pieces of a request in memory, and of its result: 1 to 7.
    pub pieces: u16,
    /// The longest time for an answer or a request.
    pub patience: Duration,
}

impl Options {
    /// A split ring with event indices and indirect tables, one outstanding request of up to 64 KiB, in one piece.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            ring: Features::RING_EVENT_IDX.union(Features::RING_INDIRECT_DESC),
            slots: 1,
            request_bytes: (1 << 16) + 256,
            result_bytes: (1 << 16) + 256,
            pieces: 1,
            patience: Duration::from_secs(10),
        }
    }

    fn plan(&self) -> Plan {
        Plan {
            table_entries: 2 * MOST_PIECES + 2,
            slots: self.slots.clamp(1, MOST_SLOTS),
            request_bytes: self.request_bytes,
            result_bytes: self.result_bytes,
        }
    }

    pub(crate) fn pieces(&self) -> u16 {
        self.pieces.clamp(1, MOST_PIECES)
    }
}

/// The front-end's end of a connection.
pub(crate) struct FrontEnd {
    connection: Connection,
    session: FrontendSession,
    patience: Duration,
}

/// A running ring.
pub(crate) struct Ring {
    pub memory: Memory,
    pub queue: Box<dyn DriverQueue>,
    pub kick: EventFd,
    pub call: EventFd,
}

impl FrontEnd {
    /// Connects and negotiates features.
    pub fn connect(options: &Options) -> Result<Self, DriverError> {
        let connection = Connection::connect(&options.path)?;
        let mut front_end = Self { connection, session: FrontendSession::new(), patience: options.patience };
        let Some(Answer::Features(offered)) = front_end.ask(Request::GetFeatures, vec![])? else {
            return Err(DriverError::Surprise);
        };
        if !offered.contains(Features::VERSION_1.union(Features::VHOST_PROTOCOL_FEATURES)) {
            return Err(DriverError::Missing("VIRTIO 1 and protocol features"));
        }
        let missing = options.ring.difference(offered);
        if !missing.is_empty() {
            return Err(DriverError::Features(missing));
        }
        let Some(Answer::ProtocolFeatures(protocol)) = front_end.ask(Request::GetProtocolFeatures, vec![])?
        else {
            return Err(DriverError::Surprise);
        };
        let wanted = ProtocolFeatures::CRYPTO_SESSION | ProtocolFeatures::REPLY_ACK;
        if !protocol.contains(wanted) {
            return Err(DriverError::Missing("CRYPTO_SESSION and REPLY_ACK"));
        }
        front_end.ask(Request::SetProtocolFeatures(wanted), vec![])?;
        front_end.tell(Request::SetOwner, vec![])?;
        let features = Features::VERSION_1.union(Features::VHOST_PROTOCOL_FEATURES).union(options.ring);
        front_end.tell(Request::SetFeatures(features), vec![])?;
        Ok(front_end)
    }

    /// Shares memory and starts the first data queue.
    pub fn start(&mut self, options: &Options) -> Result<Ring, DriverError> {
        let memory = Memory::new(options.plan())?;
        let config = memory.config(RingFeatures::from(options.ring));
        let tables = options.ring.contains(Features::RING_INDIRECT_DESC).then(|| memory.tables());
        let queue = config.activate_driver(&memory.space, tables)?;
        let event = || EventFd::new().map_err(system("make an eventfd"));
        let share = |event: &EventFd| event.share().map_err(system("share an eventfd"));
        let (kick, call) = (event()?, event()?);
        let region = MemoryRegion {
            guest_address: BASE,
            size_bytes: memory.bytes,
            user_address: BASE,
            mmap_offset: 0,
        };
        let file = memory.file.try_clone().map_err(system("share the memory of a driver"))?;
        self.tell(Request::SetMemTable(MemoryTable { regions: vec![region] }), vec![file.into()])?;
        let vring = VringFd { index: 0, has_fd: true };
        let state = |num| VringState { index: 0, num };
        let address = VringAddress {
            index: 0,
            log_used: false,
            descriptor: config.descriptors.value(),
            used: config.device_area.value(),
            available: config.driver_area.value(),
            log: 0,
        };
        self.tell(Request::SetVringCall(vring), vec![share(&call)?])?;
        self.tell(Request::SetVringNum(state(config.size)), vec![])?;
        self.tell(Request::SetVringBase(state(config.position.to_vring_base())), vec![])?;
        self.tell(Request::SetVringAddr(address), vec![])?;
        self.tell(Request::SetVringKick(vring), vec![share(&kick)?])?;
        self.tell(Request::SetVringEnable(state(1)), vec![])?;
        Ok(Ring { memory, queue, kick, call })
    }

    /// The process id of the device.
    pub fn device(&self) -> Option<u32> {
        let process = linux::peer::peer(&self.connection).ok()?.process?;
        Some(process.as_raw_nonzero().get().cast_unsigned())
    }

    /// Sends a message. Returns the answer if the message has one.
    pub fn ask(&mut self, request: Request, fds: Vec<OwnedFd>) -> Result<Option<Answer>, DriverError> {
        let deadline = Some(Instant::now() + self.patience);
        let message = self.session.request(request, fds)?;
        self.connection.send(message, deadline)?;
        if !self.session.is_waiting() {
            return Ok(None);
        }
        let reply = self.connection.receive(deadline)?;
        Ok(Some(self.session.receive(reply)?))
    }

    /// Sends a message that must succeed.
    pub fn tell(&mut self, request: Request, fds: Vec<OwnedFd>) -> Result<(), DriverError> {
        match self.ask(request, fds)? {
            Some(Answer::Done { .. }) => Ok(()),
            Some(Answer::Refused { request, .. }) => Err(DriverError::Refused(request)),
            _ => Err(DriverError::Surprise),
        }
    }
}
