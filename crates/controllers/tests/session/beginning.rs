//! Hellos, versions, and whether the other end still answers.

use std::time::Duration;

use controllers::{Controllers, Limits, SessionError, Settings};
use openflow::{Codec, Config, ErrorMessage, Failure, Framer, Hello, Message, Role, Version};

use super::{Peers, START, code, cut, flow_mod};

const PROBE: Duration = Duration::from_secs(5);

/// The version that is agreed on, or the end. The controller's hello has this version in its header.
fn agree(header: u8, hello: &Hello, own: &[Version]) -> Result<Version, SessionError> {
    let mut peers = Peers::new();
    let settings = Settings { versions: own.to_vec(), ..Settings::controller() };
    let id = peers.controllers.connect(settings, &peers.switch, START).unwrap();
    let mut bytes = Codec::new(Version::V15).encode(1, &Message::Hello(hello.clone())).unwrap();
    bytes[0] = header;
    peers.receive(id, &bytes)?;
    Ok(peers.controllers.version(id).unwrap())
}

#[test]
fn the_newest_common_version_is_agreed_on() {
    let all = Version::ALL;
    assert_eq!(agree(6, &Hello::default(), &all), Ok(Version::V15));
    assert_eq!(agree(9, &Hello::default(), &all), Ok(Version::V15));
    assert_eq!(agree(3, &Hello::default(), &all), Ok(Version::V10));
    assert_eq!(agree(6, &Hello::of(&[Version::V13]), &all), Ok(Version::V13));
    assert_eq!(agree(6, &Hello::default(), &[Version::V10, Version::V13]), Ok(Version::V13));
    assert_eq!(agree(1, &Hello::default(), &[Version::V15]), Err(SessionError::NoCommonVersion));
    assert_eq!(agree(6, &Hello::of(&[Version::V10]), &[Version::V15]), Err(SessionError::NoCommonVersion));
}

#[test]
fn a_switch_knows_of_a_controller_before_its_first_change() {
    for (settings, begun) in [(Settings::controller(), vec![0]), (Settings::service(), vec![])] {
        let mut peers = Peers::new();
        let id = peers.controllers.connect(settings, &peers.switch, START).unwrap();
        let codec = Codec::new(Version::V15);
        let mut bytes = codec.encode(1, &Message::Hello(Hello::of(&[Version::V15]))).unwrap();
        bytes.extend(codec.encode(2, &flow_mod("actions=drop")).unwrap());
        peers.receive(id, &bytes).unwrap();
        assert_eq!((&peers.switch.begun, peers.switch.changes.len()), (&begun, 1));
    }
}

#[test]
fn a_controller_without_a_common_version_is_told_so() {
    let mut peers = Peers::new();
    let settings = Settings { versions: vec![Version::V15], ..Settings::controller() };
    let id = peers.controllers.connect(settings, &peers.switch, START).unwrap();
    peers.take(id);
    assert_eq!(peers.receive(id, &[1, 0, 0, 8, 0, 0, 0, 5]), Err(SessionError::NoCommonVersion));
    let bytes = peers.take(id);
    let received = Codec::new(Version::V15).decode(&bytes).unwrap();
    let Message::Error(ErrorMessage { code: told, data }) = received.message else { panic!("{received:?}") };
    assert_eq!((received.transaction, Some(told)), (5, code(Failure::HelloIncompatible)));
    assert!(!data.is_empty());
}

#[test]
fn what_is_no_openflow_ends_the_connection() {
    let mut peers = Peers::new();
    let mut begin = |bytes: &[u8]| {
        let id = peers.controllers.connect(Settings::controller(), &peers.switch, START).unwrap();
        peers.receive(id, bytes)
    };
    assert_eq!(begin(&[6, 5, 0, 8, 0, 0, 0, 1]), Err(SessionError::NoHello));
    assert_eq!(begin(b"GET / HTTP/1.1\r\n\r\n"), Ok(())); // a message of 8,239 bytes has begun
    assert_eq!(begin(&[6, 0, 0, 7, 0, 0, 0, 1]), Err(SessionError::Framing));
    assert_eq!(begin(&[6, 0, 0, 8, 0, 0, 0, 1, 4, 5, 0, 8, 0, 0, 0, 2]), Err(SessionError::OtherVersion(4)));
    assert_eq!(begin(&[6, 0, 0, 8, 0, 0, 0, 1, 4, 2, 0, 8, 0, 0, 0, 2]), Ok(())); // an echo in any version
}

