//! What is offered to a front-end, and the requests that are about neither rings nor memory.
use port::Port;
use port::vhost_user::VhostUserOptions;
use vhost_user::bits::ProtocolFeatures;
use vhost_user::codec::backend_request::BackendRequest;
use vhost_user::codec::frontend_request::{FrontendRequest as Request, MacAddress};
use vhost_user::codec::payload::ConfigAccess;
use vhost_user::session::frontend::{Answer, ChannelRequest};
use vhost_user::socket::Connection;
use virtio::{Features, NetFeatures};

use crate::common;
use crate::common::guest::{Guest, Host};
use crate::plain;

#[test]
fn the_rest_of_the_protocol_is_served() {
    let mac = "52:54:00:aa:bb:cc".parse().unwrap();
    let mut host = Host::new(|options| (options.net.mac, options.net.mtu) = (Some(mac), Some(2000)));
    let mut guest = Guest::running(&mut host, plain().union(NetFeatures::MTU).union(NetFeatures::MAC));
    let config = ConfigAccess { offset: 0, migration: false, bytes: vec![0; 12] };
    let read = guest.ask(&mut host, Request::GetConfig(config.clone()), vec![]);
    let Some(Answer::Config(Some(bytes))) = read else { panic!("{read:?}") };
    // Address, link up, one pair, MTU.
    assert_eq!(bytes, [0x52, 0x54, 0, 0xaa, 0xbb, 0xcc, 1, 0, 1, 0, 0xd0, 0x07]);
    let written = guest.try_ask(&mut host, Request::SetConfig(config), vec![]);
    assert!(matches!(written, Some(Answer::Refused { .. })), "{written:?}");

    guest.ask(&mut host, Request::SetStatus(15), vec![]);
    let status = guest.ask(&mut host, Request::GetStatus, vec![]);
    assert!(matches!(status, Some(Answer::Number { value: 15, .. })), "{status:?}");
    guest.ask(&mut host, Request::SendRarp(MacAddress([2, 0, 0, 0, 0, 9])), vec![]);
    assert_eq!(host.context.announced, [virtio::net::MacAddress([2, 0, 0, 0, 0, 9])]);

    // A change of the configuration is told over the back-end's socket.
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    guest.ask(&mut host, Request::SetBackendReqFd, vec![theirs.into()]);
    guest.ask(&mut host, Request::NetSetMtu(1500), vec![]);
    let mut channel = Connection::from(ours);
    let told = guest.session.receive_on_channel(channel.receive(Some(common::deadline())).unwrap()).unwrap();
    let ChannelRequest::Request { request: BackendRequest::ConfigChange, acknowledge: Some(yes), .. } = told
    else {
        panic!("{told:?}")
    };
    channel.try_send(yes.into_message(true)).unwrap();
    host.turn();
    drop(channel);
    host.until("channel gone", |host| host.context.watched() == 2);

    // The operator's limit may be narrowed, not widened.
    for mtu in [2001, 9000] {
        let wider = guest.try_ask(&mut host, Request::NetSetMtu(mtu), vec![]);
        assert!(matches!(wider, Some(Answer::Refused { .. })), "{wider:?}");
        assert!(host.port.describe().contains("MTU 1500"), "{}", host.port.describe());
    }

    guest.ask(&mut host, Request::ResetDevice, vec![]);
    assert!(host.context.sources.is_empty() && host.context.sinks.is_empty());
    let status = guest.ask(&mut host, Request::GetStatus, vec![]);
    assert!(matches!(status, Some(Answer::Number { value: 0, .. })), "{status:?}");
    // And up again.
    let features = guest.features;
    guest.set_features(&mut host, features);
    guest.start_ring(&mut host, 1);
    assert_eq!(host.context.sources.len(), 1);
}

#[test]
fn what_is_switched_off_is_not_offered() {
    let offered = |change: fn(&mut VhostUserOptions)| {
        let mut host = Host::new(change);
        let mut guest = Guest::connect(&mut host, Features::from_bits_retain(u64::MAX));
        let Some(Answer::Features(features)) = guest.ask(&mut host, Request::GetFeatures, vec![]) else {
            panic!()
        };
        (Features::from_bits_retain(features.bits()), guest.session.agreed().protocol)
    };
    let (all, protocol) = offered(|_| {});
    for (change, gone) in [
        ((|o| o.net.packed = false) as fn(&mut VhostUserOptions), Features::RING_PACKED),
        (|o| o.net.in_order = false, Features::IN_ORDER),
        (|o| o.net.mergeable = false, NetFeatures::MRG_RXBUF),
        (|o| o.net.event_idx = false, Features::RING_EVENT_IDX),
        (|o| o.net.indirect = false, Features::RING_INDIRECT_DESC),
    ] {
        assert!(all.contains(gone));
        assert_eq!(offered(change).0, all.difference(gone));
    }
    let (none, _) = offered(|o| o.net.offloads = false);
    assert!((all - none).each().all(|feature| NetFeatures(feature).to_string().starts_with("NET_")));
    assert_eq!((all - none).each().count(), 14);
    assert!(!protocol.contains(ProtocolFeatures::CONFIG) && all.contains(NetFeatures::MTU));
    let (with_mac, protocol) = offered(|o| o.net.mac = Some("52:54:00:00:00:01".parse().unwrap()));
    assert!(protocol.contains(ProtocolFeatures::CONFIG) && with_mac.contains(NetFeatures::MAC));
    assert!(!with_mac.contains(NetFeatures::MTU), "an MTU that nobody knows");
}
