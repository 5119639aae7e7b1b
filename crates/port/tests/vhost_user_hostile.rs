//! Hostile front-ends and guests, one test for each class: the port drops, refuses or disconnects, other
//! guests' traffic goes on, and no descriptor or mapping stays.
mod common;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::frame;
use common::guest::{
    DATA, DATA_BYTES, Guest, HEADER, Host, RINGS, RINGS_BYTES, USER, event_fd, is_readable, region,
    ring_addresses, ring_at,
};
use frame::{DropReason, Side};
use memory::{TruncationGuard, lost_mappings, sealed_memfd};
use peers::pages::Grown;
use peers::requirements::root_required;
use port::Port;
use rustix::fs::MemfdFlags;
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::{
    Inflight, LogArea, MemoryRegion, MemoryTable, VringAddress, VringFd, VringState,
};
use vhost_user::session::frontend::Answer;
use virtio::Features;
use virtqueue::{Buffer, Direction, Piece};

/// Descriptors and mappings are counted for the whole process: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn plain() -> Features {
    Features::empty().union(Features::VERSION_1)
}

fn layouts() -> [Features; 2] {
    [plain(), plain().union(Features::RING_PACKED)]
}

fn open_fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn guest_mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().matches("guest of a test").count()
}

/// Threads of former ports have closed and unmapped all, and are gone: none of it goes while this test counts.
fn wait_for_former_ports() {
    let closes = |task: std::io::Result<std::fs::DirEntry>| {
        task.is_ok_and(|task| {
            std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name == "closer\n")
        })
    };
    let deadline = common::deadline();
    while std::fs::read_dir("/proc/self/task").unwrap().any(closes) {
        assert!(std::time::Instant::now() < deadline, "threads of former ports are left");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Two well-behaved guests whose traffic must go on.
struct Others {
    left: Host,
    right: Host,
    alice: Guest,
    bob: Guest,
    passed: u32,
}

impl Others {
    fn new() -> Self {
        let (mut left, mut right) = (Host::new(|_| {}), Host::new(|_| {}));
        let alice = Guest::running(&mut left, plain());
        let bob = Guest::running(&mut right, plain().union(Features::RING_PACKED));
        Others { left, right, alice, bob, passed: 0 }
    }

    fn pass(&mut self) {
        self.passed += 1;
        self.bob.post(0, 1, 1600);
        self.alice.send(1, &frame(self.passed, 900));
        assert_eq!(self.left.forward(0, &mut self.right, 0), 1);
        assert_eq!(self.bob.received(0)[0].1, frame(self.passed, 900));
        assert_eq!(self.alice.used(1).len(), 1);
    }
}

/// Lets an attacker do its worst at a port of its own, then go; nothing of it may stay.
fn attacked(features: Features, attack: impl FnOnce(&mut Host, Guest, &mut Others)) {
    wait_for_former_ports();
    let mut others = Others::new();
    others.pass();
    let mut host = Host::new(|_| {});
    let before = (open_fds(), guest_mappings());
    let attacker = Guest::connect(&mut host, features);
    attack(&mut host, attacker, &mut others);
    host.until("attacker gone", |host| host.context.logged.last().unwrap().contains("disconnected"));
    assert!(host.context.sources.is_empty() && host.context.sinks.is_empty());
    // The connection is closed on a thread of its own.
    host.until("descriptors and mappings as before", |_| (open_fds(), guest_mappings()) == before);
    others.pass();
    // And the next one is served.
    let next = Guest::running(&mut host, features);
    assert_eq!((host.context.sources.len(), host.context.sinks.len()), (1, 1));
    drop(next);
}

/// Attacks through these rings, in each layout.
fn attacked_through(rings: &[u8], attack: impl Fn(&mut Host, Guest, &mut Others)) {
    let _alone = alone();
    for features in layouts() {
        attacked(features, |host, mut guest, others| {
            guest.share_memory(host);
            for ring in rings {
                guest.start_ring(host, *ring);
            }
            attack(host, guest, others);
        });
    }
}

/// Announces a ring with these changes and expects the start to be refused.
fn refused_start(change: impl Fn(&mut Guest, &mut Host, u8)) {
    for features in layouts() {
        for index in [0, 1] {
            attacked(features, |host, mut guest, others| {
                guest.share_memory(host);
                guest.prepare_ring(host, index);
                change(&mut guest, host, index);
                let answer = guest.kick_off(host, index);
                assert!(matches!(answer, Some(Answer::Refused { .. })), "{answer:?}");
                assert!(host.context.sources.is_empty() && host.context.sinks.is_empty());
                others.pass();
            });
        }
    }
}

#[test]
fn rings_outside_the_memory() {
    let _alone = alone();
    // A guest address where the front-end's is meant, the first byte behind the region, the last of all.
    for at in [RINGS, USER + RINGS + RINGS_BYTES, u64::MAX - 15] {
        for field in 0..3 {
            refused_start(|guest, host, index| {
                let mut address = ring_addresses(index);
                let part = [&mut address.descriptor, &mut address.available, &mut address.used]
                    .into_iter()
                    .nth(field);
                *part.unwrap() = at;
                guest.ask(host, Request::SetVringAddr(address), vec![]);
            });
        }
    }
}

#[test]
fn rings_that_reach_out_of_their_region() {
    let _alone = alone();
    refused_start(|guest, host, index| {
        let descriptor = USER + RINGS + RINGS_BYTES - 512;
        let address = VringAddress { descriptor, ..ring_addresses(index) };
        guest.ask(host, Request::SetVringAddr(address), vec![]);
    });
}

/// Sizes that no queue has.
#[test]
fn ring_sizes_of_nothing_and_of_too_much() {
    let _alone = alone();
    for num in [0, 32769, 65536, u32::MAX] {
        attacked(plain(), |host, mut guest, others| {
            guest.share_memory(host);
            guest.prepare_ring(host, 1);
            let answer = guest.try_ask(host, Request::SetVringNum(VringState { index: 1, num }), vec![]);
            assert!(matches!(answer, Some(Answer::Refused { .. })), "{answer:?}");
            others.pass();
        });
    }
    // Not a power of two, and larger than the memory of the ring.
    for num in [3, 32768] {
        attacked(plain(), |host, mut guest, _| {
            guest.share_memory(host);
            guest.prepare_ring(host, 1);
            guest.ask(host, Request::SetVringNum(VringState { index: 1, num }), vec![]);
            if num == 32768 {
                let at = USER + RINGS + RINGS_BYTES - 0x1000;
                let address = VringAddress { available: at, ..ring_addresses(1) };
                guest.ask(host, Request::SetVringAddr(address), vec![]);
            }
            let answer = guest.kick_off(host, 1);
            assert!(matches!(answer, Some(Answer::Refused { .. })), "{answer:?}");
        });
    }
}

#[test]
fn files_that_are_too_short_or_no_memory() {
    let _alone = alone();
    let short = || -> OwnedFd { sealed_memfd(c"short", 4096).unwrap().into() };
    let (pipe, _end) = pipe_ends();
    let files: [(&str, OwnedFd); 3] = [
        ("short", short()),
        ("socket", std::os::unix::net::UnixStream::pair().unwrap().0.into()),
        ("pipe", pipe),
    ];
    for (what, file) in files {
        attacked(plain(), |host, mut guest, others| {
            let regions = vec![region(0, 8192)];
            let table = Request::SetMemTable(MemoryTable { regions });
            let answer = guest.try_ask(host, table, vec![file.try_clone().unwrap()]);
            assert!(matches!(answer, Some(Answer::Refused { .. })), "{what}: {answer:?}");
            others.pass();
        });
    }
    attacked(plain(), |host, mut guest, _| {
        let beyond = MemoryRegion { mmap_offset: u64::MAX - 8192, ..region(0, 4096) };
        let table = Request::SetMemTable(MemoryTable { regions: vec![beyond] });
        let answer = guest.try_ask(host, table, vec![short()]);
        assert!(matches!(answer, Some(Answer::Refused { .. })), "{answer:?}");
        // A log or an in-flight buffer that ends before it should.
        let log = Request::SetLogBase(LogArea { size_bytes: 4096, offset: 4096 });
        let message = guest.session.request(log, vec![short()]).unwrap();
        guest.connection.try_send(message).unwrap();
        // No reply can carry that error.
        assert!(guest.is_closed(host));
    });
    attacked(plain(), |host, mut guest, _| {
        let area = Inflight { size_bytes: 1 << 20, offset: 0, queue_count: 2, queue_size: 64 };
        let answer = guest.try_ask(host, Request::SetInflightFd(area), vec![short()]);
        assert!(matches!(answer, Some(Answer::Refused { .. })), "{answer:?}");
    });
}

fn pipe_ends() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = std::io::pipe().unwrap();
    (reader.into(), writer.into())
}

