//! Requests of several parts, and replies that are split.

use std::time::Duration;

use controllers::Limits;
use openflow::{
    ANY_TABLE, Codec, Failure, FlowRequest, Framer, Message, Reply, Request, TableFeatures, Version,
};

use super::{Peers, code, cut};

fn flows() -> Message {
    Message::MultipartRequest(Box::new(Request::Flow(FlowRequest::of(ANY_TABLE, flow::Match::ANY))), false)
}

fn features(more: bool) -> Message {
    let table = TableFeatures {
        table: 0,
        command: 0,
        features: 0,
        name: [0; 32],
        metadata_match: 0,
        metadata_write: 0,
        capabilities: 0,
        max_flows: 0,
        properties: vec![],
    };
    Message::MultipartRequest(Box::new(Request::TableFeatures(vec![table])), more)
}

#[test]
fn a_long_reply_is_split_between_its_elements() {
    for version in Version::ALL {
        let mut peers = Peers::new();
        peers.switch.flows = (5000, 3);
        let id = peers.connect(version);
        peers.tell(id, 33, &flows());
        let (mut framer, mut messages) = (Framer::new(), Vec::new());
        while let bytes = peers.take(id)
            && !bytes.is_empty()
        {
            messages.extend(cut(&mut framer, &bytes));
            peers.receive(id, &[]).unwrap();
        }
        assert!(messages.len() > 5, "{version:?}: {} parts", messages.len());
        let mut cookies = Vec::new();
        for (number, bytes) in messages.iter().enumerate() {
            let received = Codec::new(version).decode(bytes).unwrap();
            let Message::MultipartReply(reply, more) = received.message else { panic!() };
            let Reply::Flow(flows, _) = *reply else { panic!() };
            assert_eq!((received.transaction, more), (33, number + 1 < messages.len()));
            // No part has room for one more.
            assert!(!more || bytes.len() > 65_000, "{} bytes", bytes.len());
            cookies.extend(flows.iter().map(|flow| flow.flow.cookie));
        }
        assert_eq!(cookies, (0..5000).collect::<Vec<_>>());
    }
}

#[test]
fn an_empty_reply_has_one_part() {
    let mut peers = Peers::new();
    let id = peers.connect(Version::V15);
    assert_eq!(
        peers.ask(id, &flows()),
        [Message::MultipartReply(Box::new(Reply::Flow(vec![], false)), false)]
    );
}

#[test]
fn nothing_is_read_and_no_reply_made_while_a_controller_does_not_read() {
    let limits = Limits::default();
    let mut peers = Peers::new();
    peers.switch.flows = (u32::MAX, 10);
    let id = peers.connect(Version::V15);
    peers.tell(id, 33, &flows());
    assert!(!peers.controllers.reads(id));
    let held = peers.controllers.to_send(id).unwrap().len();
    assert!(held < limits.paused_bytes + 0x1_0000, "{held} bytes");
    // The next requests wait for the reply to be made, and for the one before.
    peers.tell(id, 34, &Message::BarrierRequest);
    assert_eq!(peers.controllers.to_send(id).unwrap().len(), held);
    for _ in 0..100 {
        assert!(!peers.take(id).is_empty());
        peers.receive(id, &[]).unwrap();
    }
}

#[test]
fn requests_behind_a_long_reply_are_answered_behind_it() {
    let mut peers = Peers::new();
    peers.switch.flows = (20_000, 3);
    let id = peers.connect(Version::V15);
    peers.tell(id, 33, &flows());
    peers.tell(id, 34, &Message::BarrierRequest);
    assert_eq!(peers.sent(id).last(), Some(&(34, Message::BarrierReply)));
}

#[test]
fn the_parts_of_a_request_are_joined() {
    let mut peers = Peers::new();
    let id = peers.connect(Version::V15);
    peers.switch.replies = vec![Reply::TableFeatures(vec![])];
    assert_eq!(peers.ask(id, &features(true)), []);
    assert_eq!(peers.ask(id, &features(true)), []);
    assert_eq!(peers.ask(id, &features(false)).len(), 1);
    peers.ask(id, &features(true));
    assert_eq!(peers.refused(id, &flows()), code(Failure::BadMultipart));
}

#[test]
fn parts_of_requests_have_limits() {
    let limits = Limits { requests: 2, request_bytes: 300, ..Limits::default() };
    let mut peers = Peers::with(limits);
    let id = peers.connect_as(Version::V15, controllers::Settings::service());
    let part = |peers: &mut Peers, transaction| {
        peers.tell(id, transaction, &features(true));
        let sent = peers.sent(id);
        sent.into_iter()
            .map(|(_, message)| match message {
                Message::Error(error) => Some(error.code),
                other => panic!("{other:?}"),
            })
            .next()
            .flatten()
    };
    assert_eq!(part(&mut peers, 1), None);
    assert_eq!(part(&mut peers, 2), None);
    assert_eq!(part(&mut peers, 3), code(Failure::MultipartOverflow)); // a third request
    assert_eq!(part(&mut peers, 1), None);
    assert_eq!(part(&mut peers, 1), code(Failure::MultipartOverflow)); // 320 bytes
    let deadline = peers.now + Duration::from_secs(10);
    assert_eq!(peers.controllers.deadline(id), Some(deadline));
    peers.controllers.tick(id, deadline).unwrap();
    let sent = peers.sent(id);
    assert!(
        matches!(&sent[..], [(2, Message::Error(error))] if Some(error.code) == code(Failure::MultipartOverflow))
    );
}
