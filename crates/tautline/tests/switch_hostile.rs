//! Hostile front-ends at one port of the switch, one test for each class of mistakes that others have made.
//!
//! ```text
//!   attacker ── victim ─ switch ─ friend ── a guest that does nothing wrong
//!                           └──── a ═ b ─── two more, whose frames flow all along
//! ```
//!
//! After each attack the switch lives, has as many descriptors open as before, has said once what was wrong,
//! and serves the next front-end at the same port; and not one frame between `a` and `b` was lost.
mod switch_process;

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Instant;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use switch_process::bystanders::Bystanders;
use switch_process::guest::{
    DATA, DATA_BYTES, Guest, HEADER, RECEIVE, RINGS, RINGS_BYTES, TRANSMIT, USER, event_fd, frame, layouts,
    plain, region, ring_at,
};
use switch_process::{SOON, Sockets, SwitchProcess, connect, description, drops, passed, wait_for};
use vhost_user::codec::Message;
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::header::Header;
use vhost_user::codec::payload::{
    Inflight, LogArea, MemoryRegion, MemoryTable, SingleRegion, VringAddress, VringFd, VringState,
};
use vhost_user::codec::table::FRONTEND_REQUESTS;
use virtio::{Feature, Features};
use virtqueue::Piece;

struct Scene {
    /// Ends before the switch does.
    bystanders: Bystanders,
    sockets: Sockets,
    switch: SwitchProcess,
    friend: Guest,
    /// Descriptors that the switch has open while nobody is at the victim's port.
    open_fds: usize,
    passed: u32,
}

impl Scene {
    fn new() -> Self {
        let sockets = Sockets::new();
        let ports = ["victim", "friend", "a", "b"].map(|name| sockets.port(name, "vhost-user", ""));
        let wires = [connect("victim", "friend"), connect("a", "b")];
        let switch = SwitchProcess::start(&[ports.concat(), wires.concat()].concat());
        let bystanders = Bystanders::start([sockets.path("a"), sockets.path("b")]);
        let friend = Guest::running(&sockets.path("friend"), plain());
        let open_fds = switch.open_fds();
        Scene { sockets, switch, bystanders, friend, open_fds, passed: 0 }
    }

    fn path(&self) -> PathBuf {
        self.sockets.path("victim")
    }

    /// A front-end that has agreed on these features does its worst, and goes. The switch says once what
    /// was wrong, if it is anything that people are told.
    #[track_caller]
    fn attacked(&mut self, features: Features, said: Option<&str>, attack: impl FnOnce(&mut Scene, Guest)) {
        let attacker = Guest::connect(&self.path(), features);
        self.attacked_by(features, said, |scene| attack(scene, attacker));
    }

    #[track_caller]
    fn attacked_by(&mut self, features: Features, said: Option<&str>, attack: impl FnOnce(&mut Scene)) {
        let lines = self.switch.said().len();
        attack(self);
        self.victim_is_alone();
        if let Some(said) = said {
            let found = |line: &&String| line.starts_with("victim: ") && line.contains(said);
            let count = || self.switch.said()[lines..].iter().filter(found).count();
            wait_for(said, || (count() > 0).then_some(()));
            assert_eq!(count(), 1, "{said} in {:#?}", &self.switch.said()[lines..]);
        }
        assert!(self.switch.said().len() <= lines + 30, "{:#?}", self.switch.said());
        self.serves_the_next(features);
        self.bystanders.go_on();
        assert!(self.switch.lives());
    }

    /// Nobody is at the victim's port, and nothing of them is left.
    #[track_caller]
    fn victim_is_alone(&self) {
        wait_for("the end of the front-end", || {
            description(&self.switch.snapshot(), "victim").contains("waits for a front-end").then_some(())
        });
        let before = self.open_fds;
        wait_for(&format!("{before} descriptors"), || (self.switch.open_fds() == before).then_some(()));
    }

