//! Hostile front-ends, one test for each class, over a real socket: the session answers or closes, and
//! no descriptor stays open.
mod common;

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::device::Device;
use common::driver::{Driver, event_fd, guest_memory, region};
use common::{End, fd, open_fds, pair, serve, soon};
use vhost_user::Violation;
use vhost_user::bits::ProtocolFeatures as P;
use vhost_user::codec::Message;
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::header::Header;
use vhost_user::codec::payload::*;
use vhost_user::session::SessionError;
use vhost_user::session::backend::{BackendSession, Offer};
use vhost_user::socket::{Connection, SocketError};
use virtio::Features;

/// Descriptors are counted for the whole process: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn session() -> BackendSession {
    let features = Features::VERSION_1 | Features::RING_PACKED | Features::VHOST_LOG_ALL;
    BackendSession::new(Offer::new(features, P::HANDLED, 2).unwrap())
}

/// Lets an attacker send what it likes, then serves all of it; gives how that ended. The number of open
/// descriptors must be what it was.
fn attacked(attack: impl FnOnce(&mut Connection)) -> (End, Vec<String>) {
    let before = open_fds();
    let result = {
        let (mut attacker, mut connection) = pair();
        attack(&mut attacker);
        // What was sent can still be read.
        drop(attacker);
        let (mut session, mut device) = (session(), Device::default());
        let end = serve(&mut connection, &mut session, &mut device, |_| false);
        (end, device.log)
    };
    assert_eq!(open_fds(), before, "descriptors leaked after {:?}", result.0);
    result
}

/// The same by an attacker that has agreed on features and owns the session.
fn attacked_by_owner(attack: impl FnOnce(&mut Connection)) -> (End, Vec<String>) {
    attacked(|attacker| {
        owner(attacker);
        attack(attacker);
    })
}

fn send(connection: &mut Connection, request: Request, fds: Vec<OwnedFd>) {
    connection.send(request.to_message(fds), soon()).unwrap();
}

fn violation(end: End) -> Violation {
    match end {
        End::Session(SessionError::Violation(violation)) => violation,
        other => panic!("{other:?}"),
    }
}

fn owner(connection: &mut Connection) {
    send(connection, Request::SetProtocolFeatures(P::HANDLED), vec![]);
    send(connection, Request::SetOwner, vec![]);
    send(connection, Request::SetFeatures(Features::VERSION_1 | Features::VHOST_PROTOCOL_FEATURES), vec![]);
}

/// CVE-2019-14818, CVE-2022-0669: descriptors sent with messages that take none.
#[test]
fn descriptors_with_messages_that_take_none() {
    let _alone = alone();
    for request in [
        Request::GetFeatures,
        Request::SetVringNum(VringState { index: 0, num: 256 }),
        Request::SetVringKick(VringFd { index: 0, has_fd: false }),
        Request::SetStatus(1),
    ] {
        let (end, _) = attacked_by_owner(|attacker| {
            send(attacker, request, (0..8).map(|_| fd()).collect());
        });
        assert_eq!(violation(end).field, "file descriptors");
    }
}

/// CVE-2019-14818: the same message over and over, each with a descriptor.
#[test]
fn descriptors_of_repeated_messages_do_not_pile_up() {
    let _alone = alone();
    let (end, _) = attacked_by_owner(|attacker| {
        for _ in 0..30 {
            send(attacker, Request::SetVringCall(VringFd { index: 0, has_fd: true }), vec![event_fd()]);
            send(attacker, Request::SetVringErr(VringFd { index: 1, has_fd: true }), vec![event_fd()]);
            send(attacker, Request::SetLogFd, vec![event_fd()]);
            send(attacker, Request::SetBackendReqFd, vec![event_fd()]);
        }
    });
    assert!(matches!(end, End::Socket(SocketError::Closed)), "{end:?}");
}

#[test]
fn descriptors_that_are_missing() {
    let _alone = alone();
    for request in [
        Request::SetMemTable(MemoryTable { regions: vec![region()] }),
        Request::SetVringKick(VringFd { index: 0, has_fd: true }),
        Request::SetLogBase(LogArea { size_bytes: 4096, offset: 0 }),
        Request::AddMemReg(SingleRegion(region())),
    ] {
        let (end, _) = attacked_by_owner(|attacker| {
            send(attacker, request, vec![]);
        });
        assert_eq!(violation(end).field, "file descriptors");
    }
}