/// A write to a pipe or socket can wait for ever, and with it a worker.
#[test]
fn notifications_over_what_is_no_eventfd() {
    let _alone = alone();
    attacked(plain(), |host, mut guest, others| {
        guest.share_memory(host);
        guest.prepare_ring(host, 1);
        let (_reader, writer) = pipe_ends();
        let kick = Request::SetVringKick(VringFd { index: 1, has_fd: true });
        let answer = guest.try_ask(host, kick, vec![writer.try_clone().unwrap()]);
        assert!(matches!(answer, Some(Answer::Refused { .. })), "{answer:?}");
        guest.kick_off(host, 1);
        let call = Request::SetVringCall(VringFd { index: 1, has_fd: true });
        let answer = guest.try_ask(host, call, vec![writer]);
        assert!(matches!(answer, Some(Answer::Refused { .. })), "{answer:?}");
        others.pass();
    });
    // Counters that are full, in descriptors that wait.
    attacked(plain(), |host, mut guest, others| {
        let full = || {
            let fd = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
            rustix::io::write(&fd, &(u64::MAX - 1).to_ne_bytes()).unwrap();
            fd
        };
        guest.share_memory(host);
        guest.prepare_ring(host, 1);
        guest.queues.get_mut(&1).unwrap().call = full();
        guest.announce_ring(host, 1, 0);
        guest.kick_off(host, 1);
        guest.enable(host, 1, true);
        guest.send(1, &frame(1, 60));
        assert_eq!(host.forward(0, &mut others.right, 0), 1);
        assert_eq!(guest.used(1).len(), 1);
    });
}

