use super::*;
use crate::codec::header::Header;

#[test]
fn features_are_offered_and_agreed() {
    let mut session = BackendSession::new(offer());
    let Received::Reply(reply) = send(&mut session, Request::GetFeatures, vec![]) else { panic!() };
    assert_eq!(number(&reply), session.agreed().offered.bits());
    let Received::Reply(reply) = send(&mut session, Request::GetProtocolFeatures, vec![]) else { panic!() };
    assert_eq!(number(&reply), P::HANDLED.bits());
    let Received::Reply(reply) = send(&mut session, Request::GetQueueNum, vec![]) else { panic!() };
    assert_eq!(number(&reply), 4);
    pass(&mut session, Request::SetFeatures(Features::VERSION_1), vec![]);
    assert_eq!(session.agreed().features, Features::VERSION_1);
}

#[test]
fn features_that_were_not_offered_are_refused() {
    let mut session = BackendSession::new(offer());
    reject(&mut session, Request::SetFeatures(Features::from_bits_retain(1)), vec![], "features");
    reject(&mut session, Request::SetProtocolFeatures(P::XEN_MMAP), vec![], "protocol features");
}

#[test]
fn in_band_notifications_need_their_channel() {
    let mut session = BackendSession::new(offer());
    let alone = Request::SetProtocolFeatures(P::INBAND_NOTIFICATIONS);
    // Without an acknowledgement the text asks for a closed connection.
    let error = session.receive(alone.to_message(vec![])).unwrap_err();
    assert!(matches!(error, SessionError::Violation(violation) if violation.field == "protocol features"));
    assert_eq!(session.receive(Request::GetFeatures.to_message(vec![])).unwrap_err(), SessionError::Closed);
}

#[test]
fn a_refused_event_changes_nothing() {
    let mut session = BackendSession::new(offer());
    let event = event(&mut session, Request::SetFeatures(Features::VERSION_1), vec![]);
    let sent = session.answer(done(event), Err(Refusal::new("no"))).unwrap();
    assert_eq!(number(&sent.reply.unwrap()), 1);
    assert_eq!(session.agreed().features, Features::empty());
}

#[test]
fn a_refusal_that_cannot_be_told_closes_the_session() {
    let mut session = BackendSession::new(offer());
    let Received::Event(event) =
        session.receive(Request::SetFeatures(Features::VERSION_1).to_message(vec![])).unwrap()
    else {
        panic!()
    };
    let error = session.answer(done(event), Err(Refusal::new("no"))).unwrap_err();
    assert_eq!(error, SessionError::Refused { message: "SET_FEATURES", reason: Refusal::new("no") });
    assert_eq!(session.receive(Request::GetFeatures.to_message(vec![])).unwrap_err(), SessionError::Closed);
}

#[test]
fn protocol_messages_need_their_feature() {
    let mut session = BackendSession::new(offer());
    pass(&mut session, Request::SetOwner, vec![]);
    reject(&mut session, Request::ResetDevice, vec![], "protocol feature bit");
    reject(&mut session, Request::PostcopyListen, vec![], "protocol feature bit");
    reject(&mut session, Request::SetStatus(1), vec![], "protocol feature bit");
}

#[test]
fn without_protocol_features_there_are_none() {
    let bare = Offer::new(Features::VERSION_1, P::empty(), 1).unwrap();
    let mut session = BackendSession::new(bare);
    let error = session.receive(Request::GetProtocolFeatures.to_message(vec![])).unwrap_err();
    assert!(matches!(error, SessionError::Violation(violation) if violation.field == "feature bit"));
}

#[test]
fn running_queues_hold_the_features_but_for_the_log() {
    let mut session = running();
    let features = session.agreed().features;
    pass(&mut session, Request::SetFeatures(features.difference(Features::VHOST_LOG_ALL)), vec![]);
    pass(&mut session, Request::SetFeatures(features), vec![]);
    reject(&mut session, Request::SetFeatures(Features::VERSION_1), vec![], "features");
}

#[test]
fn unknown_and_unoffered_messages_are_refused_by_name() {
    let mut session = BackendSession::new(offer());
    for (id, name) in [(99, "unknown message"), (23, "SET_VRING_ENDIAN"), (33, "GPU_SET_SOCKET")] {
        let header = Header { id, reply: false, need_reply: true, size: 0 };
        let message = Message { header, payload: vec![], fds: vec![] };
        let Received::Rejected(reply, violation) = session.receive(message).unwrap() else { panic!() };
        assert_eq!((number(&reply), violation.message, reply.header.id), (1, name, id));
    }
    let header = Header { id: 99, reply: false, need_reply: false, size: 0 };
    let error = session.receive(Message { header, payload: vec![], fds: vec![] }).unwrap_err();
    assert_eq!(
        error.to_string(),
        "closing the vhost-user session: unknown message: id is 99 (0x63), expected a message of the \
         vhost-user text"
    );
}

#[test]
fn an_event_is_answered_before_the_next_message() {
    let mut session = BackendSession::new(offer());
    let first = event(&mut session, Request::SetFeatures(Features::VERSION_1), vec![]);
    assert_eq!(session.receive(Request::SetOwner.to_message(vec![])).unwrap_err(), SessionError::Unanswered);
    let mut other = BackendSession::new(offer());
    assert_eq!(other.answer(done(first), Ok(())).unwrap_err(), SessionError::WrongTicket);
}

#[test]
fn reset_owner_changes_nothing() {
    let mut session = running();
    pass(&mut session, Request::ResetOwner, vec![]);
    assert!(session.any_ring_started());
}
