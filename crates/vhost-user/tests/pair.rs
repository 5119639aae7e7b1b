//! Our front-end against our back-end over a socket pair, for every set of features that changes what
//! is said.
mod common;

use std::thread;

use common::device::Device;
use common::driver::{Driver, event_fd};
use common::{End, fd, pair, serve, soon};
use vhost_user::bits::ProtocolFeatures as P;
use vhost_user::codec::backend_request::BackendRequest;
use vhost_user::codec::frontend_request::{FrontendRequest as Request, MacAddress};
use vhost_user::codec::payload::*;
use vhost_user::session::backend::{BackendSession, Offer};
use vhost_user::session::frontend::{Answer, ChannelRequest};
use vhost_user::socket::{Connection, SocketError};
use vhost_user::vring::{RingLayout, VringBase};
use virtio::Features;

const FEATURES: Features = Features::VERSION_1
    .union(Features::RING_PACKED)
    .union(Features::VHOST_LOG_ALL)
    .union(Features::ACCESS_PLATFORM)
    .union(Features::VHOST_PROTOCOL_FEATURES);

/// Runs a back-end that offers this, and the given front-end against it; gives the back-end's records.
fn with_backend(protocol: P, front_end: impl FnOnce(&mut Driver)) -> (Device, BackendSession) {
    let (ours, theirs) = pair();
    let offer = Offer::new(FEATURES.difference(Features::VHOST_PROTOCOL_FEATURES), protocol, 4).unwrap();
    let backend = thread::spawn(move || {
        let (mut connection, mut device) = (theirs, Device::default());
        let mut session = BackendSession::new(offer);
        let end = serve(&mut connection, &mut session, &mut device, |_| false);
        assert!(matches!(end, End::Socket(SocketError::Closed)), "{end:?}");
        (device, session)
    });
    let mut driver = Driver::new(ours);
    front_end(&mut driver);
    drop(driver);
    backend.join().unwrap()
}

fn iotlb(at: u64, access: Access, kind: IotlbKind) -> Iotlb {
    Iotlb { iova: at, size_bytes: at, user_address: at, access, kind }
}

#[test]
fn rings_start_and_stop_under_every_set_of_features() {
    let sets = [
        P::empty(),
        P::MQ,
        P::MQ | P::REPLY_ACK,
        P::CONFIGURE_MEM_SLOTS,
        P::CONFIGURE_MEM_SLOTS | P::REPLY_ACK,
        P::HANDLED.difference(P::REPLY_ACK | P::INBAND_NOTIFICATIONS),
        P::HANDLED,
    ];
    for protocol in sets {
        for (packed, bit_30) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut features = FEATURES;
            features.set(Features::RING_PACKED, packed);
            features.set(Features::VHOST_PROTOCOL_FEATURES, bit_30);
            let layout = vhost_user::vring::layout_of(features);
            let (base, num) = match packed {
                false => (VringBase::Split { next_available: 9 }, 9),
                true => (VringBase::start(RingLayout::Packed), 0x8000_8000),
            };
            let (device, _) = with_backend(protocol, |driver| {
                driver.negotiate(features, protocol);
                driver.share_memory();
                for index in 0..4 {
                    driver.start_ring(index, num);
                }
                for index in 0..4 {
                    assert_eq!(driver.stop_ring(index), base, "{layout:?} {protocol:?}");
                }
            });
            let count = |what: &str| device.log.iter().filter(|entry| entry.starts_with(what)).count();
            assert_eq!(
                (count("started"), count("stopped"), count("rejected")),
                (4, 4, 0),
                "{:?}",
                device.log
            );
            let asked_to_enable = if bit_30 && !protocol.is_empty() { 4 } else { 0 };
            assert_eq!(count("enabled"), asked_to_enable, "{protocol:?} {:?}", device.log);
        }
    }
}