/// CVE-2022-2132: chains too short for the header, and headers split over many descriptors.
#[test]
fn chains_too_short_and_too_finely_split() {
    attacked_through(&[1], |host, mut guest, others| {
        let at = Guest::buffer_at(1, 0);
        guest.write(at, &[0; 2048]);
        for len in [1, 10, 11, 12, 13, 25] {
            let cookie = guest.queues[&1].next;
            guest.add(1, &[Buffer { address: at, len, cookie }], Direction::ToDevice);
        }
        let piece = |address, len| Piece { address, len };
        guest.add_chain(1, &[piece(at, 0), piece(at, 0)], &[]);
        guest.add_chain(1, &[], &[piece(at, 2048)]);
        assert_eq!(host.forward(0, &mut others.right, 0), 0);
        assert_eq!(host.drops(0, Side::FromGuest, DropReason::TooShort), 8);
        let used = guest.used(1);
        assert!(used.len() == 8 && used.iter().all(|used| used.written == 0), "{used:?}");

        // Header and start of the frame byte by byte, empty descriptors among them, and a writable end.
        let sent = frame(77, 300);
        guest.write(at + HEADER as u64, &sent);
        let split = HEADER as u64 + 20;
        let mut pieces: Vec<_> = (0..split).map(|i| piece(at + i, 1)).collect();
        pieces.insert(5, piece(at + 5, 0));
        pieces.push(piece(at + split, sent.len() as u32 - 20));
        guest.add_chain(1, &pieces, &[piece(at + 0x800, 64)]);
        others.bob.post(0, 1, 1600);
        assert_eq!(host.forward(0, &mut others.right, 0), 1);
        assert_eq!(others.bob.received(0)[0].1, sent);
        assert_eq!(guest.used(1)[0].written, 0);
    });
}

