//! Files and descriptors: too short, no memory, no eventfd, truncated, too many.
use super::*;

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

/// A mapped file that its owner shortens reads as zeros; the process lives on.
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
        // duplicate of one. The port closes replaced descriptors on another thread.
        host.until("replaced descriptors closed", |_| open_fds() <= before + 9);
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
