//! What controllers are told unasked: packets, ports, flows that have ended.

use std::time::Duration;

use controllers::{ConnectionId, Controllers, News, PacketFor, Settings};
use flow::{Flow, FlowFlags, Match, Reason};
use openflow::{
    Async, Failure, Message, MonitorEvent, Nicira, Port, PortReason, RemovedReason, Role, RoleMessage,
    Version, asynchronous,
};

use super::switch::news_of;
use super::{Peers, code};

fn packet(reason: Reason) -> PacketFor {
    let mut metadata = Match::ANY;
    metadata.set(flow::Field::InPortOxm, 3);
    PacketFor {
        controller: 0,
        data: (0..200).collect(),
        full_bytes: 1000,
        reason,
        table: 9,
        cookie: 0x55,
        metadata,
        userdata: vec![1, 2],
        continuation: None,
    }
}

fn got(peers: &mut Peers, id: ConnectionId, packet: &PacketFor) -> Vec<Message> {
    peers.controllers.packet(packet, peers.now);
    peers.sent(id).into_iter().map(|(_, message)| message).collect()
}

fn removed(send_removed: bool, reason: RemovedReason) -> News {
    let flow = Flow { flags: FlowFlags { send_removed, ..FlowFlags::default() }, ..Flow::default() };
    News { flows: vec![news_of(flow, MonitorEvent::Removed, reason)], ..News::default() }
}

#[test]
fn a_packet_has_the_form_that_the_controller_has_asked_for() {
    let mut peers = Peers::new();
    let id = peers.connect(Version::V15);
    assert!(matches!(&got(&mut peers, id, &packet(Reason::Action))[..],
        [Message::PacketIn(packet)] if !packet.nicira && packet.data.len() == 200 && packet.bytes == 1000));
    peers.ask(id, &Message::Nicira(Nicira::SetPacketInFormat(1)));
    assert!(matches!(&got(&mut peers, id, &packet(Reason::Action))[..],
        [Message::PacketIn(packet)] if packet.nicira && packet.cookie == 0x55));
    peers.ask(id, &Message::Nicira(Nicira::SetPacketInFormat(2)));
    assert!(matches!(&got(&mut peers, id, &packet(Reason::Action))[..],
        [Message::Nicira(Nicira::PacketIn2(packet))]
            if packet.userdata.as_deref() == Some(&[1, 2]) && packet.full_bytes == Some(1000)));
    let unknown = Message::Nicira(Nicira::SetPacketInFormat(3));
    assert_eq!(peers.refused(id, &unknown), code(Failure::NotPermitted));
}