/// The same on the other side: receive buffers that no frame can use, or only in pieces.
#[test]
fn receive_buffers_too_short_too_finely_split_and_readable() {
    let _alone = alone();
    for features in layouts() {
        for mergeable in [false, true] {
            let features = if mergeable { features.union(Features::NET_MRG_RXBUF) } else { features };
            attacked(features, |host, mut guest, others| {
                guest.share_memory(host);
                guest.start_ring(host, 0);
                let at = Guest::buffer_at(0, 0);
                let piece = |address, len| Piece { address, len };
                guest.add_chain(0, &[], &[piece(at, 11)]);
                guest.add_chain(0, &[piece(at, 4)], &[piece(at, 1600)]);
                guest.add_chain(0, &[piece(at, 1600)], &[]);
                guest.add_chain(0, &[], &[piece(at, 0)]);
                let fine: Vec<_> = (0..40).map(|i| piece(at + i, 1)).chain([piece(at + 40, 500)]).collect();
                guest.add_chain(0, &[], &fine);
                let sent = frame(5, 500);
                others.alice.send(1, &sent);
                assert_eq!(others.left.forward(0, host, 0), 1);
                let used = guest.used(0);
                assert_eq!(used.iter().map(|used| used.written).collect::<Vec<_>>(), [0, 0, 0, 0, 512]);
                assert_eq!(guest.read(at + HEADER as u64, 500), sent);
                if mergeable {
                    // A frame cannot go on behind a buffer that it cannot use.
                    for len in [100, 5, 300, 300] {
                        guest.add_chain(0, &[], &[piece(at, len)]);
                    }
                    others.alice.send(1, &sent);
                    assert_eq!(others.left.forward(0, host, 0), 1);
                    let written: Vec<_> = guest.used(0).iter().map(|used| used.written).collect();
                    assert_eq!(written, [0, 0, 300, 212]);
                }
                others.alice.used(1);
            });
        }
    }
}

/// Unusable buffers come back as fast as they are given back: one burst deals with so many and no more.
#[test]
fn a_flood_of_unusable_receive_buffers_ends() {
    let _alone = alone();
    for features in layouts() {
        attacked(features, |host, mut guest, others| {
            guest.size = 1024;
            guest.share_memory(host);
            guest.start_ring(host, 0);
            for _ in 0..1024 {
                let cookie = guest.queues[&0].next;
                guest.add(0, &[Buffer { address: DATA, len: 1, cookie }], Direction::FromDevice);
            }
            others.alice.send(1, &frame(1, 60));
            assert_eq!(others.left.forward(0, host, 0), 1);
            assert_eq!(host.drops(0, Side::ToGuest, DropReason::NoBufferLargeEnough), 1);
            let used = guest.used(0).len();
            assert!((512..1024).contains(&used), "{used}");
            others.alice.used(1);
        });
    }
}

/// CVE-2024-11614: a checksum outside the frame; and other headers that contradict theirs.
#[test]
fn net_headers_that_contradict_the_frame() {
    let _alone = alone();
    attacked(plain().union(Features::NET_CSUM), |host, mut guest, others| {
        guest.share_memory(host);
        guest.start_ring(host, 1);
        let headers: [[u8; HEADER]; 5] = [
            [1, 0, 0, 0, 0, 0, 60, 0, 4, 0, 0, 0],
            [1, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0],
            [1, 1, 0, 0, 0, 0, 14, 0, 16, 0, 0, 0],
            [0, 1, 0, 0, 0, 5, 14, 0, 16, 0, 0, 0],
            [1, 9, 0, 0, 0, 5, 14, 0, 16, 0, 0, 0],
        ];
        for header in &headers {
            guest.send_with(1, header, &frame(1, 64));
        }
        assert_eq!(host.forward(0, &mut others.right, 0), 0);
        assert_eq!(host.drops(0, Side::FromGuest, DropReason::MalformedHeader), 5);
        assert_eq!(guest.used(1).len(), 5);
    });
}