/// More descriptors than any message carries, spread over the bytes of one message.
#[test]
fn descriptors_trickled_in_byte_by_byte() {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let _alone = alone();
    let (end, _) = attacked(|attacker| {
        let file = fd();
        let message = Request::GetFeatures.to_message(vec![]).to_bytes();
        for byte in message {
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let fds = [file.as_fd(), file.as_fd()];
            assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
            let bytes = [std::io::IoSlice::new(std::slice::from_ref(&byte))];
            sendmsg(&*attacker, &bytes, &mut control, SendFlags::empty()).unwrap();
        }
    });
    assert!(matches!(end, End::Socket(SocketError::TooManyFds)), "{end:?}");
}

/// All of them arrive, so that none is closed by the kernel, and all are closed.
#[test]
fn more_descriptors_than_a_message_may_have() {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let _alone = alone();
    let (end, _) = attacked(|attacker| {
        let file = fd();
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [file.as_fd(); 64];
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        let bytes = Request::SetLogFd.to_message(vec![]).to_bytes();
        sendmsg(&*attacker, &[std::io::IoSlice::new(&bytes)], &mut control, SendFlags::empty()).unwrap();
    });
    assert!(matches!(end, End::Socket(SocketError::TooManyFds)), "{end:?}");
}

#[test]
fn a_payload_larger_than_any() {
    let _alone = alone();
    for size in [4097, u32::MAX] {
        let (end, _) = attacked(|attacker| {
            let header = Header { id: 5, reply: false, need_reply: true, size };
            attacker.send(Message { header, payload: vec![], fds: vec![fd().into()] }, soon()).unwrap();
        });
        let End::Socket(SocketError::Header(violation)) = end else { panic!("{end:?}") };
        assert_eq!((violation.field, violation.value), ("size", size.into()));
    }
}

#[test]
fn a_message_cut_short() {
    let _alone = alone();
    let whole = Request::SetFeatures(Features::VERSION_1).to_message(vec![]).to_bytes();
    for cut in 1..whole.len() {
        let before = open_fds();
        {
            let (mut attacker, ours) = UnixStream::pair().unwrap();
            attacker.write_all(&whole[..cut]).unwrap();
            drop(attacker);
            let mut connection = Connection::from(ours);
            let error = connection.receive(soon()).unwrap_err();
            assert!(matches!(error, SocketError::Truncated { have } if have == cut), "{error:?}");
        }
        assert_eq!(open_fds(), before);
    }
}

/// Sizes and counts that do not fit each other, in the message and in its payload.
#[test]
fn sizes_and_counts_that_lie() {
    let _alone = alone();
    let table = |count: u32, regions: usize| {
        let mut payload = count.to_ne_bytes().to_vec();
        payload.extend(vec![0; 4 + 32 * regions]);
        (5, payload)
    };
    let config = |size: u32, bytes: usize| {
        let mut payload = vec![0; 12 + bytes];
        payload[4..8].copy_from_slice(&size.to_ne_bytes());
        (24, payload)
    };
    for (id, payload) in [
        table(9, 8),
        table(u32::MAX, 1),
        table(2, 1),
        table(1, 2),
        config(256, 0),
        config(0, 256),
        config(u32::MAX, 4),
        (8, vec![0; 7]),
        (8, vec![0; 9]),
        (9, vec![0; 39]),
    ] {
        let (end, log) = attacked_by_owner(|attacker| {
            let header = Header { id, reply: false, need_reply: false, size: payload.len() as u32 };
            attacker.send(Message { header, payload, fds: vec![] }, soon()).unwrap();
        });
        let closed_or_told =
            matches!(end, End::Session(_)) || log.iter().any(|entry| entry.starts_with("rejected"));
        assert!(closed_or_told, "message {id}: {end:?} {log:?}");
    }
}

/// CVE-2020-10723: an index that fits if it is cut to fewer bits.
#[test]
fn queue_indices_out_of_range() {
    let _alone = alone();
    for request in [
        Request::SetVringNum(VringState { index: 2, num: 256 }),
        Request::SetVringBase(VringState { index: u32::MAX, num: 0 }),
        Request::SetVringEnable(VringState { index: 256, num: 1 }),
        Request::SetVringNum(VringState { index: 0x1_0001, num: 256 }),
        Request::GetVringBase(VringState { index: 2, num: 0 }),
    ] {
        let (end, _) = attacked_by_owner(|attacker| {
            send(attacker, request, vec![]);
        });
        assert_eq!(violation(end).field, "index");
    }
    let (end, _) = attacked_by_owner(|attacker| {
        send(attacker, Request::SetVringKick(VringFd { index: 255, has_fd: true }), vec![event_fd()]);
    });
    assert_eq!(violation(end).field, "index");
}

