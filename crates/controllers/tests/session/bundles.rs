//! Bundles: all or nothing, and their limits.

use std::time::Duration;

use controllers::{Change, ConnectionId, Limits};
use openflow::{
    BundleAdd, BundleControl, BundleFlags, BundleStep, Codec, ErrorCode, Failure, Message, Version,
};

use super::{Peers, code, flow_mod};

const BOTH: BundleFlags = BundleFlags { atomic: true, ordered: true };

fn control(id: u32, step: BundleStep, flags: BundleFlags) -> Message {
    Message::BundleControl(BundleControl { id, step, flags, properties: vec![] })
}

fn add(id: u32, cookie: u64) -> Message {
    let message = Box::new(flow_mod(&format!("cookie={cookie},in_port=1 actions=output:2")));
    Message::BundleAdd(BundleAdd { id, flags: BOTH, message })
}

/// What a step of bundle 1 is refused with.
fn step(peers: &mut Peers, id: ConnectionId, step: BundleStep) -> Option<ErrorCode> {
    match &peers.ask(id, &control(1, step, BOTH))[..] {
        [Message::Error(error)] => Some(error.code),
        [Message::BundleControl(reply)] => {
            assert_eq!((reply.id, reply.flags), (1, BundleFlags::default()));
            None
        }
        other => panic!("{other:?}"),
    }
}

fn cookies(peers: &Peers) -> Vec<u64> {
    let cookie = |change: &Change| match change {
        Change::Flow(flow) => flow.flow.cookie,
        other => panic!("{other:?}"),
    };
    peers.switch.changes.iter().map(cookie).collect()
}

#[test]
fn a_bundle_takes_effect_when_it_is_committed() {
    for version in [Version::V13, Version::V14, Version::V15] {
        let mut peers = Peers::new();
        let id = peers.connect(version);
        assert_eq!(step(&mut peers, id, BundleStep::OpenRequest), None);
        for cookie in 1..=100 {
            assert_eq!(peers.refused(id, &add(1, cookie)), None);
        }
        assert_eq!(cookies(&peers), []);
        assert_eq!(step(&mut peers, id, BundleStep::CloseRequest), None);
        assert_eq!(step(&mut peers, id, BundleStep::CommitRequest), None);
        assert_eq!(cookies(&peers), (1..=100).collect::<Vec<_>>());
        assert_eq!(step(&mut peers, id, BundleStep::CommitRequest), Some(Failure::BadBundle.code(version)));
    }
}

#[test]
fn a_bundle_needs_neither_to_be_opened_nor_to_be_closed() {
    let mut peers = Peers::new();
    let id = peers.connect(Version::V15);
    assert_eq!(peers.refused(id, &add(1, 5)), None);
    assert_eq!(step(&mut peers, id, BundleStep::CommitRequest), None);
    assert_eq!(cookies(&peers), [5]);
}

#[test]
fn a_discarded_bundle_is_gone() {
    let mut peers = Peers::new();
    let id = peers.connect(Version::V15);
    peers.ask(id, &add(1, 5));
    assert_eq!(step(&mut peers, id, BundleStep::DiscardRequest), None);
    assert_eq!(step(&mut peers, id, BundleStep::CommitRequest), code(Failure::BadBundle));
    assert_eq!(step(&mut peers, id, BundleStep::DiscardRequest), code(Failure::BadBundle));
    assert_eq!(cookies(&peers), []);
}