/// CVE-2018-1059: what is contiguous for the guest need not be for the host.
#[test]
fn buffers_across_two_files() {
    attacked_through(&[0, 1], |host, mut guest, others| {
        let border = DATA + DATA_BYTES / 2;
        let sent = frame(3, 1000);
        // The border within header, head and rest, on the sending and on the receiving side.
        for before in [1, 5, 11, 12, 13, 40, 75, 76, 77, 500] {
            let at = border - before;
            guest.write(at, &[0; HEADER]);
            guest.write(at + HEADER as u64, &sent);
            let cookie = guest.queues[&1].next;
            guest.add(1, &[Buffer { address: at, len: 1012, cookie }], Direction::ToDevice);
            others.bob.post(0, 1, 1600);
            assert_eq!(host.forward(0, &mut others.right, 0), 1);
            assert_eq!(others.bob.received(0)[0].1, sent, "{before}");
            guest.used(1);

            guest.write(at, &[0xee; 1100]);
            let cookie = guest.queues[&0].next;
            guest.add(0, &[Buffer { address: at, len: 1100, cookie }], Direction::FromDevice);
            others.alice.send(1, &sent);
            assert_eq!(others.left.forward(0, host, 0), 1);
            assert_eq!(guest.used(0)[0].written, 1012);
            assert_eq!(guest.read(at + HEADER as u64, 1000), sent, "{before}");
            assert_eq!(guest.read(at + 1012, 4), [0xee; 4]);
            others.alice.used(1);
        }
        // Past the end of all memory: the ring is malformed, and it alone.
        let cookie = guest.queues[&1].next;
        let at = DATA + DATA_BYTES - 100;
        guest.add(1, &[Buffer { address: at, len: 101, cookie }], Direction::ToDevice);
        host.forward(0, &mut others.right, 0);
        assert!(host.context.sources.is_empty() && host.context.sinks.len() == 1);
        assert!(host.context.logged.last().unwrap().contains("outside the shared memory"));
    });
}

/// A malformed ring stops by itself; its driver is told in every way there is.
#[test]
fn malformed_rings() {
    let _alone = alone();
    for (features, index) in layouts().into_iter().flat_map(|features| [(features, 0), (features, 1)]) {
        attacked(features, |host, mut guest, others| {
            guest.share_memory(host);
            let err = event_fd();
            let fd = VringFd { index, has_fd: true };
            guest.ask(host, Request::SetVringErr(fd), vec![err.try_clone().unwrap()]);
            guest.start_ring(host, index);
            let (descriptors, driver, _) = ring_at(index);
            if features.contains(Features::RING_PACKED) {
                // A buffer id far beyond the queue, available (A set, U clear), as device and driver agree.
                let write = if index == 0 { 2 } else { 0 };
                let mut descriptor = [0; 16];
                descriptor[..8].copy_from_slice(&DATA.to_le_bytes());
                descriptor[8..12].copy_from_slice(&100u32.to_le_bytes());
                descriptor[12..14].copy_from_slice(&0x7fffu16.to_le_bytes());
                descriptor[14..].copy_from_slice(&(0x80u16 | write).to_le_bytes());
                guest.write(descriptors, &descriptor);
            } else {
                // More available than the queue holds.
                guest.write(driver + 2, &1000u16.to_le_bytes());
            }
            match index {
                0 => {
                    others.alice.send(1, &frame(1, 60));
                    others.left.forward(0, host, 0);
                    others.alice.used(1);
                    assert_eq!(host.drops(0, Side::ToGuest, DropReason::MalformedRing), 1);
                }
                _ => assert_eq!(host.forward(0, &mut others.right, 0), 0),
            }
            assert!(host.context.sources.is_empty() && host.context.sinks.is_empty());
            let logged = host.context.logged.last().unwrap();
            assert!(logged.contains("VIRTIO 1.3 §") && logged.contains("reset"), "{logged}");
            assert!(is_readable(&err), "the driver was not told");
            let status = guest.ask(host, Request::GetStatus, vec![]);
            assert!(matches!(status, Some(Answer::Number { value: 0x40, .. })), "{status:?}");
            assert!(host.port.describe().contains("1 malformed"), "{}", host.port.describe());
            others.pass();
            // Stopped, set right, and started again.
            guest.stop_ring(host, index);
            guest.write(descriptors, &[0; 0x1000]);
            guest.start_ring(host, index);
            assert_eq!(host.context.sources.len() + host.context.sinks.len(), 1);
        });
    }
}

