//! A front-end that goes through a whole life with whatever back-end is at the other end.
use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};
use vhost_user::bits::ProtocolFeatures as P;
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::{
    MemoryRegion, MemoryTable, SingleRegion, VringAddress, VringFd, VringState,
};
use vhost_user::session::SessionError;
use vhost_user::session::frontend::{Answer, FrontendSession};
use vhost_user::socket::{Connection, SocketError};
use vhost_user::vring::VringBase;
use virtio::Features;

use super::soon;

pub const REGION_BYTES: u64 = 4 << 20;
pub const USER_ADDRESS: u64 = 0x7000_0000_0000;
pub const QUEUE_SIZE: u16 = 256;

pub struct Driver {
    pub connection: Connection,
    pub session: FrontendSession,
}

pub fn event_fd() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap()
}

/// Memory that the other end can map.
pub fn guest_memory() -> OwnedFd {
    let fd = super::memfd();
    rustix::fs::ftruncate(&fd, REGION_BYTES).unwrap();
    fd
}

pub fn region() -> MemoryRegion {
    MemoryRegion { guest_address: 0, size_bytes: REGION_BYTES, user_address: USER_ADDRESS, mmap_offset: 0 }
}

impl Driver {
    pub fn new(connection: Connection) -> Self {
        Self { connection, session: FrontendSession::new() }
    }

    /// Sends a request; the answer, if one is due.
    pub fn try_ask(&mut self, request: Request, fds: Vec<OwnedFd>) -> Result<Option<Answer>, SessionError> {
        let message = self.session.request(request, fds)?;
        self.connection.send(message, soon()).unwrap();
        if !self.session.is_waiting() {
            return Ok(None);
        }
        let reply = self.connection.receive(soon()).unwrap();
        self.session.receive(reply).map(Some)
    }

    /// Sends a request that must not be refused.
    pub fn ask(&mut self, request: Request, fds: Vec<OwnedFd>) -> Option<Answer> {
        let name = request.rule().name;
        let answer = self.try_ask(request, fds).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!matches!(answer, Some(Answer::Refused { .. })), "{name}: {answer:?}");
        answer
    }

    /// Agrees on all that both ends have of these features.
    pub fn negotiate(&mut self, features: Features, protocol: P) {
        self.ask(Request::SetOwner, vec![]);
        let Some(Answer::Features(offered)) = self.ask(Request::GetFeatures, vec![]) else { panic!() };
        if offered.contains(Features::VHOST_PROTOCOL_FEATURES)
            && features.contains(Features::VHOST_PROTOCOL_FEATURES)
        {
            let Some(Answer::ProtocolFeatures(offered)) = self.ask(Request::GetProtocolFeatures, vec![])
            else {
                panic!()
            };
            self.ask(Request::SetProtocolFeatures(offered & protocol), vec![]);
        }
        self.ask(Request::SetFeatures(offered & features), vec![]);
    }

    pub fn share_memory(&mut self) {
        let one_by_one = self.session.agreed().protocol.contains(P::CONFIGURE_MEM_SLOTS);
        if one_by_one {
            let slots = self.ask(Request::GetMaxMemSlots, vec![]);
            assert!(matches!(slots, Some(Answer::Number { value: 1.., .. })), "{slots:?}");
            self.ask(Request::AddMemReg(SingleRegion(region())), vec![guest_memory()]);
        } else {
            let regions = vec![region()];
            self.ask(Request::SetMemTable(MemoryTable { regions }), vec![guest_memory()]);
        }
    }

    pub fn start_ring(&mut self, index: u8, base: u32) {
        let state = |num| VringState { index: index.into(), num };
        let vring = VringFd { index, has_fd: true };
        self.ask(Request::SetVringCall(vring), vec![event_fd()]);
        self.ask(Request::SetVringNum(state(QUEUE_SIZE.into())), vec![]);
        self.ask(Request::SetVringBase(state(base)), vec![]);
        let descriptor = USER_ADDRESS + 0x10000 * u64::from(index);
        let address = VringAddress {
            index: index.into(),
            log_used: false,
            descriptor,
            used: descriptor + 0x2000,
            available: descriptor + 0x1000,
            log: 0,
        };
        self.ask(Request::SetVringAddr(address), vec![]);
        self.ask(Request::SetVringKick(vring), vec![event_fd()]);
        if self.session.agreed().features.contains(Features::VHOST_PROTOCOL_FEATURES) {
            self.ask(Request::SetVringEnable(state(1)), vec![]);
        }
    }

    pub fn stop_ring(&mut self, index: u8) -> VringBase {
        let asked = VringState { index: index.into(), num: 0 };
        match self.ask(Request::GetVringBase(asked), vec![]) {
            Some(Answer::VringBase { base, .. }) => base,
            other => panic!("{other:?}"),
        }
    }

    /// The other end must have closed the connection.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.connection.receive(soon()), Err(SocketError::Closed))
    }
}