/// Every other message, through both sessions and the sockets.
#[test]
fn everything_that_is_handled_is_said_once() {
    let inflight = |size_bytes| Inflight { size_bytes, offset: 0, queue_count: 2, queue_size: 256 };
    let (device, _) = with_backend(P::HANDLED, |driver| {
        driver.negotiate(FEATURES, P::HANDLED);
        let Some(Answer::Number { value: 4, .. }) = driver.ask(Request::GetQueueNum, vec![]) else {
            panic!()
        };
        driver.ask(Request::NetSetMtu(1500), vec![]);
        driver.ask(Request::SendRarp(MacAddress([2, 0, 0, 0, 0, 1])), vec![]);
        driver.ask(Request::SetStatus(11), vec![]);
        let Some(Answer::Number { value: 11, .. }) = driver.ask(Request::GetStatus, vec![]) else { panic!() };
        let config = ConfigAccess { offset: 0, migration: false, bytes: vec![0; 12] };
        let Some(Answer::Config(Some(bytes))) = driver.ask(Request::GetConfig(config.clone()), vec![]) else {
            panic!()
        };
        assert_eq!(bytes, [0xa5; 12]);
        driver.ask(Request::SetConfig(config), vec![]);
        let Some(Answer::Inflight(given, file)) = driver.ask(Request::GetInflightFd(inflight(0)), vec![])
        else {
            panic!()
        };
        driver.ask(
            Request::SetInflightFd(given),
            vec![std::os::fd::AsFd::as_fd(&file).try_clone_to_owned().unwrap()],
        );
        driver.share_memory();
        driver.ask(Request::SetLogBase(LogArea { size_bytes: 4096, offset: 0 }), vec![fd()]);
        driver.ask(Request::SetLogFd, vec![event_fd()]);
        let entry = iotlb(0x1000, Access { read: true, write: true }, IotlbKind::Update);
        driver.ask(Request::IotlbMsg(entry), vec![]);
        let state = DeviceStateTransfer { direction: StateDirection::Load };
        let Some(Answer::StateChannel(Some(_))) = driver.ask(Request::SetDeviceStateFd(state), vec![fd()])
        else {
            panic!()
        };
        driver.ask(Request::CheckDeviceState, vec![]);
        driver.start_ring(0, 0x8000_8000);
        driver.ask(Request::SetVringErr(VringFd { index: 0, has_fd: false }), vec![]);
        driver.ask(Request::VringKick(VringState { index: 0, num: 0 }), vec![]);
        driver.ask(Request::RemMemReg(SingleRegion(common::driver::region())), vec![]);
        driver.ask(Request::ResetDevice, vec![]);
        driver.ask(Request::ResetOwner, vec![]);

        let Some(Answer::Userfault(Some(_))) = driver.ask(Request::PostcopyAdvise, vec![]) else { panic!() };
        driver.ask(Request::PostcopyListen, vec![]);
        let regions = vec![common::driver::region()];
        let table = Request::SetMemTable(MemoryTable { regions });
        let Some(Answer::MappedTable(mapped)) = driver.ask(table, vec![fd()]) else { panic!() };
        assert_eq!(mapped.regions[0].user_address, common::driver::USER_ADDRESS + 1);
        assert!(driver.ask(Request::SetMemTable(MemoryTable { regions: vec![] }), vec![]).is_none());
        let more = MemoryRegion { guest_address: 1 << 40, user_address: 1 << 40, ..common::driver::region() };
        let added = driver.ask(Request::AddMemReg(SingleRegion(more)), vec![fd()]);
        assert!(matches!(added, Some(Answer::MappedRegion(_))));
        assert!(driver.ask(Request::AckMemRegs, vec![]).is_none());
        driver.ask(Request::PostcopyEnd, vec![]);
    });
    let expected = [
        "features",
        "mtu",
        "status 11",
        "config read 0 12",
        "config written 12",
        "inflight requested",
        "inflight set",
        "region added",
        "log",
        "iotlb",
        "device state",
        "device state checked",
        "started 0",
        "enabled 0 true",
        "kicked 0",
        "region removed",
        "reset",
        "postcopy advised",
        "postcopy listening",
        "postcopy memory 1",
        "postcopy ready",
        "postcopy memory 1",
        "postcopy ready",
        "postcopy ended",
    ];
    assert_eq!(device.log, expected);
    assert_eq!(device.rarps, 1);
}

#[test]
fn the_back_end_asks_and_the_front_end_acknowledges() {
    let (mut kept, lent) = pair();
    let lent = {
        use std::os::fd::AsFd;
        lent.as_fd().try_clone_to_owned().unwrap()
    };
    let (device, mut session) = with_backend(P::HANDLED, |driver| {
        driver.negotiate(FEATURES, P::HANDLED);
        driver.ask(Request::SetBackendReqFd, vec![lent]);
    });
    let mut front = Driver::new(pair().0);
    // The front-end's half of the same agreement, for its session went with its driver.
    front.session = {
        let mut session = vhost_user::session::frontend::FrontendSession::new();
        for (request, bits) in
            [(Request::GetFeatures, FEATURES.bits()), (Request::GetProtocolFeatures, P::HANDLED.bits())]
        {
            let id = request.id();
            session.request(request, vec![]).unwrap();
            let reply = vhost_user::codec::reply::ReplyBody::Number(bits).into_message(id);
            session.receive(reply).unwrap();
        }
        session.request(Request::SetProtocolFeatures(P::HANDLED), vec![]).unwrap();
        session.request(Request::SetFeatures(FEATURES), vec![]).unwrap();
        session
    };
    let mut back: Connection = device.channel.unwrap().into();
    let miss = iotlb(0, Access { read: true, write: false }, IotlbKind::Miss);
    let vring = VringFd { index: 0, has_fd: true };
    let state = VringState { index: 0, num: 0 };
    for (request, fds) in [
        (BackendRequest::ConfigChange, vec![]),
        (BackendRequest::IotlbMsg(miss), vec![]),
        (BackendRequest::VringCall(state), vec![]),
        (BackendRequest::VringErr(state), vec![]),
        (BackendRequest::VringHostNotifier(VringArea { vring, size_bytes: 4096, offset: 0 }), vec![fd()]),
    ] {
        let sent = session.request(request.clone(), fds).unwrap();
        back.send(sent, soon()).unwrap();
        let received = front.session.receive_on_channel(kept.receive(soon()).unwrap()).unwrap();
        let ChannelRequest::Request { request: found, acknowledge: Some(acknowledge), .. } = received else {
            panic!()
        };
        assert_eq!(found, request);
        kept.send(acknowledge.into_message(true), soon()).unwrap();
        assert!(session.receive_on_channel(back.receive(soon()).unwrap()).unwrap().success);
    }
}