#[test]
fn a_packet_that_no_flow_matched_is_cut() {
    let mut peers = Peers::new();
    let id = peers.connect(Version::V13);
    let bytes = |peers: &mut Peers| match &got(peers, id, &packet(Reason::NoMatch))[..] {
        [Message::PacketIn(packet)] => packet.data.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!(bytes(&mut peers), 128);
    peers.ask(id, &Message::SetConfig(openflow::Config { flags: 0, miss_bytes: 40 }));
    assert_eq!(bytes(&mut peers), 40);
}

#[test]
fn reasons_that_a_version_does_not_know_are_told_as_the_older_one() {
    let mut peers = Peers::new();
    let (old, new) = (peers.connect(Version::V13), peers.connect(Version::V14));
    peers.controllers.packet(&packet(Reason::Group), peers.now);
    for (id, reason) in [(old, Reason::Action), (new, Reason::Group)] {
        assert!(matches!(&peers.sent(id)[..], [(_, Message::PacketIn(packet))] if packet.reason == reason));
    }
}

#[test]
fn a_packet_goes_to_the_controllers_with_its_id() {
    let mut peers = Peers::new();
    let (one, other) = (peers.connect(Version::V15), peers.connect(Version::V15));
    peers.ask(other, &Message::Nicira(Nicira::SetControllerId(5)));
    peers.controllers.packet(&PacketFor { controller: 5, ..packet(Reason::Action) }, peers.now);
    assert_eq!((peers.sent(one).len(), peers.sent(other).len()), (0, 1));
}

#[test]
fn packets_have_a_rate() {
    let mut peers = Peers::new();
    let settings = Settings { packets: Some((100, 25)), ..Settings::controller() };
    let id = peers.connect_as(Version::V15, settings);
    let count =
        |peers: &mut Peers, reason| -> usize { (0..50).map(|_| got(peers, id, &packet(reason)).len()).sum() };
    assert_eq!(count(&mut peers, Reason::Action), 25);
    assert_eq!(count(&mut peers, Reason::NoMatch), 25); // of its own
    peers.now += Duration::from_millis(100);
    assert_eq!(count(&mut peers, Reason::Action), 10);
    assert_eq!(peers.controllers.dropped_packets(id), 25 + 25 + 40);
}

#[test]
fn masks_say_what_a_controller_is_told() {
    let mut peers = Peers::new();
    let id = peers.connect(Version::V15);
    assert_eq!(got(&mut peers, id, &packet(Reason::InvalidTtl)).len(), 0);
    let masks =
        Async { masks: vec![(asynchronous::PACKET_IN + 1, 1 << 2), (asynchronous::FLOW_REMOVED + 1, 0)] };
    assert_eq!(peers.refused(id, &Message::SetAsync(masks)), None);
    assert_eq!(got(&mut peers, id, &packet(Reason::InvalidTtl)).len(), 1);
    assert_eq!(got(&mut peers, id, &packet(Reason::Action)).len(), 0);
    peers.controllers.news(&removed(true, RemovedReason::IdleTimeout));
    assert_eq!(peers.sent(id), []);
    let [Message::GetAsyncReply(told)] = &peers.ask(id, &Message::GetAsyncRequest)[..] else { panic!() };
    assert_eq!(told.mask(asynchronous::PACKET_IN + 1), Some(1 << 2));
    assert_eq!(told.mask(asynchronous::PACKET_IN), Some(0));
    let unknown = Message::SetAsync(Async { masks: vec![(asynchronous::PORT_STATUS, 8)] });
    assert_eq!(peers.refused(id, &unknown), code(Failure::AsyncUnsupported));
}

/// In OpenFlow 1.0 a bit of the configuration requests packets whose time to live ended.
#[test]
fn an_old_controller_asks_for_packets_whose_time_has_ended() {
    let mut peers = Peers::new();
    let id = peers.connect(Version::V10);
    for (flags, packets) in [(0, 0), (4, 1), (0, 0)] {
        let config = openflow::Config { flags, miss_bytes: 128 };
        peers.ask(id, &Message::SetConfig(config));
        assert_eq!(peers.ask(id, &Message::GetConfigRequest), [Message::GetConfigReply(config)]);
        assert_eq!(got(&mut peers, id, &packet(Reason::InvalidTtl)).len(), packets);
    }
}

#[test]
fn flows_that_ask_for_it_are_told_of_when_they_end() {
    let mut peers = Peers::new();
    let (old, new) = (peers.connect(Version::V13), peers.connect(Version::V15));
    peers.controllers.news(&removed(false, RemovedReason::Delete));
    assert_eq!((peers.sent(old), peers.sent(new)), (vec![], vec![]));
    peers.controllers.news(&removed(true, RemovedReason::MeterDelete));
    for (id, reason) in [(old, RemovedReason::Delete), (new, RemovedReason::MeterDelete)] {
        assert!(matches!(&peers.sent(id)[..], [(0, Message::FlowRemoved(flow))] if flow.reason == reason));
    }
}

#[test]
fn a_secondary_is_told_of_ports_alone() {
    let mut peers = Peers::new();
    let id = peers.connect(Version::V15);
    peers.ask(id, &Message::RoleRequest(RoleMessage { role: Role::Secondary, generation: 1 }));
    peers.controllers.news(&removed(true, RemovedReason::Delete));
    peers.controllers.packet(&packet(Reason::Action), peers.now);
    assert_eq!(peers.sent(id), []);
    news_of_a_port(&mut peers.controllers);
    assert!(matches!(&peers.sent(id)[..], [(0, Message::PortStatus(_))]));
}

fn news_of_a_port(controllers: &mut Controllers) {
    let port = Port {
        number: 7,
        address: [2; 6],
        name: *b"port\0\0\0\0\0\0\0\0\0\0\0\0",
        config: 0,
        state: 0,
        ethernet: None,
        properties: vec![],
    };
    controllers.news(&News { ports: vec![(PortReason::Add, port)], ..News::default() });
}

#[test]
fn the_management_socket_is_told_what_it_asks_for() {
    let mut peers = Peers::new();
    let id = peers.connect_as(Version::V15, Settings::service());
    let all = |peers: &mut Peers| {
        news_of_a_port(&mut peers.controllers);
        peers.controllers.packet(&packet(Reason::Action), peers.now);
        peers.sent(id).len()
    };
    assert_eq!(all(&mut peers), 0);
    peers.ask(id, &Message::SetConfig(openflow::Config { flags: 0, miss_bytes: 100 }));
    assert_eq!(all(&mut peers), 2);
}

/// Whole messages of controllers in both directions, and none of the management socket.
#[test]
fn messages_are_copied_while_somebody_looks_on() {
    let mut peers = Peers::new();
    let service = peers.connect_as(Version::V15, Settings::service());
    let before = peers.connect(Version::V15);
    peers.controllers.copy_messages(true);
    let after = peers.connect(Version::V13);
    peers.controllers.take_copies();
    for id in [service, before, after] {
        peers.ask(id, &Message::EchoRequest(vec![1, 2]));
    }
    let copies = peers.controllers.take_copies();
    let (request, reply) = (10, 10);
    assert_eq!(copies.len(), 2 * (request + reply));
    assert_eq!(
        copies.iter().step_by(10).copied().collect::<Vec<_>>(),
        [6, 6, 4, 4],
        "versions, by connection"
    );
    peers.controllers.copy_messages(false);
    peers.ask(before, &Message::EchoRequest(vec![1, 2]));
    assert_eq!(peers.controllers.take_copies(), []);
}
