//! Controllers that keep to no rule: what they make a switch hold is bounded, and nothing panics.

use controllers::{Limits, News, SessionError, Settings};
use openflow::{
    BundleAdd, BundleFlags, Codec, FlowRequest, Hello, Message, MonitorEvent, MonitorFlags, MonitorRequest,
    RemovedReason, Request, Version,
};
use proptest::prelude::*;

use super::switch::news_of;
use super::{Peers, flow_mod};

const OFCTL: &[u8] = include_bytes!("../../../openflow/tests/data/ovs-ofctl-3.1.bin");

#[test]
fn an_endless_bundle_is_bounded() {
    let limits = Limits { bundle_bytes: 1 << 20, ..Limits::default() };
    let mut peers = Peers::with(limits);
    let id = peers.connect(Version::V15);
    let message = Box::new(flow_mod("in_port=1 actions=output:2"));
    let added = Message::BundleAdd(BundleAdd { id: 1, flags: BundleFlags::default(), message });
    let bytes = Codec::new(Version::V15).encode(7, &added).unwrap();
    let mut refused = 0;
    for _ in 0..30_000 {
        peers.receive(id, &bytes).unwrap();
        refused += peers.take(id).len().min(1);
    }
    assert_eq!(refused, 30_000 - (1 << 20) / bytes.len());
}

#[test]
fn a_controller_that_asks_and_does_not_read_is_not_read() {
    let limits = Limits::default();
    let mut peers = Peers::new();
    let id = peers.connect(Version::V15);
    let echo = Codec::new(Version::V15).encode(1, &Message::EchoRequest(vec![0; 60_000])).unwrap();
    let mut requests = 0;
    while peers.controllers.reads(id) {
        peers.receive(id, &echo).unwrap();
        requests += 1;
    }
    assert!(requests < 10);
    assert!(peers.controllers.to_send(id).unwrap().len() < limits.paused_bytes + 0x1_0000);
}

#[test]
fn a_controller_that_does_not_read_its_news_is_left() {
    let mut peers = Peers::new();
    let id = peers.connect(Version::V15);
    let request = MonitorRequest {
        id: 1,
        flags: MonitorFlags::REMOVED,
        out_port: None,
        out_group: None,
        table: openflow::ANY_TABLE,
        command: 0,
        wanted: flow::Match::ANY,
    };
    peers.ask(id, &Message::MultipartRequest(Box::new(Request::FlowMonitor(vec![request])), false));
    let flow = news_of(flow::Flow::default(), MonitorEvent::Removed, RemovedReason::IdleTimeout);
    let news = News { flows: vec![flow; 1000], ..News::default() };
    let mut times = 0;
    while peers.controllers.receive(id, &[], &mut peers.switch, peers.now).is_ok() {
        peers.controllers.news(&news);
        times += 1;
        assert!(times < 1000);
    }
    assert!(matches!(peers.receive(id, &[]), Err(SessionError::DoesNotRead(_))));
}

#[test]
fn news_for_a_controller_that_says_nothing_more_have_a_limit_and_end_it() {
    let limits = Limits { unsent_bytes: 1 << 20, ..Limits::default() };
    let mut peers = Peers::with(limits);
    let id = peers.connect(Version::V15);
    let flow = flow::Flow {
        flags: flow::FlowFlags { send_removed: true, ..flow::FlowFlags::default() },
        ..flow::Flow::default()
    };
    let flow = news_of(flow, MonitorEvent::Removed, RemovedReason::IdleTimeout);
    let news = News { flows: vec![flow; 1000], ..News::default() };
    assert_eq!(peers.controllers.check(id), Ok(()));
    (0..100).for_each(|_| peers.controllers.news(&news));
    let waiting = peers.controllers.to_send(id).unwrap().len();
    assert!((limits.unsent_bytes - 1000..=limits.unsent_bytes).contains(&waiting), "{waiting}");
    assert_eq!(peers.controllers.check(id), Err(SessionError::DoesNotRead(waiting)));
    // A message is missing: bytes that are sent later change nothing.
    peers.take(id);
    assert!(peers.controllers.check(id).is_err() && peers.receive(id, &[]).is_err());
}

#[test]
fn packets_for_a_controller_that_does_not_read_are_dropped() {
    let mut peers = Peers::new();
    let id = peers.connect(Version::V15);
    let packet = controllers::PacketFor {
        controller: 0,
        data: vec![0; 1500],
        full_bytes: 1500,
        reason: flow::Reason::Action,
        table: 0,
        cookie: 0,
        metadata: flow::Match::ANY,
        userdata: vec![],
        continuation: None,
    };
    (0..10_000).for_each(|_| peers.controllers.packet(&packet, peers.now));
    assert!(peers.controllers.to_send(id).unwrap().len() < Limits::default().paused_bytes + 0x1_0000);
    assert!(peers.controllers.dropped_packets(id) > 9000);
}

#[test]
fn a_switch_tells_flows_one_by_one() {
    // Ten million flows are not collected anywhere: the first bytes are there at once.
    let mut peers = Peers::new();
    peers.switch.flows = (10_000_000, 1);
    let id = peers.connect(Version::V15);
    let request = Request::Flow(FlowRequest::of(openflow::ANY_TABLE, flow::Match::ANY));
    peers.tell(id, 1, &Message::MultipartRequest(Box::new(request), false));
    assert!(peers.controllers.to_send(id).unwrap().len() < Limits::default().paused_bytes + 0x1_0000);
}

proptest! {
    #[test]
    fn any_bytes_behind_a_hello_end_in_answers_or_in_an_error(
        version in 0..4_usize, bytes in prop::collection::vec(any::<u8>(), 0..2000)
    ) {
        let mut peers = Peers::new();
        let id = peers.connect(Version::ALL[version]);
        let _ = peers.receive(id, &bytes);
    }

    #[test]
    fn damaged_messages_of_ovs_ofctl_end_in_answers_or_in_an_error(
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20), version in 0..4_usize
    ) {
        let mut peers = Peers::new();
        let version = Version::ALL[version];
        let id = peers.controllers.connect(Settings::service(), &peers.switch, peers.now).unwrap();
        let hello = Codec::new(version).encode(1, &Message::Hello(Hello::of(&[version]))).unwrap();
        peers.receive(id, &hello).unwrap();
        let mut stream: Vec<u8> = super::cut(&mut openflow::Framer::new(), OFCTL)
            .into_iter()
            .filter(|message| message[0] == version.number())
            .flatten()
            .collect();
        for (place, value) in places {
            let place = place.index(stream.len());
            stream[place] = value;
        }
        for part in stream.chunks(4096) {
            if peers.receive(id, part).is_err() {
                break;
            }
            peers.take(id);
        }
    }
}
