//! Messages that break the protocol, and descriptors with them: too many, too few, of the wrong kind.
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use vhost_user::codec::Message;
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::header::Header;
use vhost_user::codec::payload::{MemoryTable, SingleRegion, VringAddress, VringFd, VringState};

use super::scene::Scene;
use super::{memfd, state};
use crate::switch_process::SOON;
use crate::switch_process::guest::{
    Guest, RINGS, RINGS_BYTES, TRANSMIT, USER, event_fd, plain, region, ring_addresses, ring_at,
};

/// CVE-2019-14818, CVE-2022-0669: descriptors over and over, until the peer goes.
#[test]
fn descriptors_do_not_pile_up() {
    let mut scene = Scene::new();
    scene.attacked(plain(), None, |scene, mut guest| {
        guest.share_memory();
        guest.start_ring(TRANSMIT);
        let before = scene.switch.open_fds();
        for _ in 0..50 {
            let fd = VringFd { index: TRANSMIT, has_fd: true };
            guest.ask(Request::SetVringCall(fd), vec![event_fd()]);
            guest.ask(Request::SetVringErr(fd), vec![event_fd()]);
            guest.ask(Request::SetVringKick(fd), vec![event_fd()]);
            guest.ask(Request::SetBackendReqFd, vec![UnixStream::pair().unwrap().0.into()]);
            guest.share_memory();
        }
        let after = scene.switch.open_fds();
        assert!(after <= before + 5, "{after} descriptors after {before}");
    });
    scene.end();
}

/// CVE-2019-14818: surplus descriptors, which no message takes; and missing ones.
#[test]
fn surplus_and_missing_descriptors() {
    let mut scene = Scene::new();
    let table = || Request::SetMemTable(MemoryTable { regions: vec![region(0, 4096)] });
    for (request, fds) in [
        (Request::GetFeatures, 8),
        (Request::SetVringNum(state(0, 256)), 1),
        (Request::SetVringKick(VringFd { index: 0, has_fd: false }), 3),
        (table(), 0),
        (table(), 3),
        (Request::SetVringCall(VringFd { index: 0, has_fd: true }), 0),
        (Request::AddMemReg(SingleRegion(region(0, 4096))), 0),
    ] {
        let name = request.rule().name;
        scene.attacked(plain(), Some(&format!("{name}: file descriptors is {fds}")), |_, mut guest| {
            guest.send_raw(request, (0..fds).map(|_| event_fd()).collect());
            guest.wait_until_closed();
        });
    }
    scene.end();
}

/// CVE-2020-10723: rings that do not exist, by an index that is checked after it was cut to fewer bits; and sizes that no
/// ring has.
#[test]
fn ring_sizes_and_indices_out_of_range() {
    let mut scene = Scene::new();
    for num in [0, 32769, u32::MAX] {
        scene.attacked(plain(), Some("told no: SET_VRING_NUM"), |_, mut guest| {
            guest.share_memory();
            guest.must_be_refused(Request::SetVringNum(state(1, num)), vec![]);
        });
    }
    // One pair and the control queue: 0 to 2.
    for index in [3, 4, 128, 0x1_0001, u32::MAX] {
        for (request, name) in [
            (Request::SetVringNum(VringState { index, num: 64 }), "SET_VRING_NUM"),
            (Request::SetVringEnable(VringState { index, num: 1 }), "SET_VRING_ENABLE"),
            (Request::SetVringAddr(VringAddress { index, ..ring_addresses(1) }), "SET_VRING_ADDR"),
        ] {
            scene.attacked(plain(), Some(&format!("told no: {name}")), |_, mut guest| {
                guest.share_memory();
                guest.must_be_refused(request, vec![]);
            });
        }
    }
    // Larger than the memory it lies in, and no power of two.
    for (num, at, said) in [
        (32768, USER + RINGS + RINGS_BYTES - 0x1000, "told no: SET_VRING_KICK: queue 1"),
        (3, USER + ring_at(TRANSMIT).1, "told no: SET_VRING_NUM: num is 3"),
    ] {
        scene.attacked(plain(), Some(said), |_, mut guest| {
            guest.share_memory();
            guest.prepare_ring(TRANSMIT);
            guest.ask(Request::SetVringNum(state(TRANSMIT, num)), vec![]);
            let address = VringAddress { available: at, ..ring_addresses(TRANSMIT) };
            guest.ask(Request::SetVringAddr(address), vec![]);
            let (kick, fds) = guest.kick_of(TRANSMIT);
            guest.must_be_refused(kick, fds);
        });
    }
    scene.end();
}

/// Unknown messages, wrong sizes, and messages out of their order.
#[test]
fn messages_that_break_the_protocol() {
    let mut scene = Scene::new();
    let raw = |id: u32, size: u32, payload: Vec<u8>| Message {
        header: Header { id, reply: false, need_reply: false, size },
        payload,
        fds: vec![],
    };
    for (message, said) in [
        (raw(0, 0, vec![]), "message"),
        (raw(999, 8, vec![0; 8]), "999"),
        (raw(u32::MAX, 0, vec![]), "4294967295"),
        (raw(8, 7, vec![0; 7]), "SET_VRING_NUM: payload size is 7"),
        (raw(9, 41, vec![0; 41]), "SET_VRING_ADDR: payload size is 41"),
        (raw(5, 4097, vec![]), "size is 4097"),
        (raw(5, u32::MAX, vec![]), "size is 4294967295"),
        (raw(5, 40, [vec![200, 0, 0, 0], vec![0; 36]].concat()), "SET_MEM_TABLE"),
        (raw(8, 8, vec![0; 3]), "in the middle"),
    ] {
        let cut_short = said == "in the middle";
        // A message cut short ends with the connection.
        scene.attacked(plain(), (!cut_short).then_some(said), |_, mut guest| {
            guest.connection.send(message, Some(Instant::now() + SOON)).unwrap();
            if !cut_short {
                guest.wait_until_closed();
            }
        });
    }
    // A reply without a request.
    let mut reply = Request::GetFeatures.to_message(vec![]);
    reply.header.reply = true;
    scene.attacked_by(plain(), Some("disconnected"), |scene| {
        let mut guest = Guest::connect_bare(&scene.path());
        guest.connection.send(reply, Some(Instant::now() + SOON)).unwrap();
        guest.wait_until_closed();
    });
    scene.end();
}

/// A write to a pipe or socket can wait for ever, and with it a worker.
#[test]
fn notifications_over_what_is_no_eventfd() {
    let mut scene = Scene::new();
    let others = || -> [OwnedFd; 3] {
        let (reader, writer) = std::io::pipe().unwrap();
        // The pipe is kept open and full: a thread that writes to it waits.
        std::mem::forget(reader);
        [writer.into(), UnixStream::pair().unwrap().0.into(), memfd(4096).into()]
    };
    for fd in others() {
        scene.attacked(plain(), Some("told no: SET_VRING_KICK: kick"), |_, mut guest| {
            guest.share_memory();
            guest.prepare_ring(TRANSMIT);
            let kick = Request::SetVringKick(VringFd { index: TRANSMIT, has_fd: true });
            guest.must_be_refused(kick, vec![fd]);
        });
    }
    for fd in others() {
        scene.attacked(plain(), Some("told no: SET_VRING_CALL: call"), |_, mut guest| {
            guest.share_memory();
            guest.start_ring(TRANSMIT);
            let call = Request::SetVringCall(VringFd { index: TRANSMIT, has_fd: true });
            guest.must_be_refused(call, vec![fd]);
        });
    }
    scene.end();
}