#[test]
fn connections_are_limited() {
    let mut peers = Peers::with(Limits { connections: 2, ..Limits::default() });
    let first = peers.connect(Version::V15);
    peers.connect(Version::V13);
    let third = |peers: &mut Peers| peers.controllers.connect(Settings::service(), &peers.switch, START);
    assert_eq!(third(&mut peers), Err(SessionError::Full(2)));
    peers.controllers.disconnect(first);
    assert_eq!(peers.controllers.to_send(first), None);
    assert!(third(&mut peers).is_ok());
}

#[test]
fn a_silent_controller_is_asked_for_an_echo_and_then_left() {
    let mut peers = Peers::new();
    let id = peers.connect(Version::V15);
    assert_eq!(peers.controllers.deadline(id), Some(START + PROBE));
    peers.controllers.tick(id, START + PROBE - Duration::from_millis(1)).unwrap();
    assert_eq!(peers.sent(id), []);
    peers.now = START + PROBE;
    peers.controllers.tick(id, peers.now).unwrap();
    assert!(matches!(peers.sent(id)[..], [(_, Message::EchoRequest(_))]));
    assert_eq!(peers.controllers.deadline(id), Some(START + 2 * PROBE));
    // Any bytes are an answer.
    peers.now += Duration::from_secs(1);
    peers.receive(id, &[6]).unwrap();
    let probe = peers.now + PROBE;
    assert_eq!(peers.controllers.deadline(id), Some(probe));
    peers.controllers.tick(id, probe).unwrap();
    assert_eq!(peers.controllers.tick(id, probe + PROBE), Err(SessionError::Silent(2 * PROBE)));
}

#[test]
fn a_connection_of_the_management_socket_is_not_asked() {
    let mut peers = Peers::new();
    let id = peers.connect_as(Version::V10, Settings::service());
    assert_eq!(peers.controllers.deadline(id), None);
    peers.controllers.tick(id, START + Duration::from_secs(10_000)).unwrap();
    assert_eq!(peers.sent(id), []);
}

#[test]
fn plain_questions_are_answered() {
    let mut peers = Peers::new();
    let id = peers.connect(Version::V15);
    let echo = peers.ask(id, &Message::EchoRequest(vec![1, 2, 3]));
    assert_eq!(echo, [Message::EchoReply(vec![1, 2, 3])]);
    assert_eq!(peers.ask(id, &Message::BarrierRequest), [Message::BarrierReply]);
    assert!(matches!(&peers.ask(id, &Message::FeaturesRequest)[..],
        [Message::FeaturesReply(features)] if features.datapath_id == 0x1234));
    let config = Config { flags: 1, miss_bytes: 77 };
    assert_eq!(peers.ask(id, &Message::SetConfig(config)), []);
    assert_eq!(peers.ask(id, &Message::GetConfigRequest), [Message::GetConfigReply(config)]);
    let unknown = Message::SetConfig(Config { flags: 8, miss_bytes: 0 });
    assert_eq!(peers.refused(id, &unknown), code(Failure::ConfigFlags));
    assert_eq!(peers.controllers.role(id), Some(Role::Equal));
    // A controller sends answers, although the switch has sent no request.
    assert_eq!(peers.refused(id, &Message::BarrierReply), code(Failure::BadType));
    let error = Message::Error(ErrorMessage::new(Failure::BadType, Version::V15, &[]));
    assert_eq!(peers.ask(id, &error), []);
}

#[test]
fn a_request_that_cannot_be_read_is_refused_with_its_beginning() {
    let mut peers = Peers::new();
    let id = peers.connect(Version::V15);
    let request = [6, 99, 0, 10, 0, 0, 0, 42, 1, 2];
    peers.receive(id, &request).unwrap();
    let [(42, Message::Error(error))] = &peers.sent(id)[..] else { panic!() };
    assert_eq!((Some(error.code), &error.data[..]), (code(Failure::BadType), &request[..]));
}

#[test]
fn the_hello_names_the_versions() {
    let mut controllers = Controllers::new(Limits::default());
    let switch = super::Fake::default();
    let id = controllers.connect(Settings::service(), &switch, START).unwrap();
    let bytes = std::mem::take(controllers.to_send(id).unwrap());
    let hello = &cut(&mut Framer::new(), &bytes)[0];
    let received = Codec::new(Version::V15).decode(hello).unwrap();
    assert_eq!(received.message, Message::Hello(Hello::of(&Version::ALL)));
}
