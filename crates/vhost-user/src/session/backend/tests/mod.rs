//! Every rule of the back-end's session, one test each.
mod crypto;
mod features;
mod journal;
mod memory;
mod messages;
mod rings;

use super::*;
use crate::bits::ProtocolFeatures as P;
use crate::codec::payload::{MemoryRegion, MemoryTable, VringAddress, VringFd, VringState};
use std::os::fd::OwnedFd;

pub(super) fn fd() -> OwnedFd {
    std::fs::File::open("/dev/null").unwrap().into()
}

pub(super) fn offer() -> Offer {
    let features =
        Features::VERSION_1 | Features::RING_PACKED | Features::VHOST_LOG_ALL | Features::ACCESS_PLATFORM;
    Offer::new(features, P::HANDLED, 4).unwrap()
}

/// A session with everything agreed on but these features.
pub(super) fn agreed_without(features: Features) -> BackendSession {
    let mut session = BackendSession::new(offer());
    let features = session.agreed().offered.difference(features);
    pass(&mut session, Request::SetProtocolFeatures(P::HANDLED), vec![]);
    pass(&mut session, Request::SetOwner, vec![]);
    pass(&mut session, Request::SetFeatures(features), vec![]);
    session
}

/// A split session that has memory.
pub(super) fn with_memory() -> BackendSession {
    let mut session = agreed_without(Features::RING_PACKED);
    pass(&mut session, table(&[region(0)]), vec![fd()]);
    session
}

/// A session that has memory and a queue 0 that is set up, packed.
pub(super) fn configured() -> BackendSession {
    let mut session = agreed_without(Features::empty());
    pass(&mut session, table(&[region(0)]), vec![fd()]);
    configure(&mut session, 0);
    session
}

/// A split session whose queue 0 runs.
pub(super) fn running() -> BackendSession {
    let mut session = with_memory();
    configure(&mut session, 0);
    pass(&mut session, Request::SetVringKick(VringFd { index: 0, has_fd: true }), vec![fd()]);
    session
}

pub(super) fn configure(session: &mut BackendSession, index: u32) {
    pass(session, Request::SetVringNum(VringState { index, num: 256 }), vec![]);
    pass(session, Request::SetVringBase(VringState { index, num: 7 }), vec![]);
    pass(session, address(index, 0x1000), vec![]);
}

pub(super) fn address(index: u32, descriptor: u64) -> Request {
    let (used, available) = (descriptor + 0x2000, descriptor + 0x1000);
    Request::SetVringAddr(VringAddress { index, log_used: false, descriptor, used, available, log: 0 })
}

/// The n-th of many regions that do not overlap.
pub(super) fn region(n: u64) -> MemoryRegion {
    MemoryRegion { guest_address: n << 20, size_bytes: 1 << 20, user_address: (n + 16) << 20, mmap_offset: 0 }
}

pub(super) fn table(regions: &[MemoryRegion]) -> Request {
    Request::SetMemTable(MemoryTable { regions: regions.to_vec() })
}

/// Sends a request and asks for an acknowledgement.
pub(super) fn send(session: &mut BackendSession, request: Request, fds: Vec<OwnedFd>) -> Received {
    let mut message = request.to_message(fds);
    message.header.need_reply = true;
    session.receive(message).unwrap()
}

/// Sends a request that must be accepted, and says yes to its event; gives the reply's number.
pub(super) fn pass(session: &mut BackendSession, request: Request, fds: Vec<OwnedFd>) {
    let name = request.rule().name;
    match send(session, request, fds) {
        Received::Event(event) => {
            let sent = session.answer(done(event), Ok(())).unwrap();
            assert_eq!(number(&sent.reply.unwrap()), 0, "{name}");
        }
        Received::Reply(reply) => assert_eq!(number(&reply), 0, "{name}"),
        other => panic!("{name}: {other:?}"),
    }
}

/// Sends a request that must be refused with this field named, and the session must live on.
pub(super) fn reject(session: &mut BackendSession, request: Request, fds: Vec<OwnedFd>, field: &str) {
    let name = request.rule().name;
    match send(session, request, fds) {
        Received::Rejected(reply, violation) => {
            assert_ne!(number(&reply), 0);
            assert_eq!(violation.field, field, "{name}: {violation}");
        }
        other => panic!("{name}: {other:?}"),
    }
}

pub(super) fn event(session: &mut BackendSession, request: Request, fds: Vec<OwnedFd>) -> Event {
    match send(session, request, fds) {
        Received::Event(event) => event,
        other => panic!("no event but {other:?}"),
    }
}

/// A reply's number, whatever else it carries.
pub(super) fn number(reply: &Message) -> u64 {
    assert!(reply.header.reply);
    u64::from_ne_bytes(reply.payload[..8].try_into().unwrap())
}

/// The ticket of an event that is either done or refused.
pub(super) fn done(event: Event) -> Ticket<crate::session::Outcome> {
    match event {
        Event::FeaturesSet { done, .. }
        | Event::MemoryTableSet { done, .. }
        | Event::MemoryRegionAdded { done, .. }
        | Event::MemoryRegionRemoved { done, .. }
        | Event::LogSet { done, .. }
        | Event::LogNotifierSet { done, .. }
        | Event::VringStarted { done, .. }
        | Event::VringEnabled { done, .. }
        | Event::VringCallChanged { done, .. }
        | Event::VringErrChanged { done, .. }
        | Event::VringKickChanged { done, .. }
        | Event::VringLogChanged { done, .. }
        | Event::VringKicked { done, .. }
        | Event::BackendChannelSet { done, .. }
        | Event::IotlbChanged { done, .. }
        | Event::RarpRequested { done, .. }
        | Event::MtuSet { done, .. }
        | Event::ConfigWritten { done, .. }
        | Event::InflightSet { done, .. }
        | Event::Reset { done }
        | Event::StatusSet { done, .. }
        | Event::PostcopyListening { done }
        | Event::PostcopyMemoryReady { done }
        | Event::PostcopyEnded { done }
        | Event::DeviceStateCheck { done } => done,
        other => panic!("{other:?} takes another answer"),
    }
}