/// A file that its owner shortens while it is mapped reads as zeros; nobody dies of it.
#[test]
fn memory_that_is_truncated_under_the_mapping() {
    truncated(MemfdFlags::CLOEXEC, 0x8000);
}

/// Huge pages go as a whole.
#[test]
fn huge_pages_that_are_truncated_under_the_mapping() {
    match Grown::by(6) {
        Ok(_grown) => truncated(MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB, 2 << 20),
        Err(error) => assert!(!root_required(), "{error}"),
    }
}

/// A file of three parts, each of whole pages, of which the last two go.
fn truncated(flags: MemfdFlags, part: u64) {
    let _alone = alone();
    let _guard = TruncationGuard::install().unwrap();
    for features in layouts() {
        attacked(features, |host, mut guest, others| {
            let file = File::from(rustix::fs::memfd_create("truncated", flags).unwrap());
            file.set_len(3 * part).unwrap();
            let at = DATA + 2 * DATA_BYTES;
            guest.share_memory(host);
            guest.add_region(host, region(at, 3 * part), &file);
            guest.start_ring(host, 0);
            guest.start_ring(host, 1);
            let cookie = guest.queues[&1].next;
            guest.add(1, &[Buffer { address: at + part, len: 1012, cookie }], Direction::ToDevice);
            let cookie = guest.queues[&0].next;
            guest.add(0, &[Buffer { address: at + 2 * part, len: 1600, cookie }], Direction::FromDevice);
            let before = lost_mappings();
            file.set_len(part).unwrap();
            others.bob.post(0, 1, 1600);
            assert_eq!(host.forward(0, &mut others.right, 0), 1);
            assert_eq!(others.bob.received(0)[0].1, vec![0; 1000]);
            others.alice.send(1, &frame(1, 600));
            assert_eq!(others.left.forward(0, host, 0), 1);
            others.alice.used(1);
            assert_eq!(lost_mappings(), before + 1, "the whole mapping goes, and once");
            host.turn();
            let logged = host.context.logged.last().unwrap();
            assert!(
                logged.contains("shortened its shared memory file") && logged.contains("disconnected"),
                "{logged}"
            );
            others.pass();
        });
    }
}

/// A peer that goes while its frames are lent: they are delivered from memory that stays until then.
#[test]
fn a_peer_that_vanishes_in_the_middle_of_a_burst() {
    attacked_through(&[0, 1], |host, mut guest, others| {
        for number in 0..4 {
            guest.send(1, &frame(number, 900));
        }
        guest.post(0, 4, 1600);
        let source = host.context.sources.get_mut(&0).unwrap();
        let batch = source.rx_burst(32).unwrap();
        assert_eq!(batch.len(), 4);
        drop(guest);
        others.bob.post(0, 4, 1600);
        let sink = others.right.context.sinks.get_mut(&0).unwrap();
        sink.accept(batch, &[0, 1, 2, 3]).unwrap();
        assert_eq!(others.bob.received(0).len(), 4);
        // Frames to the one who is gone are still written to its memory, which nobody reads.
        others.alice.send(1, &frame(9, 60));
        assert_eq!(others.left.forward(0, host, 0), 1);
        others.alice.used(1);
    });
}

#[test]
fn messages_that_break_the_protocol_end_the_connection_only() {
    let _alone = alone();
    attacked(plain(), |host, mut guest, others| {
        guest.share_memory(host);
        guest.start_ring(host, 0);
        guest.start_ring(host, 1);
        // Memory without a descriptor, and no wish for a reply.
        let table = Request::SetMemTable(MemoryTable { regions: vec![region(0, 4096)] });
        guest.connection.try_send(table.to_message(vec![])).unwrap();
        assert!(guest.is_closed(host));
        let logged = host.context.logged.last().unwrap();
        assert!(logged.contains("SET_MEM_TABLE") && logged.contains("disconnected"), "{logged}");
        others.pass();
    });
}