    #[track_caller]
    fn serves_the_next(&mut self, features: Features) {
        let mut next = Guest::running(&self.path(), features.without(Feature::VHOST_LOG_ALL));
        self.passed += 1;
        let (there, back) = (frame(self.passed, 900), frame(self.passed + 1_000_000, 1200));
        self.friend.post(1);
        next.send(&there);
        assert_eq!(self.friend.receive(), there);
        next.wait_for_used(TRANSMIT, 1);
        next.post(1);
        self.friend.send(&back);
        assert_eq!(next.receive(), back);
        self.friend.wait_for_used(TRANSMIT, 1);
        drop(next);
        self.victim_is_alone();
    }

    fn drops(&self, reason: &str) -> u64 {
        drops(&self.switch.snapshot(), "victim", reason)
    }

    /// Waits until the victim's port has dropped so many frames for this reason.
    #[track_caller]
    fn wait_for_drops(&self, reason: &str, count: u64) {
        wait_for(reason, || (self.drops(reason) >= count).then_some(()));
        assert_eq!(self.drops(reason), count, "{reason}");
    }

    /// The others' frames were all delivered, and the switch ends as it should.
    fn end(self) {
        self.bystanders.all_is_well();
        self.switch.end();
    }
}

fn memfd(bytes: u64) -> File {
    let file = File::from(rustix::fs::memfd_create("of a test", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
    file.set_len(bytes).unwrap();
    file
}

fn state(index: u8, num: u32) -> VringState {
    VringState { index: index.into(), num }
}

fn piece(address: u64, len: u32) -> Piece {
    Piece { address, len }
}

/// CVE-2018-1059: what is contiguous for the guest need not be for the host.
#[test]
fn ranges_that_are_not_contiguous_in_the_host() {
    let mut scene = Scene::new();
    for features in layouts() {
        scene.attacked(features, Some("outside the shared memory"), |scene, mut guest| {
            guest.share_memory();
            guest.start_ring(RECEIVE);
            guest.start_ring(TRANSMIT);
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
    scene.end();
}

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

/// CVE-2019-14818, CVE-2020-10726: sizes that no ring has, and rings that do not exist.
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
    for index in [3, 4, 128, u32::MAX] {
        for (request, name) in [
            (Request::SetVringNum(VringState { index, num: 64 }), "SET_VRING_NUM"),
            (Request::SetVringEnable(VringState { index, num: 1 }), "SET_VRING_ENABLE"),
            (Request::SetVringAddr(VringAddress { index, ..Guest::addresses(1) }), "SET_VRING_ADDR"),
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
            let address = VringAddress { available: at, ..Guest::addresses(TRANSMIT) };
            guest.ask(Request::SetVringAddr(address), vec![]);
            let (kick, fds) = guest.kick_of(TRANSMIT);
            guest.must_be_refused(kick, fds);
        });
    }
    scene.end();
}

/// CVE-2020-10722: a log that is not where it is said to be, or does not cover the memory.
#[test]
fn logs_that_overflow() {
    let mut scene = Scene::new();
    let features = plain().with(Feature::VHOST_LOG_ALL);
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
        let log = VringAddress { log_used: true, log: u64::MAX - 7, ..Guest::addresses(RECEIVE) };
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

/// CVE-2020-10723 and -10725: rings at addresses that nobody has checked, memory that is not there.
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
                    let mut address = Guest::addresses(TRANSMIT);
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

/// CVE-2022-2132: chains too short for the header, and headers split over many descriptors.
#[test]
fn chains_too_short_and_too_finely_split() {
    let mut scene = Scene::new();
    for (round, features) in (1..).zip(layouts()) {
        scene.attacked(features, None, |scene, mut guest| {
            guest.share_memory();
            guest.start_ring(TRANSMIT);
            let at = DATA + 0x20_0000;
            guest.write(at, &[0; 2048]);
            for len in [1, 10, 11, 12, 13, 25] {
                guest.add(TRANSMIT, at, len);
            }
            guest.add_chain(TRANSMIT, &[piece(at, 0), piece(at, 0)], &[]);
            guest.add_chain(TRANSMIT, &[], &[piece(at, 2048)]);
            assert_eq!(guest.wait_for_used(TRANSMIT, 8).len(), 8);
            scene.wait_for_drops("too short", 8 * round);

            let sent = frame(77, 300);
            guest.write(at + HEADER as u64, &sent);
            let split = HEADER as u64 + 20;
            let mut pieces: Vec<_> = (0..split).map(|i| piece(at + i, 1)).collect();
            pieces.insert(5, piece(at + 5, 0));
            pieces.push(piece(at + split, sent.len() as u32 - 20));
            scene.friend.post(1);
            guest.add_chain(TRANSMIT, &pieces, &[]);
            assert_eq!(scene.friend.receive(), sent);
        });
    }
    scene.end();
}

/// CVE-2024-11614: a checksum outside the frame, and other headers that contradict theirs.
#[test]
fn net_headers_that_contradict_the_frame() {
    let mut scene = Scene::new();
    scene.attacked(plain().with(Feature::NET_CSUM), None, |scene, mut guest| {
        guest.share_memory();
        guest.start_ring(TRANSMIT);
        let headers: [[u8; HEADER]; 5] = [
            [1, 0, 0, 0, 0, 0, 60, 0, 4, 0, 0, 0],
            [1, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0],
            [1, 1, 0, 0, 0, 0, 14, 0, 16, 0, 0, 0],
            [0, 1, 0, 0, 0, 5, 14, 0, 16, 0, 0, 0],
            [1, 9, 0, 0, 0, 5, 14, 0, 16, 0, 0, 0],
        ];
        for header in &headers {
            guest.send_with(header, &frame(1, 64));
        }
        guest.wait_for_used(TRANSMIT, 5);
        scene.wait_for_drops("malformed net header", 5);
        assert_eq!(passed(&scene.switch.snapshot(), "victim", true), 0);
    });
    scene.end();
}

/// A buffer id beyond the queue (packed), an available index that runs ahead (split), both directions.
#[test]
fn malformed_rings() {
    let mut scene = Scene::new();
    for (features, index) in layouts().into_iter().flat_map(|features| [(features, 0), (features, 1)]) {
        let packed = features.has(Feature::RING_PACKED);
        let said =
            if index == RECEIVE { "queue to the guest, pair 0" } else { "queue from the guest, pair 0" };
        scene.attacked(features, Some(said), |scene, mut guest| {
            guest.share_memory();
            guest.start_ring(index);
            let (descriptors, driver, _) = ring_at(index);
            if packed {
                // Available (A set, U clear).
                let flags = if index == RECEIVE { 0x82u16 } else { 0x80 };
                let mut descriptor = [0; 16];
                descriptor[..8].copy_from_slice(&DATA.to_le_bytes());
                descriptor[8..12].copy_from_slice(&100u32.to_le_bytes());
                descriptor[12..14].copy_from_slice(&0x7fffu16.to_le_bytes());
                descriptor[14..].copy_from_slice(&flags.to_le_bytes());
                guest.write(descriptors, &descriptor);
            } else {
                guest.write(driver + 2, &1000u16.to_le_bytes());
            }
            match index {
                RECEIVE => scene.friend.send(&frame(1, 60)),
                _ => guest.kick_anyway(index),
            }
            wait_for("the ring's end", || {
                let described = description(&scene.switch.snapshot(), "victim");
                described.contains("1 malformed and stopped").then_some(())
            });
            if index == RECEIVE {
                scene.friend.wait_for_used(TRANSMIT, 1);
            }
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
    // Memory and rings before anybody owns the device; a reply that nobody asked for.
    let table = Request::SetMemTable(MemoryTable { regions: vec![region(0, 4096)] });
    let mut reply = Request::GetFeatures.to_message(vec![]);
    reply.header.reply = true;
    for (message, said) in [
        (table.to_message(vec![memfd(4096).into()]), "SET_OWNER before memory"),
        (Request::SetVringNum(state(0, 64)).to_message(vec![]), "SET_OWNER before memory"),
        (reply, "disconnected"),
    ] {
        scene.attacked_by(plain(), Some(said), |scene| {
            let mut guest = Guest::connect_bare(&scene.path());
            guest.connection.send(message, Some(Instant::now() + SOON)).unwrap();
            guest.wait_until_closed();
        });
    }
    scene.end();
}

/// A file that its owner shortens while it is mapped reads as zeros; nobody dies of it.
#[test]
fn memory_that_is_truncated_under_the_mapping() {
    let mut scene = Scene::new();
    for features in layouts() {
        scene.attacked(features, None, |scene, mut guest| {
            let file = memfd(DATA_BYTES / 2);
            let at = DATA + 2 * DATA_BYTES;
            guest.share_memory();
            let extra = SingleRegion(region(at, DATA_BYTES / 2));
            guest.ask(Request::AddMemReg(extra), vec![file.try_clone().unwrap().into()]);
            guest.start_ring(RECEIVE);
            guest.start_ring(TRANSMIT);
            file.set_len(4096).unwrap();
            scene.friend.post(1);
            guest.add(TRANSMIT, at + 0x8000, 1012);
            assert_eq!(scene.friend.receive(), vec![0; 1000]);
            guest.add(RECEIVE, at + 0x10000, 1600);
            scene.friend.send(&frame(1, 600));
            assert_eq!(guest.wait_for_used(RECEIVE, 1)[0].written, 612);
            scene.friend.wait_for_used(TRANSMIT, 1);
        });
    }
    scene.end();
}

/// Frames are under way both ways when the connection ends.
#[test]
fn a_peer_that_vanishes_in_the_middle_of_a_burst() {
    let mut scene = Scene::new();
    for features in layouts() {
        for round in 0..20 {
            let mut guest = Guest::running(&scene.path(), features);
            guest.post(32);
            for number in 0..32 {
                guest.send(&frame(number, 900));
                if number % 4 == 0 {
                    scene.friend.send(&frame(number, 900));
                }
                if number == round {
                    // What was sent may or may not be delivered; the connection's end does not wait for it.
                    break;
                }
            }
            let sent = round / 4 + 1;
            drop(guest);
            scene.friend.wait_for_used(TRANSMIT, sent as usize);
        }
        scene.attacked(features, None, |_, guest| drop(guest));
    }
    scene.end();
}

/// A receiver that posts nothing costs its own frames and nobody's time.
#[test]
fn a_receiver_that_never_posts_buffers() {
    let mut scene = Scene::new();
    for (round, features) in (1..).zip(layouts()) {
        scene.attacked(features, None, |scene, mut guest| {
            guest.share_memory();
            guest.start_ring(RECEIVE);
            for number in 0..500 {
                scene.friend.send(&frame(number, 900));
                scene.friend.wait_for_used(TRANSMIT, 1);
            }
            scene.wait_for_drops("receiver full", 500 * round);
            scene.bystanders.go_on();
        });
    }
    scene.end();
}

/// A write to a pipe or socket can wait for ever, and with it a worker.
#[test]
fn notifications_over_what_is_no_eventfd() {
    let mut scene = Scene::new();
    let others = || -> [OwnedFd; 3] {
        let (reader, writer) = std::io::pipe().unwrap();
        // Kept open and full: whoever writes to it waits.
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

/// Bytes that are no messages at all.
#[test]
fn garbage_instead_of_messages() {
    let mut scene = Scene::new();
    for seed in 0..50 {
        scene.attacked_by(plain(), None, |scene| {
            let mut random = StdRng::seed_from_u64(seed);
            let mut socket = UnixStream::connect(scene.path()).unwrap();
            for _ in 0..200 {
                let bytes: Vec<u8> = (0..random.random_range(1..200)).map(|_| random.random()).collect();
                // Closed before all is written, as a rule.
                if socket.write_all(&bytes).is_err() {
                    break;
                }
            }
        });
    }
    scene.end();
}

/// A message that is nearly right: its number exists, its size may fit, its numbers are small or extreme.
fn wild(random: &mut StdRng) -> Message {
    let id = if random.random_ratio(1, 50) { random.random() } else { random.random_range(0..46) };
    let rule = FRONTEND_REQUESTS.get(u32::wrapping_sub(id, 1) as usize);
    let sizes = rule.map_or(0..=64, |rule| *rule.shape.sizes().start()..=*rule.shape.sizes().end());
    let size = random.random_range(sizes).min(300) / 4 * 4;
    let mut payload = Vec::new();
    while payload.len() < size {
        let word: u32 = match random.random_range(0..6) {
            0..3 => random.random_range(0..4),
            3 => 256,
            4 => random.random_range(0..64) << 12,
            _ => random.random(),
        };
        payload.extend_from_slice(&word.to_ne_bytes());
    }
    let usual = rule.map_or(0, |rule| *rule.fds.start());
    let count = if random.random_ratio(1, 5) { random.random_range(0..4) } else { usual };
    let header = Header {
        id,
        reply: random.random_ratio(1, 50),
        need_reply: random.random_ratio(49, 50),
        size: payload.len() as u32,
    };
    let fds = (0..count).map(|_| if random.random() { event_fd() } else { memfd(1 << 20).into() });
    Message { header, payload, fds: fds.collect() }
}

/// A message that a front-end could well send at another time.
fn plausible(random: &mut StdRng) -> Message {
    let index = random.random_range(0..3u8);
    let vring = VringFd { index, has_fd: random.random_bool(0.9) };
    let extra = region(DATA + DATA_BYTES * random.random_range(1..4u64), 1 << 20);
    let mut address = Guest::addresses(index % 2);
    if random.random_ratio(1, 4) {
        address.used = USER + RINGS + random.random_range(0..0x100u64) * 0x1000;
    }
    let request = match random.random_range(0..12) {
        0 => Request::SetVringNum(state(index, 1 << random.random_range(0..9u32))),
        1 => Request::SetVringAddr(address),
        2 => Request::SetVringBase(state(index, random.random_range(0..64))),
        3 | 4 => Request::SetVringKick(vring),
        5 => Request::SetVringCall(vring),
        6 => Request::SetVringErr(vring),
        7 => Request::GetVringBase(state(index, 0)),
        8 | 9 => Request::SetVringEnable(state(index, random.random_range(0..2))),
        10 => Request::AddMemReg(SingleRegion(extra)),
        _ => Request::RemMemReg(SingleRegion(extra)),
    };
    let fds = match &request {
        Request::SetVringKick(vring) | Request::SetVringCall(vring) | Request::SetVringErr(vring) => {
            (0..usize::from(vring.has_fd)).map(|_| event_fd()).collect()
        }
        Request::AddMemReg(_) => vec![memfd(1 << 20).into()],
        _ => vec![],
    };
    let mut message = request.to_message(fds);
    message.header.need_reply = true;
    message
}

/// Conversations that begin well, with rings that run, and go on at random; so do the rings.
#[test]
fn random_conversations() {
    let mut scene = Scene::new();
    let (mut messages, mut closed) = (0, 0);
    for seed in 0..150 {
        let mut random = StdRng::seed_from_u64(seed);
        let features = layouts()[usize::from(random.random::<bool>())];
        let mut guest = Guest::running(&scene.path(), features);
        for number in 0..200 {
            let wildly = random.random_ratio(1, 10);
            let message = if wildly { wild(&mut random) } else { plausible(&mut random) };
            if guest.connection.send(message, Some(Instant::now() + SOON)).is_err() {
                closed += 1;
                break;
            }
            messages += 1;
            // Answers are read and not believed; frames go on meanwhile.
            while let Ok(Some(_)) = guest.connection.try_receive() {}
            guest.write(RINGS + random.random_range(0..0x2_0000), &random.random::<[u8; 8]>());
            guest.kick_anyway(TRANSMIT);
            if number % 8 == 0 {
                scene.friend.send(&frame(number, 300));
                scene.friend.wait_for_used(TRANSMIT, 1);
            }
        }
        drop(guest);
        if seed % 10 == 9 {
            scene.victim_is_alone();
            scene.serves_the_next(features);
            scene.bystanders.go_on();
        }
    }
    let said = scene.switch.said().len();
    println!("{messages} messages, {closed} conversations closed by the switch, which said {said} lines");
    assert!(messages > 3000, "only {messages} messages: the conversations end too early");
    assert!(said < 20 * 150, "{said} lines for 150 conversations");
    scene.end();
}
