//! Memory that is not where it is said to be, or ends too early.
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::{Inflight, LogArea, MemoryRegion, MemoryTable, VringAddress};
use virtio::Features;

use super::scene::{Scene, attacked_through};
use super::{memfd, state};
use crate::switch_process::guest::{
    DATA, DATA_BYTES, HEADER, RECEIVE, RINGS, RINGS_BYTES, TRANSMIT, USER, frame, layouts, plain, region,
    ring_addresses,
};
use crate::switch_process::{description, wait_for};

/// CVE-2018-1059: what is contiguous for the guest need not be for the host. CVE-2020-10725: buffers where no memory is.
#[test]
fn ranges_that_are_not_contiguous_in_the_host() {
    attacked_through(&[RECEIVE, TRANSMIT], Some("outside the shared memory"), |scene, mut guest, _| {
        let border = DATA + DATA_BYTES / 2;
        let sent = frame(3, 1000);
        for before in [1, 11, 12, 13, 40, 76, 500] {
            let at = border - before;
            guest.write(at, &[0; HEADER]);
            guest.write(at + HEADER as u64, &sent);
            scene.friend.post(1);
            guest.add(TRANSMIT, at, 1012);
            assert_eq!(scene.friend.receive(), sent, "{before}");
            guest.wait_for_used(TRANSMIT, 1);

            guest.write(at, &[0xee; 1100]);
            guest.add(RECEIVE, at, 1100);
            scene.friend.send(&sent);
            assert_eq!(guest.wait_for_used(RECEIVE, 1)[0].written, 1012);
            assert_eq!(guest.read(at + HEADER as u64, 1000), sent, "{before}");
            assert_eq!(guest.read(at + 1012, 4), [0xee; 4]);
            scene.friend.wait_for_used(TRANSMIT, 1);
        }
        // Past the end of all memory.
        guest.add(TRANSMIT, DATA + DATA_BYTES - 100, 101);
        wait_for("the ring's end", || {
            let stopped = description(&scene.switch.snapshot(), "victim").contains("malformed");
            stopped.then_some(())
        });
    });
}

/// CVE-2020-10722: a log that is not where it is said to be, or does not cover the memory.
#[test]
fn logs_that_overflow() {
    let mut scene = Scene::new();
    let features = plain().union(Features::VHOST_LOG_ALL);
    for area in [
        LogArea { size_bytes: 8192, offset: 0 },
        LogArea { size_bytes: 4096, offset: 4096 },
        LogArea { size_bytes: 4096, offset: u64::MAX - 4095 },
        LogArea { size_bytes: u64::MAX, offset: 4096 },
    ] {
        scene.attacked(features, Some("SET_LOG_BASE"), |_, mut guest| {
            guest.send_raw(Request::SetLogBase(area), vec![memfd(4096).into()]);
            guest.wait_until_closed();
        });
    }
    // 64 bytes stand for 2 MiB of guest memory; the buffers lie above, and the used ring's log at the end
    // of all addresses.
    scene.attacked(features, None, |scene, mut guest| {
        guest.share_memory();
        guest.ask(Request::SetLogBase(LogArea { size_bytes: 64, offset: 0 }), vec![memfd(4096).into()]);
        guest.start_ring(TRANSMIT);
        guest.prepare_ring(RECEIVE);
        let log = VringAddress { log_used: true, log: u64::MAX - 7, ..ring_addresses(RECEIVE) };
        guest.try_ask(Request::SetVringAddr(log), vec![]);
        let (kick, fds) = guest.kick_of(RECEIVE);
        guest.try_ask(kick, fds);
        guest.try_ask(Request::SetVringEnable(state(RECEIVE, 1)), vec![]);
        guest.post(4);
        for number in 0..4 {
            scene.friend.send(&frame(number, 700));
        }
        scene.friend.wait_for_used(TRANSMIT, 4);
    });
    scene.end();
}

/// Rings at unchecked addresses, and in memory that does not exist.
#[test]
fn unchecked_translation() {
    let mut scene = Scene::new();
    for features in layouts() {
        // A guest address where the front-end's is meant, the first byte behind the region, the last of all.
        for at in [RINGS, USER + RINGS + RINGS_BYTES, u64::MAX - 15] {
            for field in 0..3 {
                scene.attacked(features, Some("told no: SET_VRING_KICK: queue 1"), |_, mut guest| {
                    guest.share_memory();
                    guest.prepare_ring(TRANSMIT);
                    let mut address = ring_addresses(TRANSMIT);
                    *[&mut address.descriptor, &mut address.available, &mut address.used][field] = at;
                    guest.ask(Request::SetVringAddr(address), vec![]);
                    let (kick, fds) = guest.kick_of(TRANSMIT);
                    guest.must_be_refused(kick, fds);
                });
            }
        }
    }
    let beyond = MemoryRegion { mmap_offset: u64::MAX - 8191, ..region(0, 4096) };
    for (region, file) in [
        (region(0, 8192), OwnedFd::from(memfd(4096))),
        (region(0, 8192), UnixStream::pair().unwrap().0.into()),
        (beyond, memfd(4096).into()),
    ] {
        scene.attacked(plain(), Some("told no: SET_MEM_TABLE"), |_, mut guest| {
            guest.must_be_refused(Request::SetMemTable(MemoryTable { regions: vec![region] }), vec![file]);
        });
    }
    scene.attacked(plain(), Some("told no: SET_INFLIGHT_FD"), |_, mut guest| {
        let area = Inflight { size_bytes: 1 << 20, offset: 0, queue_count: 2, queue_size: 64 };
        guest.must_be_refused(Request::SetInflightFd(area), vec![memfd(4096).into()]);
    });
    scene.end();
}