/// CVE-2019-14818, CVE-2022-0669: descriptors over and over, until the peer goes.
#[test]
fn descriptors_do_not_pile_up() {
    let _alone = alone();
    attacked(plain(), |host, mut guest, others| {
        guest.share_memory(host);
        guest.start_ring(host, 1);
        let before = open_fds();
        let mut channel = None;
        for _ in 0..20 {
            let fd = VringFd { index: 1, has_fd: true };
            guest.ask(host, Request::SetVringCall(fd), vec![event_fd()]);
            guest.ask(host, Request::SetVringErr(fd), vec![event_fd()]);
            guest.ask(host, Request::SetVringKick(fd), vec![event_fd()]);
            let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            guest.ask(host, Request::SetBackendReqFd, vec![theirs.into()]);
            channel = Some(ours);
            guest.share_memory(host);
        }
        // Call, err and kick, each once more for a switch that takes over; both ends of the socket and the context's
        // duplicate of one.
        assert!(open_fds() <= before + 9, "{} descriptors after {before}", open_fds());
        guest.send(1, &frame(1, 60));
        others.bob.post(0, 1, 1600);
        assert_eq!(host.forward(0, &mut others.right, 0), 1);
        others.bob.used(0);
        // The front-end goes, its end of that socket stays.
        drop(guest);
        host.until("noticed", |host| host.context.logged.last().unwrap().contains("disconnected"));
        assert_eq!(host.context.watched(), 2);
        drop(channel);
    });
}

#[test]
fn memory_that_was_replaced_is_unmapped() {
    let _alone = alone();
    for features in layouts() {
        attacked(features, |host, mut guest, others| {
            let mapped = || std::fs::read_to_string("/proc/self/maps").unwrap().matches("memfd:gone").count();
            let file = sealed_memfd(c"gone", 0x1_0000).unwrap();
            guest.share_memory(host);
            guest.start_ring(host, 0);
            guest.start_ring(host, 1);
            guest.add_region(host, region(1 << 40, 0x1_0000), &file);
            // Used by both directions, so that both have seen it.
            for (index, direction) in [(0, Direction::FromDevice), (1, Direction::ToDevice)] {
                let cookie = guest.queues[&index].next;
                guest.add(index, &[Buffer { address: 1 << 40, len: 200, cookie }], direction);
            }
            others.alice.send(1, &frame(1, 60));
            assert_eq!(others.left.forward(0, host, 0), 1);
            others.alice.used(1);
            others.bob.post(0, 1, 1600);
            assert_eq!(host.forward(0, &mut others.right, 0), 1);
            others.bob.used(0);
            assert_eq!(mapped(), 1);
            guest.share_memory(host);
            // By a thread of the port.
            let deadline = common::deadline();
            while mapped() > 0 {
                assert!(std::time::Instant::now() < deadline, "it is still mapped");
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
    }
}

/// Control commands that are too long, have no room for an answer, or come on a malformed ring.
#[test]
fn control_commands_that_nobody_can_obey() {
    let _alone = alone();
    for features in layouts() {
        attacked(features.union(Features::NET_CTRL_VQ), |host, mut guest, others| {
            guest.share_memory(host);
            guest.start_ring(host, 2);
            let piece = |address, len| Piece { address, len };
            let answer = DATA + DATA_BYTES - 1;
            guest.write(answer, &[0xff]);
            guest.add_chain(2, &[piece(DATA, 64 * 1024 + 1)], &[piece(answer, 1)]);
            guest.add_chain(2, &[piece(DATA, 2)], &[]);
            guest.add_chain(2, &[], &[piece(answer, 1)]);
            let mut written = Vec::new();
            host.until("three answers", |_| {
                written.extend(guest.used(2).iter().map(|used| used.written));
                written.len() == 3
            });
            assert_eq!(written, [1, 0, 1]);
            assert_eq!(guest.read(answer, 1), [1]);
            // Bytes that no command has, many at once.
            for at in 0..30 {
                guest.write(DATA + at, &[at as u8]);
                guest.add_chain(2, &[piece(DATA, at as u32)], &[piece(answer, 1)]);
            }
            host.until("thirty answers", |_| {
                written.extend(guest.used(2).iter().map(|used| used.written));
                written.len() == 33
            });
            others.pass();
            guest.add_chain(2, &[piece(1 << 50, 2)], &[piece(answer, 1)]);
            host.until("stopped", |host| host.context.logged.last().unwrap().contains("reset the device"));
            host.turn();
            others.pass();
        });
    }
}