#[test]
fn a_ring_started_with_half_of_what_it_needs() {
    let _alone = alone();
    let (end, log) = attacked_by_owner(|attacker| {
        send(attacker, Request::SetMemTable(MemoryTable { regions: vec![region()] }), vec![guest_memory()]);
        send(attacker, Request::SetVringNum(VringState { index: 0, num: 256 }), vec![]);
        send(attacker, Request::SetVringKick(VringFd { index: 0, has_fd: true }), vec![event_fd()]);
    });
    assert_eq!(violation(end).field, "queue");
    assert!(!log.iter().any(|entry| entry.starts_with("started")));
}

/// QEMU without `share=on`.
#[test]
fn a_ring_started_without_memory_names_what_shares_it() {
    let _alone = alone();
    let (end, log) = attacked_by_owner(|attacker| {
        send(attacker, Request::SetVringNum(VringState { index: 0, num: 256 }), vec![]);
        send(attacker, Request::SetVringKick(VringFd { index: 0, has_fd: true }), vec![event_fd()]);
    });
    let told = violation(end).to_string();
    assert!(
        told.contains("shared memory") && told.contains("share=on -machine memory-backend=mem"),
        "{told}"
    );
    assert!(!log.iter().any(|entry| entry.starts_with("started")));
}

/// Memory that cannot be what it says.
#[test]
fn memory_that_wraps_around() {
    let _alone = alone();
    let wraps = MemoryRegion { guest_address: u64::MAX - 10, ..region() };
    let (end, _) = attacked_by_owner(|attacker| {
        send(attacker, Request::SetMemTable(MemoryTable { regions: vec![wraps] }), vec![guest_memory()]);
    });
    assert_eq!(violation(end).field, "guest address");
}

/// CVE-2020-10722: the log.
#[test]
fn a_log_that_wraps_around() {
    let _alone = alone();
    let (end, _) = attacked_by_owner(|attacker| {
        let area = LogArea { size_bytes: 4096, offset: u64::MAX - 1 };
        send(attacker, Request::SetLogBase(area), vec![fd()]);
    });
    assert_eq!(violation(end).field, "log offset");
}

#[test]
fn replies_instead_of_requests() {
    let _alone = alone();
    let (end, _) = attacked(|attacker| {
        let header = Header { id: 1, reply: true, need_reply: false, size: 0 };
        attacker.send(Message { header, payload: vec![], fds: vec![] }, soon()).unwrap();
    });
    assert_eq!(violation(end).field, "reply flag");
}

/// Answers pile up at a back-end whose peer does not read; it gives up in time instead of growing.
#[test]
fn a_peer_that_does_not_read() {
    let _alone = alone();
    let before = open_fds();
    {
        let (_silent, mut connection) = pair();
        let mut refused = None;
        for _ in 0..1_000_000 {
            let reply = Request::GetFeatures.to_message(vec![]);
            if let Err(error) = connection.try_send(reply) {
                refused = Some(error);
                break;
            }
        }
        assert!(matches!(refused, Some(SocketError::Backlog(64))), "{refused:?}");
    }
    assert_eq!(open_fds(), before);
}

/// A session that ends in the middle of things gives everything back.
#[test]
fn a_front_end_that_vanishes_while_rings_run() {
    let _alone = alone();
    let before = open_fds();
    {
        let (ours, mut theirs) = pair();
        let backend = std::thread::spawn(move || {
            let (mut session, mut device) = (session(), Device::default());
            let end = serve(&mut theirs, &mut session, &mut device, |_| false);
            (end, device.rings.len())
        });
        let mut driver = Driver::new(ours);
        driver.negotiate(Features::all(), P::HANDLED);
        driver.share_memory();
        driver.start_ring(0, 0x8000_8000);
        drop(driver);
        let (end, rings) = backend.join().unwrap();
        assert!(matches!(end, End::Socket(SocketError::Closed)), "{end:?}");
        assert_eq!(rings, 1);
    }
    assert_eq!(open_fds(), before);
}
