//! vhost-user: messages of any bytes, and sequences of any messages.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::LazyLock;

use vhost_user::bits::ProtocolFeatures;
use vhost_user::codec::backend_request::BackendRequest;
use vhost_user::codec::frontend_request::FrontendRequest;
use vhost_user::codec::header::Header;
use vhost_user::codec::{MAX_FDS, MAX_PAYLOAD_BYTES, Message};
use vhost_user::session::backend::{BackendSession, Offer, Received};
use vhost_user::session::frontend::{ChannelRequest, FrontendSession};
use virtio::Features;

use crate::script::Script;

/// The embedder of `vhost-user`'s own tests.
#[allow(dead_code, reason = "its tests use the rest")]
#[path = "../../vhost-user/tests/common/device.rs"]
mod device;

/// Messages of a conversation, at most.
const MESSAGES: usize = 200;

fn fd() -> OwnedFd {
    static NULL: LazyLock<File> = LazyLock::new(|| File::open("/dev/null").expect("/dev/null"));
    NULL.try_clone().expect("a descriptor").into()
}

fn memfd() -> OwnedFd {
    rustix::fs::memfd_create("fuzz", rustix::fs::MemfdFlags::CLOEXEC).expect("a memory file")
}

fn descriptors<T: From<OwnedFd>>(count: u8) -> Vec<T> {
    (0..usize::from(count).min(MAX_FDS)).map(|_| fd().into()).collect()
}

/// A message as the socket layer makes it: its payload is as long as its header says.
fn message(script: &mut Script<'_>) -> Message {
    let (id, flags, fds) = (script.byte(), script.byte(), script.byte());
    let size = usize::from(script.word()) % (MAX_PAYLOAD_BYTES + 1);
    let mut payload = script.bytes(size).to_vec();
    // Missing bytes are zeros: a short script makes a long message.
    payload.resize(size, 0);
    let header =
        Header { id: id.into(), reply: flags & 1 != 0, need_reply: flags & 2 != 0, size: size as u32 };
    Message { header, payload, fds: descriptors(fds) }
}

fn check_whole(message: &Message) {
    assert_eq!(message.header.size as usize, message.payload.len(), "{message:?}");
    assert!(message.payload.len() <= MAX_PAYLOAD_BYTES && message.fds.len() <= MAX_FDS, "{message:?}");
}

/// Twelve bytes of a header and a payload. A valid message must be unchanged after it is written and read again.
pub fn codec(bytes: &[u8]) {
    let mut script = Script(bytes);
    let fds = script.byte();
    let Ok(header) = Header::parse(script.array()) else { return };
    assert_eq!(Header::parse(header.to_bytes()), Ok(header));
    let mut payload = script.bytes(header.size as usize).to_vec();
    payload.resize(header.size as usize, 0);
    let message = Message { header, payload, fds: descriptors(fds) };
    if let Ok(request) = FrontendRequest::parse(&message) {
        let again = request.to_message(Vec::new());
        check_whole(&again);
        assert_eq!((again.header.id, request.rule().id), (header.id, header.id));
        let again = FrontendRequest::parse(&Message { fds: descriptors(fds), ..again });
        assert_eq!(again.as_ref(), Ok(&request));
    }
    if let Ok(request) = BackendRequest::parse(&message) {
        let again = request.to_message(Vec::new());
        check_whole(&again);
        let again = BackendRequest::parse(&Message { fds: descriptors(fds), ..again });
        assert_eq!(again.as_ref(), Ok(&request));
    }
}

/// Any messages of a front-end, given to our back-end's session.
pub fn back_end(bytes: &[u8]) {
    let mut script = Script(bytes);
    let features = Features::VERSION_1 | Features::RING_PACKED | Features::ACCESS_PLATFORM;
    let queues = 1 + u16::from(script.byte() % 4);
    let offer = Offer::new(features, ProtocolFeatures::HANDLED, queues).expect("an offer of what is handled");
    let mut session = BackendSession::new(offer);
    let mut device = device::Device::default();
    for _ in 0..MESSAGES {
        if script.is_over() {
            return;
        }
        let sent = message(&mut script);
        let id = sent.header.id;
        device.refuse = script.byte() & 0xf == 0xf;
        let reply = match session.receive(sent) {
            Ok(Received::Nothing) => None,
            Ok(Received::Reply(reply) | Received::Rejected(reply, _)) => Some(reply),
            Ok(Received::Event(event)) => match device.act(&mut session, event) {
                Ok(sent) => sent.reply,
                Err(_) => return closed(&mut session),
            },
            Err(_) => return closed(&mut session),
        };
        if let Some(reply) = reply {
            check_whole(&reply);
            assert!(reply.header.reply && reply.header.id == id, "{reply:?} to {id}");
        }
    }
}

/// A session that has ended takes no message more.
fn closed(session: &mut BackendSession) {
    assert!(session.receive(message(&mut Script(&[1]))).is_err());
}

/// Any answers of a back-end, given to our front-end's session.
pub fn front_end(bytes: &[u8]) {
    let mut script = Script(bytes);
    let mut session = FrontendSession::new();
    for _ in 0..MESSAGES {
        if script.is_over() {
            return;
        }
        match script.byte() % 4 {
            0 => {
                // A request of ours, taken out of the script.
                let asked = message(&mut script);
                let count = asked.fds.len() as u8;
                if let Ok(request) = FrontendRequest::parse(&asked)
                    && let Ok(sent) = session.request(request, descriptors(count))
                {
                    check_whole(&sent);
                }
            }
            1 => match session.receive_on_channel(message(&mut script)) {
                Ok(ChannelRequest::Request { acknowledge, .. }) => {
                    if let Some(acknowledge) = acknowledge {
                        check_whole(&acknowledge.into_message(script.byte() & 1 != 0));
                    }
                }
                Ok(ChannelRequest::Rejected(reply, _)) => check_whole(&reply),
                Err(_) => return,
            },
            _ => {
                if session.receive(message(&mut script)).is_err() {
                    return;
                }
            }
        }
    }
}