#[test]
fn what_a_bundle_cannot_be_asked_is_refused_and_ends_it() {
    let mut peers = Peers::new();
    let id = peers.connect(Version::V15);
    let other_flags = |step| control(1, step, BundleFlags { atomic: true, ordered: false });
    let begin = |peers: &mut Peers| assert_eq!(step(peers, id, BundleStep::OpenRequest), None);
    begin(&mut peers);
    assert_eq!(step(&mut peers, id, BundleStep::OpenRequest), code(Failure::BadBundle));
    begin(&mut peers);
    step(&mut peers, id, BundleStep::CloseRequest);
    assert_eq!(peers.refused(id, &add(1, 1)), code(Failure::BundleClosed));
    begin(&mut peers);
    step(&mut peers, id, BundleStep::CloseRequest);
    assert_eq!(step(&mut peers, id, BundleStep::CloseRequest), code(Failure::BundleClosed));
    for request in [BundleStep::CloseRequest, BundleStep::CommitRequest] {
        begin(&mut peers);
        assert_eq!(peers.refused(id, &other_flags(request)), code(Failure::BundleFlags));
    }
    begin(&mut peers);
    let message = Box::new(flow_mod("actions=drop"));
    let added = Message::BundleAdd(BundleAdd { id: 1, flags: BundleFlags::default(), message });
    assert_eq!(peers.refused(id, &added), code(Failure::BundleFlags));
    assert_eq!(step(&mut peers, id, BundleStep::CommitRequest), code(Failure::BadBundle));
    assert_eq!(step(&mut peers, id, BundleStep::CommitReply), code(Failure::BundleType));
}

#[test]
fn the_message_that_is_refused_is_named() {
    let mut peers = Peers::new();
    let id = peers.connect(Version::V15);
    for (transaction, cookie) in [(100, 1), (101, 2), (102, 3)] {
        peers.tell(id, transaction, &add(1, cookie));
    }
    peers.switch.refuses = Some((1, Failure::TableFull));
    peers.tell(id, 103, &control(1, BundleStep::CommitRequest, BOTH));
    let sent = peers.sent(id);
    let [(101, Message::Error(first)), (103, Message::Error(second))] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(Some(first.code), code(Failure::TableFull));
    assert_eq!(Some(second.code), code(Failure::BundleMessageFailed));
    let refused = Codec::new(Version::V15).encode(101, &add(1, 2)).unwrap();
    assert_eq!(first.data, refused);
    assert_eq!(cookies(&peers), []);
}

#[test]
fn bundles_have_limits() {
    let limits = Limits { bundles: 3, bundle_bytes: 450, ..Limits::default() };
    let mut peers = Peers::with(limits);
    let (one, other) = (peers.connect(Version::V15), peers.connect(Version::V15));
    for number in 1..=3 {
        assert_eq!(peers.ask(one, &control(number, BundleStep::OpenRequest, BOTH)).len(), 1);
    }
    let fourth = control(4, BundleStep::OpenRequest, BOTH);
    assert_eq!(peers.refused(one, &fourth), code(Failure::OutOfBundles));
    assert_eq!(peers.refused(one, &add(4, 1)), code(Failure::OutOfBundles));
    // A message of this test has 104 bytes; the bytes of all connections count.
    let added = |peers: &mut Peers, id| peers.refused(id, &add(1, 1));
    for id in [one, one, other, one] {
        assert_eq!(added(&mut peers, id), None);
    }
    for id in [one, other] {
        assert_eq!(added(&mut peers, id), code(Failure::BundleTooMany));
    }
    peers.controllers.disconnect(one);
    assert_eq!(added(&mut peers, other), None);
}

#[test]
fn a_bundle_that_is_not_used_is_discarded() {
    let mut peers = Peers::new();
    let id = peers.connect_as(Version::V15, controllers::Settings::service());
    peers.tell(id, 55, &control(1, BundleStep::OpenRequest, BOTH));
    peers.now += Duration::from_secs(5);
    peers.ask(id, &add(1, 1));
    peers.sent(id);
    let deadline = peers.now + Duration::from_secs(10);
    assert_eq!(peers.controllers.deadline(id), Some(deadline));
    peers.controllers.tick(id, deadline - Duration::from_millis(1)).unwrap();
    assert_eq!(peers.sent(id), []);
    peers.controllers.tick(id, deadline).unwrap();
    let sent = peers.sent(id);
    assert!(
        matches!(&sent[..], [(55, Message::Error(error))] if Some(error.code) == code(Failure::BundleTimeout))
    );
    assert_eq!(step(&mut peers, id, BundleStep::CommitRequest), code(Failure::BadBundle));
}
