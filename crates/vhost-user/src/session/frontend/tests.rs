use super::*;
use crate::codec::payload::{DeviceStateTransfer, StateDirection, VringState};
use crate::codec::reply::ReplyBody;
use crate::vring::VringBase;

fn fd() -> OwnedFd {
    std::fs::File::open("/dev/null").unwrap().into()
}

fn ask(session: &mut FrontendSession, request: Request, reply: ReplyBody) -> Answer {
    let id = request.id();
    let _ = session.request(request, vec![]).unwrap();
    session.receive(reply.into_message(id)).unwrap()
}

/// A session that has agreed on all that is handled.
fn agreed() -> FrontendSession {
    let mut session = FrontendSession::new();
    let features = Features::VHOST_PROTOCOL_FEATURES | Features::VERSION_1;
    ask(&mut session, Request::GetFeatures, ReplyBody::Number(features.bits()));
    ask(&mut session, Request::GetProtocolFeatures, ReplyBody::Number(u64::MAX));
    let _ = session.request(Request::SetProtocolFeatures(ProtocolFeatures::HANDLED), vec![]).unwrap();
    session
}

fn field(error: SessionError) -> &'static str {
    match error {
        SessionError::Violation(violation) => violation.field,
        other => panic!("{other}"),
    }
}

#[test]
fn nothing_is_asked_for_that_was_not_offered() {
    let mut session = FrontendSession::new();
    assert_eq!(field(session.request(Request::GetProtocolFeatures, vec![]).unwrap_err()), "feature bit");
    let surplus = Request::SetFeatures(Features::VERSION_1);
    assert_eq!(field(session.request(surplus, vec![]).unwrap_err()), "features");
    let mut session = agreed();
    let xen = Request::SetProtocolFeatures(ProtocolFeatures::XEN_MMAP);
    assert_eq!(field(session.request(xen, vec![]).unwrap_err()), "protocol features");
}

#[test]
fn every_request_is_acknowledged_with_reply_ack() {
    let mut session = agreed();
    let owner = session.request(Request::SetOwner, vec![]).unwrap();
    assert!(owner.header.need_reply && session.is_waiting());
    let answer = session.receive(ReplyBody::acknowledge(false).into_message(3)).unwrap();
    assert!(matches!(answer, Answer::Refused { request: "SET_OWNER", code: 1 }));
    let mut plain = FrontendSession::new();
    assert!(!plain.request(Request::SetOwner, vec![]).unwrap().header.need_reply);
    assert!(!plain.is_waiting());
}

#[test]
fn descriptors_are_counted_before_they_are_sent() {
    let mut session = agreed();
    let _ = session.request(Request::SetOwner, vec![]).unwrap();
    assert_eq!(field(session.request(Request::SetLogFd, vec![]).unwrap_err()), "file descriptors");
    assert!(session.request(Request::SetLogFd, vec![fd()]).is_ok());
}

#[test]
fn replies_are_matched_with_requests() {
    let base = || Request::GetVringBase(VringState { index: 1, num: 0 });
    let state = |index, num| ReplyBody::VringState(VringState { index, num });
    let asked = || {
        let mut session = agreed();
        let _ = session.request(Request::SetOwner, vec![]).unwrap();
        session.receive(ReplyBody::acknowledge(true).into_message(3)).unwrap();
        let _ = session.request(base(), vec![]).unwrap();
        session
    };
    let Answer::VringBase { index: 1, base: VringBase::Split { next_available: 9 } } =
        asked().receive(state(1, 9).into_message(11)).unwrap()
    else {
        panic!()
    };
    assert_eq!(field(asked().receive(state(1, 9).into_message(10)).unwrap_err()), "reply's id");
    assert_eq!(field(asked().receive(state(2, 9).into_message(11)).unwrap_err()), "index");
    assert_eq!(field(asked().receive(state(1, 0x1_0000).into_message(11)).unwrap_err()), "num");
    assert_eq!(field(asked().receive(base().to_message(vec![])).unwrap_err()), "reply flag");
    let mut with_fd = state(1, 9).into_message(11);
    with_fd.fds.push(fd().into());
    assert_eq!(field(asked().receive(with_fd).unwrap_err()), "file descriptors");
    let mut nothing = agreed();
    assert_eq!(field(nothing.receive(state(1, 9).into_message(11)).unwrap_err()), "id");
    assert_eq!(nothing.request(Request::GetFeatures, vec![]).unwrap_err(), SessionError::Closed);
}

#[test]
fn device_state_replies_say_whether_a_descriptor_comes() {
    let ask = |reply: ReplyBody| {
        let mut session = agreed();
        let load = DeviceStateTransfer { direction: StateDirection::Load };
        let _ = session.request(Request::SetDeviceStateFd(load), vec![fd()]).unwrap();
        session.receive(reply.into_message(42))
    };
    assert!(matches!(ask(ReplyBody::Number(0x100)).unwrap(), Answer::StateChannel(None)));
    assert!(matches!(ask(ReplyBody::NumberWithFd(0, fd().into())).unwrap(), Answer::StateChannel(Some(_))));
    assert!(matches!(ask(ReplyBody::Number(0x101)).unwrap(), Answer::Refused { code: 1, .. }));
    assert_eq!(field(ask(ReplyBody::Number(0)).unwrap_err()), "file descriptors");
    assert_eq!(field(ask(ReplyBody::NumberWithFd(0x100, fd().into())).unwrap_err()), "file descriptors");
}

#[test]
fn requests_of_the_back_end_are_checked_and_acknowledged() {
    use crate::codec::backend_request::BackendRequest;
    let mut session = agreed();
    let mut message = BackendRequest::ConfigChange.to_message(vec![]);
    message.header.need_reply = true;
    let ChannelRequest::Request { request, fd: None, acknowledge: Some(acknowledge) } =
        session.receive_on_channel(message).unwrap()
    else {
        panic!()
    };
    assert_eq!(request, BackendRequest::ConfigChange);
    let reply = acknowledge.into_message(true);
    assert!(reply.header.reply && reply.payload == [0; 8]);

    let mut message = BackendRequest::VringCall(VringState { index: 0, num: 1 }).to_message(vec![]);
    message.header.need_reply = true;
    let ChannelRequest::Rejected(_, violation) = session.receive_on_channel(message).unwrap() else {
        panic!()
    };
    assert_eq!(violation.field, "num");
    let surplus = BackendRequest::ConfigChange.to_message(vec![fd()]);
    assert_eq!(field(session.receive_on_channel(surplus).unwrap_err()), "file descriptors");
}
